//! The HTTP listeners, and the signal for rereading files.

use std::io;
use std::net::SocketAddr;

use tokio::net::TcpListener;
use tokio::signal::unix::Signal;

use super::args::ServeArgs;
use super::authenticator::Authenticator;
use super::{port_owner, reload};
use crate::output::Failure;

/// Opened before the first line is printed.
pub(super) struct Sockets {
    pub(super) http: TcpListener,
    /// For /metrics only, without authentication.
    pub(super) metrics: Option<TcpListener>,
    /// SIGHUP, if there are files to reread.
    pub(super) hangup: Option<Signal>,
}

impl Sockets {
    pub(super) async fn open(
        args: &ServeArgs,
        authenticator: &Authenticator,
    ) -> Result<Self, Failure> {
        let hangup = reload::listen(authenticator)?;
        let http = bind(args.http.0, "--http").await?;
        let metrics = match &args.metrics {
            Some(address) => Some(bind(address.0, "--metrics").await?),
            None => None,
        };
        Ok(Sockets { http, metrics, hangup })
    }
}

/// Listens; the error names the process that uses the port.
pub(crate) async fn bind(address: SocketAddr, option: &str) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        let fix = format!("choose another address with {option} HOST:PORT");
        Failure::failed(match error.kind() {
            io::ErrorKind::AddrInUse => {
                let owner = port_owner::find(address)
                    .map_or("another process".to_owned(), |owner| owner.to_string());
                format!("listen on {address}: in use by {owner}. Stop it, or {fix}")
            }
            _ => format!("listen on {address}: {error}; {fix}"),
        })
    })
}
