//! TLS for the gRPC and HTTP listeners: the server's certificate, and the CAs whose client certificates it accepts.
//!
//! It reads no file: the program passes their contents. A caller without a certificate completes the handshake, and is refused
//! after it, where the error can have a text.
//!
//! Start at [`Tls`]; a client's certificate is [`ClientCertificate`], its name is read by `name`.

mod alternative_names;
mod client_certificate;
mod der;
mod name;
mod pem;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::{Access, Refused, VerifiedCertificate};
pub use alternative_names::names as alternative_names;
pub use client_certificate::ClientCertificate;
pub use pem::{TlsError, certificates, private_key, roots};

/// The contents of a server's files.
#[derive(Clone, Copy)]
pub struct Files<'f> {
    /// Its certificate chain: PEM.
    pub certificate: &'f [u8],
    /// The certificate's private key: PEM.
    pub key: &'f [u8],
    /// The CAs of client certificates: PEM. `None`: clients are not asked for one.
    pub client_ca: Option<&'f [u8]>,
}

/// One server's TLS, for one protocol.
#[derive(Debug)]
pub struct Tls {
    settings: RwLock<Settings>,
}

/// The current certificate and CAs.
#[derive(Debug, Clone)]
struct Settings {
    config: Arc<ServerConfig>,
    /// Verifies client certificates; `None`: clients are not asked for one.
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    authority: u64,
}

impl Tls {
    /// For HTTP/2, which gRPC needs.
    pub fn http2(files: Files<'_>) -> Result<Self, TlsError> {
        Tls::new(files, b"h2")
    }

    /// For HTTP/1.1.
    pub fn http1(files: Files<'_>) -> Result<Self, TlsError> {
        Tls::new(files, b"http/1.1")
    }

    fn new(files: Files<'_>, protocol: &[u8]) -> Result<Self, TlsError> {
        Ok(Tls { settings: RwLock::new(configure(files, protocol)?) })
    }

    /// Takes over the settings of another. Open connections stay; their client certificates are verified
    /// again at the next call, or a few seconds later.
    pub fn replace(&self, new: Tls) {
        let new = new.settings.into_inner().unwrap_or_else(PoisonError::into_inner);
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = new;
    }

    /// The name of a certificate's holder, if it has one and is still valid: not expired, and signed by a CA that is
    /// trusted now. It is verified again when the CAs change, or after a few seconds. An invalid one is
    /// counted as refused.
    pub fn verify<'c>(
        &self,
        certificate: &'c ClientCertificate,
        access: &Access,
    ) -> Result<Option<VerifiedCertificate<'c>>, Refused> {
        let settings = self.settings.read().unwrap_or_else(PoisonError::into_inner);
        let verify = |chain: &[CertificateDer<'static>]| settings.accepts(chain);
        if !certificate.is_valid(settings.authority, Instant::now(), verify) {
            access.refusals().count(Refused::WrongCertificate);
            return Err(Refused::WrongCertificate);
        }
        let authority = settings.authority;
        Ok(certificate.name().map(|name| VerifiedCertificate { name, authority }))
    }

    /// Identifies the set of trusted CAs: changes when they change.
    pub fn authority(&self) -> u64 {
        self.settings().authority
    }

    fn settings(&self) -> Settings {
        self.settings.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Performs the handshake. Returns the client's certificate, if it sent one. An invalid one is counted as
    /// refused.
    pub async fn accept(
        &self,
        stream: TcpStream,
        access: &Access,
    ) -> io::Result<(TlsStream<TcpStream>, Option<Arc<ClientCertificate>>)> {
        let Settings { config, authority, .. } = self.settings();
        let accepted = timeout(HANDSHAKE_TIMEOUT, TlsAcceptor::from(config).accept(stream)).await?;
        let stream = accepted.inspect_err(|error| {
            if is_about_certificate(error) {
                access.refusals().count(Refused::WrongCertificate);
            }
        })?;
        let chain = stream.get_ref().1.peer_certificates().filter(|chain| !chain.is_empty());
        let certificate =
            chain.map(|chain| Arc::new(ClientCertificate::new(chain, authority, Instant::now())));
        Ok((stream, certificate))
    }
}

impl Settings {
    fn accepts(&self, chain: &[CertificateDer<'_>]) -> bool {
        let Some(verifier) = &self.verifier else { return false };
        let Some((own, between)) = chain.split_first() else { return false };
        verifier.verify_client_cert(own, between, UnixTime::now()).is_ok()
    }
}

fn configure(files: Files<'_>, protocol: &[u8]) -> Result<Settings, TlsError> {
    let Files { certificate, key, client_ca } = files;
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone());
    let builder = builder.with_safe_default_protocol_versions().map_err(TlsError::of)?;
    let verifier = match client_ca {
        None => None,
        Some(ca) => {
            let roots: Arc<RootCertStore> = roots(ca)?;
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
            Some(verifier.allow_unauthenticated().build().map_err(TlsError::of)?)
        }
    };
    let builder = match &verifier {
        None => builder.with_no_client_auth(),
        Some(verifier) => builder.with_client_cert_verifier(verifier.clone()),
    };
    let config = builder.with_single_cert(certificates(certificate)?, private_key(key)?);
    let mut config = config.map_err(TlsError::of)?;
    config.alpn_protocols = vec![protocol.to_vec()];
    // A resumed session sends no certificate, and so could outlive it.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    let mut hasher = DefaultHasher::new();
    client_ca.hash(&mut hasher);
    Ok(Settings { config: Arc::new(config), verifier, authority: hasher.finish() })
}

fn is_about_certificate(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    matches!(inner, Some(rustls::Error::InvalidCertificate(_)))
}

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
