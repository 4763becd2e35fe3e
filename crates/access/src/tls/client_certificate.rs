//! A client's certificate, verified at the handshake and again later.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustls::pki_types::CertificateDer;

use super::name;

/// The chain from the handshake, and its last verification.
#[derive(Debug)]
pub struct ClientCertificate {
    name: Option<Box<str>>,
    chain: Vec<CertificateDer<'static>>,
    verified: Mutex<Verified>,
}

#[derive(Debug, Clone, Copy)]
struct Verified {
    at: Instant,
    /// Identifies the CAs that were trusted then.
    authority: u64,
}

impl ClientCertificate {
    /// A certificate that the handshake has just verified.
    pub(super) fn new(chain: &[CertificateDer<'static>], authority: u64, at: Instant) -> Self {
        let name = chain.first().and_then(name::of).map(Into::into);
        let verified = Mutex::new(Verified { at, authority });
        ClientCertificate { name, chain: chain.to_vec(), verified }
    }

    /// The name of its holder, if it has a usable one.
    pub(super) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Whether it is valid for the CAs trusted now: verified again unless that was done within [`REVERIFY_INTERVAL`].
    pub(super) fn is_valid(
        &self,
        authority: u64,
        now: Instant,
        verify: impl FnOnce(&[CertificateDer<'static>]) -> bool,
    ) -> bool {
        let mut verified = self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        if verified.authority == authority && now.duration_since(verified.at) < REVERIFY_INTERVAL {
            return true;
        }
        let is_valid = verify(&self.chain);
        if is_valid {
            *verified = Verified { at: now, authority };
        }
        is_valid
    }
}

const REVERIFY_INTERVAL: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_verified_again_for_other_cas_and_after_the_interval() {
        let now = Instant::now();
        let certificate = ClientCertificate::new(&[], 1, now);
        let cached = || unreachable!("it was verified just now");
        assert!(certificate.is_valid(1, now, |_| cached()));
        assert!(!certificate.is_valid(2, now, |_| false));
        assert!(certificate.is_valid(1, now, |_| cached()));
        assert!(certificate.is_valid(2, now, |_| true));
        assert!(!certificate.is_valid(1, now, |_| false), "the former CAs verify again");
        let later = now + REVERIFY_INTERVAL;
        assert!(!certificate.is_valid(2, later, |_| false), "it may have expired");
        assert!(certificate.is_valid(2, later, |_| true));
        assert!(certificate.is_valid(2, later, |_| cached()));
    }
}
