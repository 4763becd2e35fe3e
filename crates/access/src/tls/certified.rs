//! A caller's certificate, which was good once.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustls::pki_types::CertificateDer;

use super::name;

/// What was shown at the handshake, and when and by whom it was last found to be good.
#[derive(Debug)]
pub struct Certified {
    name: Option<Box<str>>,
    chain: Vec<CertificateDer<'static>>,
    verified: Mutex<Verified>,
}

#[derive(Debug, Clone, Copy)]
struct Verified {
    at: Instant,
    /// Stands for those who were trusted then.
    authority: u64,
}

impl Certified {
    /// One that a handshake has just found to be good.
    pub(super) fn new(chain: &[CertificateDer<'static>], authority: u64, at: Instant) -> Self {
        let name = chain.first().and_then(name::of).map(Into::into);
        let verified = Mutex::new(Verified { at, authority });
        Certified { name, chain: chain.to_vec(), verified }
    }

    /// The name by which it knows its holder, if it has one that can be used.
    pub(super) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Whether it still is, by those who are trusted now: it is verified by them unless they have done so lately.
    pub(super) fn is_good(
        &self,
        authority: u64,
        now: Instant,
        verify: impl FnOnce(&[CertificateDer<'static>]) -> bool,
    ) -> bool {
        let mut verified = self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        if verified.authority == authority && now.duration_since(verified.at) < VERIFIED_AGAIN {
            return true;
        }
        let is_good = verify(&self.chain);
        if is_good {
            *verified = Verified { at: now, authority };
        }
        is_good
    }
}

/// How long a certificate is not looked at again.
const VERIFIED_AGAIN: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_verified_again_by_others_and_after_a_while() {
        let now = Instant::now();
        let certified = Certified::new(&[], 1, now);
        let lately = || unreachable!("it was verified just now");
        assert!(certified.is_good(1, now, |_| lately()));
        assert!(!certified.is_good(2, now, |_| false));
        assert!(certified.is_good(1, now, |_| lately()));
        assert!(certified.is_good(2, now, |_| true));
        assert!(!certified.is_good(1, now, |_| false), "those of before are asked again");
        let later = now + VERIFIED_AGAIN;
        assert!(!certified.is_good(2, later, |_| false), "it may have ended");
        assert!(certified.is_good(2, later, |_| true));
        assert!(certified.is_good(2, later, |_| lately()));
    }
}
