//! Reasons of refusals, and their counters.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Why a caller is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// No token and no certificate.
    NoCredentials,
    /// An unknown token.
    WrongToken,
    /// A certificate that is not valid, or whose name is unknown.
    WrongCertificate,
    /// The operation or the key is outside the caller's scope.
    Scope,
    /// The rate limit is exceeded.
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

/// A counter for each reason.
#[derive(Debug, Default)]
pub struct Refusals {
    counts: [AtomicU64; Refused::ALL.len()],
}

impl Refusals {
    /// The count of one reason.
    pub fn of(&self, refused: Refused) -> u64 {
        self.counts[refused as usize].load(Relaxed)
    }

    /// Counts one refusal.
    pub fn count(&self, refused: Refused) {
        self.counts[refused as usize].fetch_add(1, Relaxed);
    }
}
