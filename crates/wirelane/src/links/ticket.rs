//! Tickets: a client that authenticates by certificate requests one over TLS, to open one link with.

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
use fabric::{Error, ErrorKind};
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

/// Requests tickets from servers, each over its own connection.
#[derive(Clone)]
pub(crate) struct Tickets {
    config: Arc<ClientConfig>,
}

impl Tickets {
    /// From CA certificates, and the client's certificate and key (PEM).
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

    /// Requests a ticket from the server with this name, at this address. Blocks.
    pub(crate) fn request(
        &self,
        host: &str,
        address: SocketAddr,
        limit: Duration,
    ) -> Result<Ticket, Error> {
        let call = || format!("request a ticket from {host} ({address}) over TLS");
        let system = |error: io::Error| {
            Error::new(
                ErrorKind::System,
                call(),
                error,
                "raise the limit on file descriptors: `ulimit -n`",
            )
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let requested = runtime
            .map_err(system)?
            .block_on(async { tokio::time::timeout(limit, self.exchange(host, address)).await });
        let bytes = match requested {
            Ok(reply) => {
                reply.map_err(|NoTicket { kind, why, fix }| Error::new(kind, call(), why, fix))?
            }
            Err(_) => {
                let why = "timed out";
                return Err(Error::new(
                    ErrorKind::Gone,
                    call(),
                    why,
                    "check that the server is running",
                ));
            }
        };
        Ticket::from_bytes(&bytes)
    }

    async fn exchange(&self, host: &str, address: SocketAddr) -> Result<Vec<u8>, NoTicket> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| NoTicket {
            kind: ErrorKind::Misuse,
            why: format!("{host} is not a valid name in certificates"),
            fix: "pass the server's name or address",
        })?;
        let stream =
            TcpStream::connect(address).await.map_err(|error| NoTicket::from_error(&error))?;
        let stream = TlsConnector::from(self.config.clone()).connect(name, stream).await;
        let mut stream = stream.map_err(|error| NoTicket::from_error(&error))?;
        // The server verifies our certificate after our part of the handshake. If it refuses, it does not read data that we
        // send first, and its alert may be lost. So wait for its first bytes.
        let received =
            poll_fn(|context| Pin::new(&mut stream).poll_fill_buf(context).map_ok(|_| ()));
        received.await.map_err(|error| NoTicket::from_error(&error))?;
        let opened = handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
        let (sender, connection) = opened.map_err(|error| NoTicket::from_error(&error))?;
        tokio::spawn(connection);
        let origin = "https://wirelane".parse().expect("an origin");
        let reply =
            KvClient::with_origin(Connection(sender), origin).ticket(TicketRequest {}).await;
        reply
            .map(|reply| reply.into_inner().ticket.to_vec())
            .map_err(|status| NoTicket::from_status(&status))
    }
}

/// Why there is no ticket.
struct NoTicket {
    kind: ErrorKind,
    why: String,
    fix: &'static str,
}

impl NoTicket {
    /// TLS or the network failed.
    fn from_error(error: &(dyn StdError + 'static)) -> Self {
        let (kind, why, fix) = match tls_error(error) {
            Some(rustls::Error::AlertReceived(alert)) => {
                let why = match alert {
                    AlertDescription::CertificateExpired => {
                        "the client's certificate has expired".to_owned()
                    }
                    AlertDescription::UnknownCA => {
                        "the server does not trust the CA of the client's certificate".to_owned()
                    }
                    other => format!("the server refused the client's certificate ({other:?})"),
                };
                (
                    ErrorKind::Denied,
                    why,
                    "use a certificate signed by its --tls-client-ca (--tls-cert, --tls-key)",
                )
            }
            Some(rustls::Error::InvalidCertificate(why)) => {
                let why = format!("the server's certificate is not valid: {why}");
                (
                    ErrorKind::Denied,
                    why,
                    "check --tls-ca, and that the certificate contains the name in --server",
                )
            }
            Some(other) => (
                ErrorKind::Gone,
                other.to_string(),
                "check that the server was started with --tls-cert",
            ),
            None => (
                ErrorKind::Gone,
                error.to_string(),
                "check that the server is running, that it was started with --tls-cert, and firewalls between",
            ),
        };
        NoTicket { kind, why, fix }
    }

    /// The server refused.
    fn from_status(status: &Status) -> Self {
        let kind = match status.code() {
            Code::Unauthenticated | Code::PermissionDenied => ErrorKind::Denied,
            Code::ResourceExhausted => ErrorKind::Full,
            Code::Unimplemented | Code::FailedPrecondition => ErrorKind::Unsupported,
            _ => ErrorKind::Gone,
        };
        let fix = "check the permissions at the server, and that it has the same version";
        NoTicket { kind, why: status.message().to_owned(), fix }
    }
}

/// The TLS error among the causes of an error.
fn tls_error<'e>(error: &'e (dyn StdError + 'static)) -> Option<&'e rustls::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        // The inner error of an I/O error is not its source.
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = inner.map(|inner| inner as &(dyn StdError + 'static)).or(error.source());
    }
    None
}

/// One connection, as a service for the generated gRPC client.
struct Connection(SendRequest<Body>);

impl Service<Request<Body>> for Connection {
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
