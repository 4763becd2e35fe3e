//! Many hosts at once, but not all of very many.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Does the work for each, and gives what came of it in their order.
pub fn all_at_once<T: Sync, R: Send>(hosts: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(hosts.len()));
    std::thread::scope(|scope| {
        for _ in 0..hosts.len().min(MAX) {
            scope.spawn(|| {
                while let Some((at, host)) = take(hosts, &next) {
                    let result = work(host);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((at, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

fn take<'a, T>(hosts: &'a [T], next: &AtomicUsize) -> Option<(usize, &'a T)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    hosts.get(at).map(|host| (at, host))
}

/// Each is a process of ssh here, and may be the program on its way.
const MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_in_the_order_of_the_hosts() {
        let hosts: Vec<usize> = (0..100).collect();
        let doubled: Vec<usize> = hosts.iter().map(|host| host * 2).collect();
        assert_eq!(all_at_once(&hosts, |host| host * 2), doubled);
        assert!(all_at_once(&[], |host: &usize| *host).is_empty());
    }
}
