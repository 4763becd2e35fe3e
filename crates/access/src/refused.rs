//! Why somebody may not, and how often that was so.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Why somebody may not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// It shows nothing by which it could be known.
    NoCredentials,
    /// It shows a token that nobody here has.
    WrongToken,
    /// It shows a certificate that is not good here, or of a name that is not known.
    WrongCertificate,
    /// It may not do this, or not with this key.
    Scope,
    /// It asks more often than it may.
    Rate,
}

impl Refused {
    /// All of them, for reports.
    pub const ALL: [Refused; 5] = [
        Refused::NoCredentials,
        Refused::WrongToken,
        Refused::WrongCertificate,
        Refused::Scope,
        Refused::Rate,
    ];

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Refused::NoCredentials => "no_credentials",
            Refused::WrongToken => "wrong_token",
            Refused::WrongCertificate => "wrong_certificate",
            Refused::Scope => "scope",
            Refused::Rate => "rate",
        }
    }
}

/// How often each was so.
#[derive(Debug, Default)]
pub struct Refusals {
    counts: [AtomicU64; Refused::ALL.len()],
}

impl Refusals {
    /// How often.
    pub fn of(&self, refused: Refused) -> u64 {
        self.counts[refused as usize].load(Relaxed)
    }

    /// Counts one.
    pub fn count(&self, refused: Refused) {
        self.counts[refused as usize].fetch_add(1, Relaxed);
    }
}
