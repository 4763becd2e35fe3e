//! Tickets: who is known to a server by a certificate asks it over TLS for what opens a link, once.

use std::error::Error as StdError;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use access::tls::{TlsError, certificates, private_key, roots};
use fabric::session::Ticket;
use fabric::{Error, Kind};
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kv_proto::v1::TicketRequest;
use kv_proto::v1::kv_client::KvClient;
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, ClientConfig};
use tokio::io::AsyncBufRead;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service};
use tonic::{Code, Status};

/// Asks servers for tickets, each time over a connection of its own.
#[derive(Clone)]
pub(crate) struct Tickets {
    config: Arc<ClientConfig>,
}

impl Tickets {
    /// Whom we trust, and by what we are known: contents of files in PEM.
    pub(crate) fn new(ca: &[u8], certificate: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(TlsError::of)?
            .with_root_certificates(roots(ca)?)
            .with_client_auth_cert(certificates(certificate)?, private_key(key)?);
        let mut config = config.map_err(TlsError::of)?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Tickets { config: Arc::new(config) })
    }

    /// A ticket of the server with this name, at this address. It blocks.
    pub(crate) fn ask(
        &self,
        host: &str,
        address: SocketAddr,
        limit: Duration,
    ) -> Result<Ticket, Error> {
        let call = || format!("ask {host} ({address}) for a ticket over TLS");
        let system = |error: io::Error| {
            Error::new(Kind::System, call(), error, "raise the limits on descriptors: `ulimit -n`")
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let asked = runtime
            .map_err(system)?
            .block_on(async { tokio::time::timeout(limit, self.converse(host, address)).await });
        let bytes = match asked {
            Ok(asked) => {
                asked.map_err(|NoTicket { kind, why, fix }| Error::new(kind, call(), why, fix))?
            }
            Err(_) => {
                let why = "it did not answer in time";
                return Err(Error::new(Kind::Gone, call(), why, "see that the server is up"));
            }
        };
        Ticket::from_bytes(&bytes)
    }

    async fn converse(&self, host: &str, address: SocketAddr) -> Result<Vec<u8>, NoTicket> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| NoTicket {
            kind: Kind::Misuse,
            why: format!("{host} is no name that a certificate could have"),
            fix: "give the server's name or address",
        })?;
        let stream = TcpStream::connect(address).await.map_err(|error| NoTicket::of(&error))?;
        let stream = TlsConnector::from(self.config.clone()).connect(name, stream).await;
        let mut stream = stream.map_err(|error| NoTicket::of(&error))?;
        // A server looks at our certificate when we are done with the handshake. What we say before it speaks, it
        // does not read if it refuses us, and then the reason may be lost on its way.
        let heard = poll_fn(|context| Pin::new(&mut stream).poll_fill_buf(context).map_ok(|_| ()));
        heard.await.map_err(|error| NoTicket::of(&error))?;
        let opened = handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
        let (sender, connection) = opened.map_err(|error| NoTicket::of(&error))?;
        tokio::spawn(connection);
        let origin = "https://wirelane".parse().expect("an origin");
        let asked = KvClient::with_origin(Sending(sender), origin).ticket(TicketRequest {}).await;
        asked
            .map(|reply| reply.into_inner().ticket.to_vec())
            .map_err(|status| NoTicket::said(&status))
    }
}

/// Why there is no ticket.
struct NoTicket {
    kind: Kind,
    why: String,
    fix: &'static str,
}

impl NoTicket {
    /// Something between us failed.
    fn of(error: &(dyn StdError + 'static)) -> Self {
        let (kind, why, fix) = match in_tls(error) {
            Some(rustls::Error::AlertReceived(alert)) => {
                let why = match alert {
                    AlertDescription::CertificateExpired => {
                        "our certificate has expired".to_owned()
                    }
                    AlertDescription::UnknownCA => {
                        "it does not trust who signed our certificate".to_owned()
                    }
                    other => format!("it does not take our certificate ({other:?})"),
                };
                (
                    Kind::Denied,
                    why,
                    "get a certificate that its --tls-client-ca signed (--tls-cert, --tls-key)",
                )
            }
            Some(rustls::Error::InvalidCertificate(why)) => {
                let why = format!("its certificate is not good: {why}");
                (
                    Kind::Denied,
                    why,
                    "see --tls-ca, and that the certificate has the name by which you call it",
                )
            }
            Some(other) => {
                (Kind::Gone, other.to_string(), "see that the server was started with --tls-cert")
            }
            None => (
                Kind::Gone,
                error.to_string(),
                "see that the server is up, that it was started with --tls-cert, and that no firewall stands between",
            ),
        };
        NoTicket { kind, why, fix }
    }

    /// The server says no.
    fn said(status: &Status) -> Self {
        let kind = match status.code() {
            Code::Unauthenticated | Code::PermissionDenied => Kind::Denied,
            Code::ResourceExhausted => Kind::Full,
            Code::Unimplemented | Code::FailedPrecondition => Kind::Unsupported,
            _ => Kind::Gone,
        };
        let fix = "see who may call it, and that it is of this version";
        NoTicket { kind, why: status.message().to_owned(), fix }
    }
}

/// What TLS says in an error of those who stand on it.
fn in_tls<'e>(error: &'e (dyn StdError + 'static)) -> Option<&'e rustls::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        // What an I/O error carries is no source of it.
        let transferred = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = transferred
            .map(|transferred| transferred as &(dyn StdError + 'static))
            .or(error.source());
    }
    None
}

/// One connection, as the client that was made from the .proto takes it.
struct Sending(SendRequest<Body>);

impl Service<Request<Body>> for Sending {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}
