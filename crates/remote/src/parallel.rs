//! Work on many hosts in parallel, up to a limit.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Does the work for each host, and returns the results in the order of the hosts.
pub fn in_parallel<T: Sync, R: Send>(hosts: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(hosts.len()));
    std::thread::scope(|scope| {
        for _ in 0..hosts.len().min(MAX_THREADS) {
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

/// Each is a process of ssh here, which may be copying this program.
const MAX_THREADS: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_hosts() {
        let hosts: Vec<usize> = (0..100).collect();
        let doubled: Vec<usize> = hosts.iter().map(|host| host * 2).collect();
        assert_eq!(in_parallel(&hosts, |host| host * 2), doubled);
        assert!(in_parallel(&[], |host: &usize| *host).is_empty());
    }
}
