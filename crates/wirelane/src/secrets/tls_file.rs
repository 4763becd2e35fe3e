//! Files of TLS: certificates, and the keys that belong to them.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use access::tls::{Files, Wrong};

use crate::output::Failure;
use crate::secrets::secret_file::{self, Kind, OTHERS};

/// Where a server's are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Paths {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) client_ca: Option<PathBuf>,
}

/// What is in them.
pub(crate) struct Contents {
    certificate: Vec<u8>,
    key: String,
    client_ca: Option<Vec<u8>>,
}

impl Paths {
    pub(crate) fn read(&self) -> Result<Contents, Failure> {
        Ok(Contents {
            certificate: certificate(&self.certificate)?,
            key: key(&self.key)?,
            client_ca: self.client_ca.as_deref().map(certificate).transpose()?,
        })
    }

    /// What is wrong with them, in words.
    pub(crate) fn failure(&self, wrong: &Wrong) -> Failure {
        let Paths { certificate, key, .. } = self;
        Failure::usage(format!(
            "use the certificate {} with the key {}: {wrong} — see --tls-cert, --tls-key and --tls-client-ca",
            certificate.display(),
            key.display()
        ))
    }
}

impl Contents {
    pub(crate) fn files(&self) -> Files<'_> {
        Files {
            certificate: &self.certificate,
            key: self.key.as_bytes(),
            client_ca: self.client_ca.as_deref(),
        }
    }
}

/// A file with certificates, which are no secret.
pub(crate) fn certificate(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_BYTES).read_to_end(&mut bytes));
    match read {
        Ok(_) => Ok(bytes),
        Err(error) => {
            let path = path.display();
            Err(Failure::failed(format!("read the certificate {path}: {error} — check the path")))
        }
    }
}

/// A file with a private key.
pub(crate) fn key(path: &Path) -> Result<String, Failure> {
    secret_file::read(path, &KEY)
}

const KEY: Kind =
    Kind { name: "private key", given: "--tls-key", open_to: OTHERS, max_bytes: MAX_BYTES };
/// All roots that a system trusts take less.
const MAX_BYTES: u64 = 1 << 20;
