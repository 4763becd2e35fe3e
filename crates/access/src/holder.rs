//! Somebody who may use the store.

use fabric::session::Key;

use super::Scope;

/// An identity, by what it is proved, and what it may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// As it is shown in reports.
    pub name: String,
    /// By what it is known.
    pub proof: Proof,
    /// What it may do.
    pub scope: Scope,
}

/// By what somebody is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    /// By nothing: it is whoever calls.
    Nothing,
    /// By a secret: a key, or the key of a token.
    Key(Key),
    /// By a certificate with this name.
    Certificate,
}

impl Holder {
    /// The name of those who show nothing, as the handshake of links has it.
    pub const ANONYMOUS: &str = "anonymous";

    /// Whoever calls, and may do everything.
    pub fn anonymous() -> Self {
        let name = Self::ANONYMOUS.to_owned();
        Holder { name, proof: Proof::Nothing, scope: Scope::everything() }
    }

    /// Who has this key.
    pub fn keyed(key: Key, scope: Scope) -> Self {
        Holder { name: key.name().to_owned(), proof: Proof::Key(key), scope }
    }

    /// Who has a certificate with this name.
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
