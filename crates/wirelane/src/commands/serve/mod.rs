//! `wirelane serve`: the store, over links and gRPC on one port; status and metrics over HTTP on another.
//!
//! `server.rs` has the parts of a server, `sockets.rs` its HTTP listeners, `pending_listener.rs` opens the listener for links,
//! which may have to wait for a device, `running.rs` has the tasks and their shutdown.

pub(crate) mod address;
mod args;
mod authenticator;
mod banner;
mod descriptors;
mod http;
mod links;
mod listener;
mod maintenance;
mod offered_transports;
mod pending_listener;
mod port_owner;
mod reload;
mod running;
mod runtime;
mod security;
mod server;
mod sockets;
mod status;
mod user;

use std::sync::Arc;

use fabric::link;

use crate::logging;
use crate::output::exit::{self, Exit, Failure};
use crate::settings::Global;
use crate::settings::Settings;
use crate::signals::Signals;
pub(crate) use args::ServeArgs;
use authenticator::Authenticator;
use pending_listener::PendingListener;
use running::Running;
pub(crate) use runtime::prepare as prepare_thread;
use server::Server;
use sockets::Sockets;
pub(crate) use sockets::bind;

pub(crate) fn run(global: &Global, args: &ServeArgs) -> Result<Exit, Failure> {
    // First: everything after it happens as this user.
    args.user.as_ref().map_or(Ok(()), user::become_user)?;
    let settings = Settings::load(global)?.settings;
    let security = args.security(&settings)?;
    let links = args.links(global, &settings, &security)?;
    let authenticator = Authenticator::new(&args.security, security, &links)?;
    let log = logging::start_in_background(global, &settings)
        .map_err(|error| Failure::failed(format!("start a thread for the log: {error}")))?;
    let runtime = runtime::start()
        .map_err(|error| Failure::failed(format!("start the event loop: {error}")))?;
    let served = runtime.block_on(serve(global, args, settings, links, Arc::new(authenticator)));
    log.flush();
    // A thread may still wait for a device that does not answer, or for the dynamic linker because of it; an
    // ordinary exit would wait for the linker too.
    exit::immediately(served.map(|()| Exit::Done))
}

/// From installing signal handlers to the last reply.
async fn serve(
    global: &Global,
    args: &ServeArgs,
    settings: Settings,
    links: link::EndpointSettings,
    authenticator: Arc<Authenticator>,
) -> Result<(), Failure> {
    // Before the first line is printed: a signal sent in response to it must be handled.
    let mut signals = Signals::new()?;
    descriptors::raise(args.max_clients);
    let sockets = Sockets::open(args, &authenticator).await?;
    let server = Server::new(global, args, settings, links, authenticator)?;
    let mut opening = PendingListener::start(&server, args.listen.0);
    tokio::select! {
        opened = opening.wait() => opened?,
        () = signals.next() => return Ok(()),
    }
    server.print_banner(args, &sockets, &opening);
    let mut running = Running::start(server, args, sockets, opening);
    running.serve(&mut signals).await?;
    running.drain(&mut signals).await?;
    running.stop(&mut signals).await;
    Ok(())
}
