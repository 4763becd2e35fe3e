//! The parts of a server, before it serves.

use std::sync::Arc;

use fabric::link::{self, Endpoint};
use kv_server::Engine;
use kv_server::grpc::{Grpc, ServerInfo};
use kv_server::metrics::LinkEvents;

use super::args::ServeArgs;
use super::authenticator::Authenticator;
use super::banner::Banner;
use super::maintenance::{self, Closer};
use super::offered_transports::OfferedTransports;
use super::pending_listener::PendingListener;
use super::sockets::Sockets;
use super::status::{Parts, Status};
use crate::commands::version::VERSION;
use crate::output::Failure;
use crate::settings::{Global, Settings};

pub(super) struct Server {
    pub(super) status: Arc<Status>,
    pub(super) authenticator: Arc<Authenticator>,
    pub(super) grpc: Grpc,
    /// If there is a disk.
    pub(super) closer: Option<Closer>,
    banner: Banner,
}

impl Server {
    /// Opens the store. Does not query devices yet.
    pub(super) fn new(
        global: &Global,
        args: &ServeArgs,
        settings: Settings,
        mut links: link::EndpointSettings,
        authenticator: Arc<Authenticator>,
    ) -> Result<Self, Failure> {
        let store = args.store()?;
        let engine = Engine::with_access(&store, authenticator.access().clone())?;
        let closer = Closer::start(&engine)
            .map_err(|error| Failure::failed(format!("start a thread for the disk: {error}")))?;
        let (events, offered_transports) =
            (LinkEvents::of(&mut links), OfferedTransports::of(&links));
        let banner = Banner::new(
            &engine,
            store.when_full,
            args.prefault,
            &authenticator,
            &offered_transports,
            args.client_transport().to_owned() + &authenticator.example(global.config.as_deref()),
        );
        let grpc = grpc(&engine, &offered_transports).with_tls(authenticator.grpc_tls());
        let status = Arc::new(Status::new(Parts {
            global: global.clone(),
            settings,
            when_full: store.when_full,
            max_clients: args.max_clients(),
            prefix: args.metrics_prefix.clone(),
            engine,
            endpoint: Endpoint::new(links)?,
            grpc: grpc.counts().clone(),
            grpc_sessions: grpc.sessions().clone(),
            offered_transports,
            events,
        }));
        Ok(Server { status, authenticator, grpc, closer, banner })
    }

    /// Prints the banner and warnings.
    pub(super) fn print_banner(
        &self,
        args: &ServeArgs,
        sockets: &Sockets,
        opening: &PendingListener,
    ) {
        let links = opening.listener().map_or(args.listen.0, |listener| listener.address());
        let http = sockets.http.local_addr().unwrap_or(args.http.0);
        let metrics = sockets.metrics.as_ref().and_then(|metrics| metrics.local_addr().ok());
        self.banner.print(links, http, metrics, opening.listener().is_some());
        let encrypts = self.status.parts.settings.tcp_encrypt;
        self.authenticator.warn(args.listen.0, args.http.0, encrypts);
        if args.prefault {
            maintenance::prefault(self.status.engine());
        }
    }
}

/// The store over gRPC.
fn grpc(engine: &Arc<Engine>, offered_transports: &OfferedTransports) -> Grpc {
    let offered_transports = offered_transports.clone();
    let about = ServerInfo {
        version: VERSION,
        transports: Arc::new(move || {
            offered_transports.list().into_iter().map(Into::into).collect()
        }),
    };
    Grpc::new(engine.clone(), about)
}
