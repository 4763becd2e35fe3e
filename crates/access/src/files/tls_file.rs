//! Files of TLS: certificates, and the keys that belong to them.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::tls::Files;

use super::error::{FileError, FileErrorKind};
use super::secret_file::{OTHERS, SecretFile};

/// Where a server's are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// Its certificate, and those that lead from it to an authority.
    pub certificate: PathBuf,
    /// The certificate's private key.
    pub key: PathBuf,
    /// Whose signatures make callers' certificates good.
    pub client_ca: Option<PathBuf>,
}

/// What is in them.
pub struct Contents {
    certificate: Vec<u8>,
    key: String,
    client_ca: Option<Vec<u8>>,
}

impl Paths {
    /// Reads them all.
    pub fn read(&self) -> Result<Contents, FileError> {
        Ok(Contents {
            certificate: certificate(&self.certificate)?,
            key: key(&self.key)?,
            client_ca: self.client_ca.as_deref().map(certificate).transpose()?,
        })
    }
}

impl Contents {
    /// As [`crate::tls::Tls`] takes them.
    pub fn files(&self) -> Files<'_> {
        Files {
            certificate: &self.certificate,
            key: self.key.as_bytes(),
            client_ca: self.client_ca.as_deref(),
        }
    }
}

/// A file with certificates, which are no secret.
pub fn certificate(path: &Path) -> Result<Vec<u8>, FileError> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_BYTES).read_to_end(&mut bytes));
    let unreadable = |error| FileError::new("certificate", path, FileErrorKind::Unreadable(error));
    read.map(|_| bytes).map_err(unreadable)
}

/// A file with a private key.
pub fn key(path: &Path) -> Result<String, FileError> {
    KEY.read(path)
}

const KEY: SecretFile = SecretFile { name: "private key", open_to: OTHERS, max_bytes: MAX_BYTES };
/// All roots that a system trusts take less.
const MAX_BYTES: u64 = 1 << 20;
