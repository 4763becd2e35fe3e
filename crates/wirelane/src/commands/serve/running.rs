//! The running server: its tasks, and their shutdown.

use std::sync::Arc;
use std::time::Duration;

use access::Phase;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::args::ServeArgs;
use super::http::StatusSite;
use super::maintenance::{self, Closer};
use super::pending_listener::PendingListener;
use super::server::Server;
use super::sockets::Sockets;
use super::status::Status;
use super::{links, reload};
use crate::output::Failure;
use crate::signals::Signals;

pub(super) struct Running {
    status: Arc<Status>,
    /// Notifies every task of the shutdown phase.
    phase: watch::Sender<Phase>,
    /// Time for requests in flight to finish at shutdown.
    drain_timeout: Duration,
    links: JoinHandle<Result<(), Failure>>,
    /// Notified when no gRPC call is in flight any more.
    calls: oneshot::Receiver<()>,
    /// HTTP, gRPC, and the removal of expired values: stopped after everything else.
    final_tasks: [JoinHandle<()>; 3],
    closer: Option<Closer>,
}

impl Running {
    pub(super) fn start(
        server: Server,
        args: &ServeArgs,
        sockets: Sockets,
        opening: PendingListener,
    ) -> Self {
        let Server { status, authenticator, grpc, closer, .. } = server;
        let Sockets { http, metrics, hangup } = sockets;
        let (sender, phase) = watch::channel(Phase::Serving);
        let (drained, calls) = oneshot::channel();
        if let Some(metrics) = metrics {
            tokio::spawn(web::serve(metrics, StatusSite::metrics(status.clone()), phase.clone()));
        }
        tokio::spawn(reload::serve(hangup, authenticator.clone(), phase.clone()));
        let site = StatusSite::all(status.clone(), authenticator);
        let final_tasks = [
            tokio::spawn(web::serve(http, site, phase.clone())),
            tokio::spawn(grpc.serve(phase.clone(), drained)),
            tokio::spawn(maintenance::remove_expired(status.engine().clone(), phase.clone())),
        ];
        let task = links::Task {
            workers: args.workers(),
            drain_timeout: args.drain,
            status: status.clone(),
        };
        let links = tokio::spawn(task.run(opening, phase));
        Running {
            status,
            phase: sender,
            drain_timeout: args.drain,
            links,
            calls,
            final_tasks,
            closer,
        }
    }

    /// Serves until the first signal.
    pub(super) async fn serve(&mut self, signals: &mut Signals) -> Result<(), Failure> {
        tokio::select! {
            () = signals.next() => Ok(()),
            // The listener failed to open.
            Ok(Err(failure)) = &mut self.links => Err(failure),
        }
    }

    /// Accepts no new requests, and finishes those in flight; a second signal aborts that.
    pub(super) async fn drain(&mut self, signals: &mut Signals) -> Result<(), Failure> {
        self.status.start_draining();
        let _ = self.phase.send(Phase::Draining);
        // Links apply the timeout themselves, and then close their connections.
        let finished =
            async { tokio::join!(timeout(self.drain_timeout, &mut self.calls), &mut self.links) };
        tokio::select! {
            _ = finished => Ok(()),
            () = signals.next() => Err(aborted(&self.status)),
        }
    }

    /// Stops the remaining tasks, and the disk last.
    pub(super) async fn stop(self, signals: &mut Signals) {
        let _ = self.phase.send(Phase::Stopping);
        let ended = async {
            for task in self.final_tasks {
                let _ = task.await;
            }
            if let Some(closer) = self.closer {
                closer.close().await;
            }
        };
        tokio::select! {
            _ = timeout(CLOSE_TIMEOUT, ended) => {}
            () = signals.next() => {}
        }
    }
}

/// A second signal was received while requests were in flight.
fn aborted(status: &Status) -> Failure {
    let links = status.handle().map_or(0, kv_server::WorkerPoolHandle::connections);
    let calls = status.parts.grpc.connections();
    Failure::failed(format!(
        "shutdown aborted by a second signal, with {links} links and {calls} gRPC connections open — \
         wait for --drain to finish requests in flight"
    ))
}

/// How long HTTP and gRPC connections may take to close after everything else has stopped.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
