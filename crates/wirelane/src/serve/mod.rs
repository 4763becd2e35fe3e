//! `wirelane serve`: what there is to serve, until the store exists: health and transport status.

mod address;
mod http;
mod port_owner;
mod status;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use clap::Args;
use tokio::net::TcpListener;

use crate::cli::Global;
use crate::config::Settings;
use crate::exit::{self, Exit, Failure};
use crate::version::VERSION;
use crate::{logging, output};
use address::HttpAddress;
use status::Status;

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Where to serve /healthz and /api/v1/transport/status; loopback addresses only
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8080")]
    http: HttpAddress,
}

pub(crate) fn run(global: &Global, args: &ServeArgs) -> Result<Exit, Failure> {
    let settings = Settings::load(global)?.settings;
    logging::start(global, &settings);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("start the event loop: {error}")))?;
    runtime.block_on(serve(global, args, settings))?;
    // A thread may still wait for a device that does not answer, or for the dynamic linker on its
    // behalf, which an ordinary exit would wait for too.
    exit::at_once(Exit::Done)
}

async fn serve(global: &Global, args: &ServeArgs, settings: Settings) -> Result<(), Failure> {
    // Before the first line is printed: a signal that answers it must find us listening.
    let signals = http::Signals::new()
        .map_err(|error| Failure::failed(format!("listen for signals: {error}")))?;
    let listener = bind(args.http.0).await?;
    greet(listener.local_addr().unwrap_or(args.http.0));
    let status = Arc::new(Status::new(global.clone(), settings));
    // A device that does not answer delays this line, not the server.
    let look = status.clone();
    tokio::task::spawn_blocking(move || {
        output::note(&format!("RDMA  {}", look.look().sentence()));
    });
    http::serve(listener, status, signals).await;
    Ok(())
}

async fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        let other = "choose another address with --http HOST:PORT";
        Failure::failed(match error.kind() {
            io::ErrorKind::AddrInUse => {
                let owner = port_owner::find(address)
                    .map_or("another process".to_owned(), |owner| owner.to_string());
                format!("listen on {address}: in use by {owner}. Stop it, or {other}")
            }
            _ => format!("listen on {address}: {error}. Please {other}"),
        })
    })
}

/// With the line about RDMA at most six: what it keeps, where it listens, what to try.
fn greet(address: SocketAddr) {
    output::note(&format!("wirelane {VERSION}: keeps nothing yet, the store is still to come"));
    output::note(&format!("HTTP  http://{address}  /healthz  /api/v1/transport/status"));
    output::note(&format!("try   curl -s http://{address}/api/v1/transport/status"));
    output::note("stop  Ctrl-C");
}
