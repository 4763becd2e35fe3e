//! Identities that may use the store.

use fabric::session::Key;

use super::Scope;

/// An identity, its credentials and its permissions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Shown in reports.
    pub name: String,
    /// How it authenticates.
    pub proof: Proof,
    /// What it may do.
    pub scope: Scope,
}

/// How an identity authenticates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    /// Not at all: every caller.
    Nothing,
    /// With a secret: a key, or the key of a token.
    Key(Key),
    /// With a certificate of the holder's name.
    Certificate,
}

impl Holder {
    /// The name of callers without credentials, the same as in the handshake of links.
    pub const ANONYMOUS: &str = "anonymous";

    /// Every caller, with access to everything.
    pub fn anonymous() -> Self {
        let name = Self::ANONYMOUS.to_owned();
        Holder { name, proof: Proof::Nothing, scope: Scope::everything() }
    }

    /// The holder of this key.
    pub fn keyed(key: Key, scope: Scope) -> Self {
        Holder { name: key.name().to_owned(), proof: Proof::Key(key), scope }
    }

    /// The holder of a certificate with this name.
    pub fn certified(name: &str, scope: Scope) -> Self {
        Holder { name: name.to_owned(), proof: Proof::Certificate, scope }
    }
}

impl Proof {
    pub(super) fn key(&self) -> Option<&Key> {
        match self {
            Proof::Key(key) => Some(key),
            Proof::Nothing | Proof::Certificate => None,
        }
    }
}
