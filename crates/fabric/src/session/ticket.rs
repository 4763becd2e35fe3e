//! A secret that is good for one session.

use super::key::{KeyId, Secret};
use crate::error::{Error, Kind};
use crate::grants::random;

/// What a [`super::Keyring`] issues and one caller shows once. Its bytes travel over a path that is
/// trusted already: whoever reads them can be that caller.
#[derive(Debug, Clone)]
pub struct Ticket {
    pub(super) id: KeyId,
    pub(super) secret: Secret,
}

impl Ticket {
    /// A new one.
    pub(super) fn random() -> Result<Self, Error> {
        Ok(Ticket { id: random()?.to_le_bytes(), secret: random_secret()? })
    }

    /// As it travels: the id, then the secret.
    pub fn to_bytes(&self) -> [u8; 48] {
        let mut bytes = [0; 48];
        bytes[..16].copy_from_slice(&self.id);
        bytes[16..].copy_from_slice(self.secret.bytes());
        bytes
    }

    /// One that travelled.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let parts = bytes.split_first_chunk().and_then(|(id, secret)| {
            Some(Ticket { id: *id, secret: Secret::new(secret.try_into().ok()?) })
        });
        parts.ok_or_else(|| {
            let why = format!("a ticket has 48 bytes, this has {}", bytes.len());
            Error::new(Kind::Misuse, "read a ticket", why, "carry the ticket's bytes as they are")
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
    fn a_ticket_travels_and_does_not_show_its_secret() {
        let ticket = Ticket { id: [7; 16], secret: Secret::new([231; 32]) };
        let bytes = ticket.to_bytes();
        assert_eq!(Ticket::from_bytes(&bytes).unwrap().to_bytes(), bytes);
        assert!(!format!("{ticket:?}").contains("231"));
        for bad in [&bytes[1..], &[&bytes[..], &[0]].concat(), &[]] {
            assert_eq!(Ticket::from_bytes(bad).unwrap_err().kind(), Kind::Misuse);
        }
    }
}
