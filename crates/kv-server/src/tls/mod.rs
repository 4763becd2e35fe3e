//! TLS at the doors for callers by gRPC and HTTP: the server's certificate, and whose certificates it takes.
//!
//! It reads no file: the program brings their contents. Who shows no certificate is let in here, and asked for
//! something else behind the door, since that can be said in words there.
//!
//! Start at [`Tls`]; what a certificate's name is, is in `name`.

mod name;
mod pem;

use std::io;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::crypto::ring;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::access::{Access, Refused};
pub use pem::{Wrong, certificates, private_key, roots};

/// What a server shows and takes, as files have it.
#[derive(Clone, Copy)]
pub struct Files<'f> {
    /// Its certificate, and those between it and the root: PEM.
    pub certificate: &'f [u8],
    /// The certificate's private key: PEM.
    pub key: &'f [u8],
    /// Whose certificates callers may show: PEM. None: they are not asked.
    pub client_ca: Option<&'f [u8]>,
}

/// One server's TLS, for one protocol.
#[derive(Debug)]
pub struct Tls {
    config: RwLock<Arc<ServerConfig>>,
}

impl Tls {
    /// For HTTP/2, which gRPC needs.
    pub fn http2(files: Files<'_>) -> Result<Self, Wrong> {
        Tls::new(files, b"h2")
    }

    /// For HTTP/1.1.
    pub fn http1(files: Files<'_>) -> Result<Self, Wrong> {
        Tls::new(files, b"http/1.1")
    }

    fn new(files: Files<'_>, protocol: &[u8]) -> Result<Self, Wrong> {
        Ok(Tls { config: RwLock::new(configure(files, protocol)?) })
    }

    /// From now on as a fresh one; connections that are there stay.
    pub fn replace(&self, fresh: Tls) {
        let fresh = fresh.config.into_inner().unwrap_or_else(PoisonError::into_inner);
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = fresh;
    }

    /// Shakes hands, and says by which name the caller's certificate knows it. A certificate that is not good is
    /// counted as refused.
    pub async fn accept(
        &self,
        stream: TcpStream,
        access: &Access,
    ) -> io::Result<(TlsStream<TcpStream>, Option<Arc<str>>)> {
        let config = self.config.read().unwrap_or_else(PoisonError::into_inner).clone();
        let accepted = timeout(PATIENCE, TlsAcceptor::from(config).accept(stream)).await?;
        let stream = accepted.inspect_err(|error| {
            if is_about_certificate(error) {
                access.refusals().count(Refused::WrongCertificate);
            }
        })?;
        let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        let name = shown.and_then(name::of).map(Arc::from);
        Ok((stream, name))
    }
}

fn configure(files: Files<'_>, protocol: &[u8]) -> Result<Arc<ServerConfig>, Wrong> {
    let Files { certificate, key, client_ca } = files;
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone());
    let builder = builder.with_safe_default_protocol_versions().map_err(Wrong::of)?;
    let builder = match client_ca {
        None => builder.with_no_client_auth(),
        Some(ca) => {
            let roots: Arc<RootCertStore> = roots(ca)?;
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
            let verifier = verifier.allow_unauthenticated().build().map_err(Wrong::of)?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let config = builder.with_single_cert(certificates(certificate)?, private_key(key)?);
    let mut config = config.map_err(Wrong::of)?;
    config.alpn_protocols = vec![protocol.to_vec()];
    Ok(Arc::new(config))
}

fn is_about_certificate(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    matches!(inner, Some(rustls::Error::InvalidCertificate(_)))
}

/// For the handshake.
const PATIENCE: Duration = Duration::from_secs(10);
