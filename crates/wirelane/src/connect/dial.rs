//! Makes the link, within a time limit whatever a resolver or a device does.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fabric::Kind;
use fabric::link::{Endpoint, Link};

use super::peer::Peer;
use crate::exit::{self, Failure};
use crate::output;

/// Connects by the first of the peer's addresses that answers.
pub(super) fn dial(endpoint: &Endpoint, peer: &Peer, limit: Duration) -> Result<Link, Failure> {
    let answer = Arc::new(Answer::default());
    let (endpoint, to, said) = (endpoint.clone(), peer.clone(), answer.clone());
    // Names and devices are asked on another thread, which may hang there.
    let work = move || said.give(try_addresses(&endpoint, &to, limit));
    let thread = std::thread::Builder::new().name("wirelane-dial".to_owned()).spawn(work);
    thread.map_err(|error| Failure::failed(format!("start a thread: {error}")))?;
    let begun = Instant::now();
    let mut link = answer.wait(SOON);
    if link.is_none() {
        output::progress(&format!("connecting to {peer}, for {} s at most …", limit.as_secs_f64()));
        link = answer.wait((limit + SLACK).saturating_sub(begun.elapsed()));
    }
    link.unwrap_or_else(|| {
        exit::at_once(Err(Failure::failed(format!(
            "connect to {peer}: an RDMA device of this machine, or the resolver, does not answer — look at \
             the kernel's log, or try --transport tcp"
        ))))
    })
}

/// What comes of it, told by one thread to another. A channel would not do: waiting for one asks the dynamic
/// linker for something, which hangs if the other thread hangs there.
#[derive(Default)]
struct Answer {
    given: Mutex<Option<Result<Link, Failure>>>,
    bell: Condvar,
}

impl Answer {
    fn give(&self, link: Result<Link, Failure>) {
        *self.given.lock().unwrap_or_else(PoisonError::into_inner) = Some(link);
        self.bell.notify_one();
    }

    fn wait(&self, limit: Duration) -> Option<Result<Link, Failure>> {
        let given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.bell.wait_timeout_while(given, limit, |given| given.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.take()
    }
}

fn try_addresses(endpoint: &Endpoint, peer: &Peer, limit: Duration) -> Result<Link, Failure> {
    let begun = Instant::now();
    let mut last = Failure::failed(format!("connect to {peer}: no time was left"));
    for address in peer.resolve()? {
        let left = limit.saturating_sub(begun.elapsed());
        if left.is_zero() {
            break;
        }
        match endpoint.connect(address, left) {
            Ok(link) => return Ok(link),
            Err(error) => match error.kind() {
                // Somebody is there, and says no.
                Kind::Denied | Kind::Unsupported | Kind::Full => return Err(error.into()),
                // Also `Misuse`: something else answers there.
                _ => last = Failure::failed(error.to_string()),
            },
        }
    }
    Err(last)
}

/// How long to wait before saying so.
const SOON: Duration = Duration::from_secs(1);
/// What the parts may take beyond their limit.
const SLACK: Duration = Duration::from_secs(2);
