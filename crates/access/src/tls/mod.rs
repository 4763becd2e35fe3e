//! TLS at the listeners for callers by gRPC and HTTP: the server's certificate, and whose certificates it takes.
//!
//! It reads no file: the program brings their contents. Who shows no certificate is let in here, and asked for
//! something else behind the listener, since that can be said in words there.
//!
//! Start at [`Tls`]; a caller's certificate is [`Certified`], and what its name is, is in `name`.

mod alternative_names;
mod certified;
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

use crate::{Access, Refused, Vouched};
pub use alternative_names::names as alternative_names;
pub use certified::Certified;
pub use pem::{TlsError, certificates, private_key, roots};

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
    now: RwLock<Settings>,
}

/// What is shown and taken, until it is replaced.
#[derive(Debug, Clone)]
struct Settings {
    config: Arc<ServerConfig>,
    /// Decides whether a certificate is good; none: callers need not show any.
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
        Ok(Tls { now: RwLock::new(configure(files, protocol)?) })
    }

    /// From now on as a fresh one. Connections that are there stay; certificates that were shown on them are verified
    /// anew with their next call, or a little later.
    pub fn replace(&self, fresh: Tls) {
        let fresh = fresh.now.into_inner().unwrap_or_else(PoisonError::into_inner);
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = fresh;
    }

    /// Who a certificate says its holder is, if it has a name for it and is still good: not ended, and signed by who is
    /// trusted now. It is verified anew when others are trusted, or a few seconds have passed. One that is not good is
    /// counted as refused.
    pub fn vouch<'c>(
        &self,
        certified: &'c Certified,
        access: &Access,
    ) -> Result<Option<Vouched<'c>>, Refused> {
        let settings = self.now.read().unwrap_or_else(PoisonError::into_inner);
        let is_good =
            certified.is_good(settings.authority, Instant::now(), |chain| settings.takes(chain));
        if !is_good {
            access.refusals().count(Refused::WrongCertificate);
            return Err(Refused::WrongCertificate);
        }
        let authority = settings.authority;
        Ok(certified.name().map(|name| Vouched { name, authority }))
    }

    /// Another number when those whose certificates are taken are others.
    pub fn authority(&self) -> u64 {
        self.settings().authority
    }

    fn settings(&self) -> Settings {
        self.now.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Shakes hands, and gives the caller's certificate, if it has shown one. One that is not good is counted as
    /// refused.
    pub async fn accept(
        &self,
        stream: TcpStream,
        access: &Access,
    ) -> io::Result<(TlsStream<TcpStream>, Option<Arc<Certified>>)> {
        let Settings { config, authority, .. } = self.settings();
        let accepted = timeout(PATIENCE, TlsAcceptor::from(config).accept(stream)).await?;
        let stream = accepted.inspect_err(|error| {
            if is_about_certificate(error) {
                access.refusals().count(Refused::WrongCertificate);
            }
        })?;
        let shown = stream.get_ref().1.peer_certificates();
        let shown = shown.filter(|chain| !chain.is_empty());
        let certified =
            shown.map(|chain| Arc::new(Certified::new(chain, authority, Instant::now())));
        Ok((stream, certified))
    }
}

impl Settings {
    fn takes(&self, chain: &[CertificateDer<'_>]) -> bool {
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
    // A session that is resumed shows no certificate, and so would outlive it.
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

/// For the handshake.
const PATIENCE: Duration = Duration::from_secs(10);
