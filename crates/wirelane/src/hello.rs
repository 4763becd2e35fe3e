//! What the measuring service of `serve` says first, and what it does with what it hears: it lets the
//! caller write and read [`SCRATCH`] bytes, and sends messages of up to [`MOST_ECHO`] bytes back.

use fabric::RemoteRegion;

use crate::exit::Failure;

/// The first message: a version, and memory to write to and read from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hello {
    pub(crate) scratch: RemoteRegion,
}

impl Hello {
    /// How many bytes it is.
    pub(crate) const LENGTH: usize = 1 + RemoteRegion::ENCODED;
    const VERSION: u8 = 1;

    pub(crate) fn to_bytes(self) -> [u8; Self::LENGTH] {
        let mut bytes = [Self::VERSION; Self::LENGTH];
        bytes[1..].copy_from_slice(&self.scratch.to_bytes());
        bytes
    }

    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Failure> {
        match bytes.split_first() {
            Some((&Self::VERSION, region)) => {
                let scratch = RemoteRegion::from_bytes(region)
                    .map_err(|error| Failure::failed(error.to_string()))?;
                Ok(Hello { scratch })
            }
            _ => Err(Failure::failed(
                "the peer does not measure as this version does: run the same version at both ends, \
                 or connect with --no-measure",
            )),
        }
    }
}

pub(crate) const SCRATCH: usize = 4 << 20;
pub(crate) const MOST_ECHO: usize = 64 << 10;
