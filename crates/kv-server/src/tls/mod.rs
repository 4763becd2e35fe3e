//! TLS at the doors for callers by gRPC and HTTP: the server's certificate, and whose certificates it takes.
//!
//! It reads no file: the program brings their contents. Who shows no certificate is let in here, and asked for
//! something else behind the door, since that can be said in words there.
//!
//! Start at [`Tls`]; what a certificate's name is, is in `name`.

mod name;
mod pem;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
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
    now: RwLock<Settings>,
}

/// What is shown and taken, until it is replaced.
#[derive(Debug, Clone)]
struct Settings {
    config: Arc<ServerConfig>,
    /// Who is asked whether a certificate is good; none: callers need not show any.
    judge: Option<Arc<dyn ClientCertVerifier>>,
    authority: u64,
}

/// A caller's certificate, which was good once.
#[derive(Debug)]
pub struct Certified {
    name: Option<Box<str>>,
    chain: Vec<CertificateDer<'static>>,
    /// When it was last seen to be good.
    judged: Mutex<Instant>,
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
        Ok(Tls { now: RwLock::new(configure(files, protocol)?) })
    }

    /// From now on as a fresh one. Connections that are there stay; certificates that were shown on them are judged
    /// anew with their next call, or a little later.
    pub fn replace(&self, fresh: Tls) {
        let fresh = fresh.now.into_inner().unwrap_or_else(PoisonError::into_inner);
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = fresh;
    }

    /// Whether a certificate that was good when it was shown still is: not ended, and signed by who is trusted now.
    /// It is looked at anew when a few seconds have passed since it was.
    pub fn still_takes(&self, certified: &Certified) -> bool {
        let mut judged = certified.judged.lock().unwrap_or_else(PoisonError::into_inner);
        if judged.elapsed() < JUDGED_ANEW {
            return true;
        }
        let Some(judge) = self.settings().judge else { return false };
        let Some((own, between)) = certified.chain.split_first() else { return false };
        let good = judge.verify_client_cert(own, between, UnixTime::now()).is_ok();
        if good {
            *judged = Instant::now();
        }
        good
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
        let config = self.settings().config;
        let accepted = timeout(PATIENCE, TlsAcceptor::from(config).accept(stream)).await?;
        let stream = accepted.inspect_err(|error| {
            if is_about_certificate(error) {
                access.refusals().count(Refused::WrongCertificate);
            }
        })?;
        let shown = stream.get_ref().1.peer_certificates();
        let certified = shown.filter(|chain| !chain.is_empty()).map(Certified::new).map(Arc::new);
        Ok((stream, certified))
    }
}

impl Certified {
    fn new(chain: &[CertificateDer<'static>]) -> Self {
        let name = chain.first().and_then(name::of).map(Into::into);
        Certified { name, chain: chain.to_vec(), judged: Mutex::new(Instant::now()) }
    }

    /// The name by which it knows its holder, if it has one that can be used.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }
}

fn configure(files: Files<'_>, protocol: &[u8]) -> Result<Settings, Wrong> {
    let Files { certificate, key, client_ca } = files;
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone());
    let builder = builder.with_safe_default_protocol_versions().map_err(Wrong::of)?;
    let judge = match client_ca {
        None => None,
        Some(ca) => {
            let roots: Arc<RootCertStore> = roots(ca)?;
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
            Some(verifier.allow_unauthenticated().build().map_err(Wrong::of)?)
        }
    };
    let builder = match &judge {
        None => builder.with_no_client_auth(),
        Some(judge) => builder.with_client_cert_verifier(judge.clone()),
    };
    let config = builder.with_single_cert(certificates(certificate)?, private_key(key)?);
    let mut config = config.map_err(Wrong::of)?;
    config.alpn_protocols = vec![protocol.to_vec()];
    // A session that is resumed shows no certificate, and so would outlive it.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    let mut hasher = DefaultHasher::new();
    client_ca.hash(&mut hasher);
    Ok(Settings { config: Arc::new(config), judge, authority: hasher.finish() })
}

fn is_about_certificate(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    matches!(inner, Some(rustls::Error::InvalidCertificate(_)))
}

/// How long a certificate is not looked at again.
const JUDGED_ANEW: Duration = Duration::from_secs(5);
/// For the handshake.
const PATIENCE: Duration = Duration::from_secs(10);
