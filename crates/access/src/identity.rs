//! Identities that may use the store.

use fabric::session::Key;

use super::Scope;

/// An identity, its credentials and its permissions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Shown in reports.
    pub name: String,
    /// How it authenticates.
    pub credential: Credential,
    /// What it may do.
    pub scope: Scope,
}

/// How an identity authenticates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credential {
    /// Not at all: every caller.
    Nothing,
    /// With a secret: a key, or the key of a token.
    Key(Key),
    /// With a certificate of the identity's name.
    Certificate,
}

impl Identity {
    /// The name of callers without credentials, the same as in the handshake of links.
    pub const ANONYMOUS: &str = "anonymous";

    /// Every caller, with access to everything.
    pub fn anonymous() -> Self {
        let name = Self::ANONYMOUS.to_owned();
        Identity { name, credential: Credential::Nothing, scope: Scope::everything() }
    }

    /// The identity with this key.
    pub fn keyed(key: Key, scope: Scope) -> Self {
        Identity { name: key.name().to_owned(), credential: Credential::Key(key), scope }
    }

    /// The identity with certificates of this name.
    pub fn certified(name: &str, scope: Scope) -> Self {
        Identity { name: name.to_owned(), credential: Credential::Certificate, scope }
    }
}

impl Credential {
    pub(super) fn key(&self) -> Option<&Key> {
        match self {
            Credential::Key(key) => Some(key),
            Credential::Nothing | Credential::Certificate => None,
        }
    }
}
