//! A server that serves: its tasks, and how they end.

use std::sync::Arc;
use std::time::Duration;

use access::Phase;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::args::ServeArgs;
use super::http::Site;
use super::maintenance::{self, Closer};
use super::pending_listener::Opening;
use super::server::Server;
use super::sockets::Sockets;
use super::status::Status;
use super::{drain, links, reload};
use crate::output::Failure;
use crate::signals::Signals;

pub(super) struct Running {
    status: Arc<Status>,
    /// Tells every task how far the end is.
    phase: watch::Sender<Phase>,
    /// How long what is in flight may take at the end.
    limit: Duration,
    links: JoinHandle<Result<(), Failure>>,
    /// Says when no call by gRPC is in flight any more.
    calls: oneshot::Receiver<()>,
    /// HTTP, gRPC, and the removal of expired values: they end when everything else has.
    last: [JoinHandle<()>; 3],
    closer: Option<Closer>,
}

impl Running {
    pub(super) fn start(
        server: Server,
        args: &ServeArgs,
        sockets: Sockets,
        opening: Opening,
    ) -> Self {
        let Server { status, guard, grpc, closer, .. } = server;
        let Sockets { http, metrics, hangup } = sockets;
        let (phase, life) = watch::channel(Phase::Serving);
        let (drained, calls) = oneshot::channel();
        if let Some(metrics) = metrics {
            tokio::spawn(web::serve(metrics, Site::metrics(status.clone()), life.clone()));
        }
        tokio::spawn(reload::serve(hangup, guard.clone(), life.clone()));
        let site = Site::everything(status.clone(), guard);
        let last = [
            tokio::spawn(web::serve(http, site, life.clone())),
            tokio::spawn(grpc.serve(life.clone(), drained)),
            tokio::spawn(maintenance::tidy(status.engine().clone(), life.clone())),
        ];
        let task =
            links::Task { workers: args.workers(), limit: args.drain, status: status.clone() };
        let links = tokio::spawn(task.run(opening, life));
        Running { status, phase, limit: args.drain, links, calls, last, closer }
    }

    /// Until the first signal.
    pub(super) async fn serve(&mut self, signals: &mut Signals) -> Result<(), Failure> {
        tokio::select! {
            () = signals.next() => Ok(()),
            // The listener could not be opened, late.
            Ok(Err(failure)) = &mut self.links => Err(failure),
        }
    }

    /// Begins nothing more, and finishes what is in flight; a second signal cuts that short.
    pub(super) async fn drain(&mut self, signals: &mut Signals) -> Result<(), Failure> {
        self.status.drains();
        let _ = self.phase.send(Phase::Draining);
        // Links keep to the limit themselves, and have then to say goodbye.
        let finished =
            async { tokio::join!(timeout(self.limit, &mut self.calls), &mut self.links) };
        tokio::select! {
            _ = finished => Ok(()),
            () = signals.next() => Err(drain::cut_short(&self.status)),
        }
    }

    /// Ends what is left, and the disk last.
    pub(super) async fn stop(self, signals: &mut Signals) {
        let _ = self.phase.send(Phase::Stopping);
        let ended = async {
            for task in self.last {
                let _ = task.await;
            }
            if let Some(closer) = self.closer {
                closer.close().await;
            }
        };
        tokio::select! {
            _ = timeout(GRACE, ended) => {}
            () = signals.next() => {}
        }
    }
}

/// How long callers of HTTP and gRPC may take to let go once everything else is over.
const GRACE: Duration = Duration::from_secs(1);
