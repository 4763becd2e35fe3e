//! Offers of shared-memory lanes.

use crate::error::{Error, ErrorKind};

/// Version 1: version, whether it accepts, boot id, name of the socket, secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) accepts: bool,
    /// The kernel's boot id: the same for all processes of a host.
    pub(super) boot: [u8; 16],
    /// Of the accepting end's socket. Visible to every process of the host.
    pub(super) name: u128,
    /// The lane secret of this end: who sends it has the offer.
    pub(super) secret: u128,
}

impl Offer {
    const VERSION: u8 = 1;

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![Self::VERSION, u8::from(self.accepts)];
        bytes.extend(self.boot);
        bytes.extend(self.name.to_le_bytes());
        bytes.extend(self.secret.to_le_bytes());
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        Self::parse(bytes).ok_or_else(|| {
            let fix = "pass on the peer's offer unchanged; both ends must run compatible versions";
            Error::new(ErrorKind::Misuse, "read a shared-memory offer", "invalid format", fix)
        })
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (&[version, accepts], rest) = bytes.split_first_chunk()?;
        let (boot, rest) = rest.split_first_chunk()?;
        let (name, rest) = rest.split_first_chunk()?;
        let secret = u128::from_le_bytes(rest.try_into().ok()?);
        (version == Self::VERSION && accepts <= 1).then_some(Offer {
            accepts: accepts == 1,
            boot: *boot,
            name: u128::from_le_bytes(*name),
            secret,
        })
    }
}

/// The boot id of the kernel.
pub(crate) fn boot_id() -> Result<[u8; 16], Error> {
    const FILE: &str = "/proc/sys/kernel/random/boot_id";
    let failed =
        |why: String| Error::new(ErrorKind::System, format!("read {FILE}"), why, "mount /proc");
    let text = std::fs::read_to_string(FILE).map_err(|error| failed(error.to_string()))?;
    let digits: String = text.trim().chars().filter(|c| *c != '-').collect();
    let number = u128::from_str_radix(&digits, 16).map_err(|error| failed(error.to_string()))?;
    Ok(number.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoded_offer_is_decoded_unchanged() {
        let offer = Offer { accepts: true, boot: boot_id().unwrap(), name: 5, secret: 77 };
        assert_eq!(Offer::from_bytes(&offer.to_bytes()), Ok(offer.clone()));
        let good = offer.to_bytes();
        for bad in [&good[..49], &[&good[..], &[0]].concat(), &[], &[9; 50]] {
            Offer::from_bytes(bad).expect_err("an invalid offer");
        }
    }
}
