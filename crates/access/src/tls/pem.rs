//! Certificates and keys in PEM.

use std::fmt;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Why certificates or keys cannot be used. Does not contain any of their content.
#[derive(Debug, PartialEq, Eq)]
pub struct TlsError(String);

impl TlsError {
    /// An error with this reason.
    pub fn of(reason: impl fmt::Display) -> Self {
        TlsError(reason.to_string())
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TlsError {}

/// All certificates of a file, in order.
pub fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        _ => Err(TlsError::of("no PEM certificate found (-----BEGIN CERTIFICATE-----)")),
    }
}

/// The private key of a file.
pub fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
    // The parser's error is not shown: it may contain a part of the key.
    PrivateKeyDer::from_pem_slice(pem)
        .map_err(|_| TlsError::of("no PEM private key found (-----BEGIN PRIVATE KEY-----)"))
}

/// The trusted CAs of a file.
pub fn roots(pem: &[u8]) -> Result<Arc<RootCertStore>, TlsError> {
    let mut roots = RootCertStore::empty();
    for root in certificates(pem)? {
        roots.add(root).map_err(TlsError::of)?;
    }
    Ok(Arc::new(roots))
}
