//! A secret for one session.

use super::key::{KeyId, Secret};
use crate::error::{Error, ErrorKind};
use crate::grants::random;

/// A secret issued by a [`super::Keyring`], which one initiator can use once. Pass its bytes over an authenticated and
/// encrypted connection: everyone who reads them can be that initiator.
#[derive(Debug, Clone)]
pub struct Ticket {
    pub(super) id: KeyId,
    pub(super) secret: Secret,
}

impl Ticket {
    /// A new ticket.
    pub(super) fn random() -> Result<Self, Error> {
        Ok(Ticket { id: random()?.to_le_bytes(), secret: random_secret()? })
    }

    /// The encoding: the id, then the secret.
    pub fn to_bytes(&self) -> [u8; 48] {
        let mut bytes = [0; 48];
        bytes[..16].copy_from_slice(&self.id);
        bytes[16..].copy_from_slice(self.secret.bytes());
        bytes
    }

    /// Decodes a ticket.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let parts = bytes.split_first_chunk().and_then(|(id, secret)| {
            Some(Ticket { id: *id, secret: Secret::new(secret.try_into().ok()?) })
        });
        parts.ok_or_else(|| {
            let why = format!("a ticket has 48 bytes, this has {}", bytes.len());
            Error::new(ErrorKind::Misuse, "read a ticket", why, "pass the ticket's bytes unchanged")
        })
    }
}

pub(super) fn random_secret() -> Result<Secret, Error> {
    let mut secret = [0; 32];
    secret[..16].copy_from_slice(&random()?.to_le_bytes());
    secret[16..].copy_from_slice(&random()?.to_le_bytes());
    Ok(Secret::new(secret))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_survives_encoding_and_does_not_print_its_secret() {
        let ticket = Ticket { id: [7; 16], secret: Secret::new([231; 32]) };
        let bytes = ticket.to_bytes();
        assert_eq!(Ticket::from_bytes(&bytes).unwrap().to_bytes(), bytes);
        assert!(!format!("{ticket:?}").contains("231"));
        for bad in [&bytes[1..], &[&bytes[..], &[0]].concat(), &[]] {
            assert_eq!(Ticket::from_bytes(bad).unwrap_err().kind(), ErrorKind::Misuse);
        }
    }
}
