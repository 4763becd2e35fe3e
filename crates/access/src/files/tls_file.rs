//! Files for TLS: certificates and private keys.

use std::io::Read;
use std::path::{Path, PathBuf};

use crate::tls::Files;

use super::error::{FileError, FileErrorKind};
use super::input_file::InputFile;
use super::secret_file::{OTHERS, SecretFile};

/// The paths of a server's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// Its certificate chain.
    pub certificate: PathBuf,
    /// The certificate's private key.
    pub key: PathBuf,
    /// The CAs that sign clients' certificates.
    pub client_ca: Option<PathBuf>,
}

/// The contents of these files.
pub struct Contents {
    certificate: Vec<u8>,
    key: String,
    client_ca: Option<Vec<u8>>,
}

impl Paths {
    /// Reads all files.
    pub fn read(&self) -> Result<Contents, FileError> {
        Ok(Contents {
            certificate: certificate(&self.certificate)?,
            key: key(&self.key)?,
            client_ca: self.client_ca.as_deref().map(certificate).transpose()?,
        })
    }
}

impl Contents {
    /// For [`crate::tls::Tls`].
    pub fn files(&self) -> Files<'_> {
        Files {
            certificate: &self.certificate,
            key: self.key.as_bytes(),
            client_ca: self.client_ca.as_deref(),
        }
    }
}

/// Reads a file with certificates, which need not be secret.
pub fn certificate(path: &Path) -> Result<Vec<u8>, FileError> {
    let mut bytes = Vec::new();
    let read = InputFile::open(path).and_then(|file| file.take(MAX_BYTES).read_to_end(&mut bytes));
    let unreadable = |error| FileError::new("certificate", path, FileErrorKind::Unreadable(error));
    read.map(|_| bytes).map_err(unreadable)
}

/// Reads a file with a private key.
pub fn key(path: &Path) -> Result<String, FileError> {
    KEY.read(path)
}

const KEY: SecretFile = SecretFile { name: "private key", forbidden: OTHERS, max_bytes: MAX_BYTES };
/// More than all root certificates of a system have.
const MAX_BYTES: u64 = 1 << 20;
