//! Certificates and keys as files have them.

use std::fmt;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Why a file is not good. It shows nothing of what is in it.
#[derive(Debug, PartialEq, Eq)]
pub struct Wrong(String);

impl Wrong {
    /// From what somebody else says of it.
    pub fn of(why: impl fmt::Display) -> Self {
        Wrong(why.to_string())
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Wrong {}

/// All certificates of a file, in order.
pub fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Wrong> {
    let all = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        _ => Err(Wrong::of("there is no certificate in PEM (-----BEGIN CERTIFICATE-----)")),
    }
}

/// The private key of a file.
pub fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, Wrong> {
    // What the parser found is not repeated: it may be a part of the key.
    PrivateKeyDer::from_pem_slice(pem)
        .map_err(|_| Wrong::of("there is no private key in PEM (-----BEGIN PRIVATE KEY-----)"))
}

/// Whom a file says to trust.
pub fn roots(pem: &[u8]) -> Result<Arc<RootCertStore>, Wrong> {
    let mut roots = RootCertStore::empty();
    for root in certificates(pem)? {
        roots.add(root).map_err(Wrong::of)?;
    }
    Ok(Arc::new(roots))
}
