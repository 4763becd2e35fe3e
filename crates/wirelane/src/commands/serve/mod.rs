//! `wirelane serve`: the store, by links and by gRPC on one port; status and metrics over HTTP on another.

pub(crate) mod address;
mod args;
mod descriptors;
mod drain;
mod events;
mod greeting;
mod guard;
mod http;
mod links;
mod listener;
mod metrics;
mod offers;
mod port_owner;
mod reload;
mod runtime;
mod security;
mod status;
mod upkeep;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use access::Phase;
use fabric::link::{self, Endpoint, Listener};
use kv_server::grpc::{About, Grpc};
use kv_server::{Engine, WorkerPool};
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

use crate::commands::version::VERSION;
use crate::output::exit::{self, Exit, Failure};
use crate::settings::Global;
use crate::settings::Settings;
use crate::signals::Signals;
use crate::{logging, output};
pub(crate) use args::ServeArgs;
use events::Events;
use greeting::Greeting;
use guard::Guard;
use http::Site;
use offers::Offers;
pub(crate) use runtime::prepare as prepare_thread;
use status::{Parts, Status};
use upkeep::Closer;

pub(crate) fn run(global: &Global, args: &ServeArgs) -> Result<Exit, Failure> {
    let settings = Settings::load(global)?.settings;
    let security = args.security(&settings)?;
    let links = args.links(global, &settings, &security)?;
    let guard = Guard::new(&args.security, security, &links)?;
    let log = logging::start_aside(global, &settings)
        .map_err(|error| Failure::failed(format!("start a thread for the log: {error}")))?;
    let runtime = runtime::start()
        .map_err(|error| Failure::failed(format!("start the event loop: {error}")))?;
    let served = runtime.block_on(serve(global, args, settings, links, Arc::new(guard)));
    log.flush();
    // A thread may still wait for a device that does not answer, or for the dynamic linker on its
    // behalf, which an ordinary exit would wait for too.
    exit::at_once(served.map(|()| Exit::Done))
}

async fn serve(
    global: &Global,
    args: &ServeArgs,
    settings: Settings,
    mut links: link::Settings,
    guard: Arc<Guard>,
) -> Result<(), Failure> {
    // Before the first line is printed: a signal that answers it must find us listening.
    let mut signals = Signals::new()?;
    Signals::outlive_file_limit()?;
    let hangup = reload::listen(&guard)?;
    descriptors::raise(args.max_clients);
    let http = bind(args.http.0, "--http").await?;
    let metrics = match &args.metrics {
        Some(address) => Some(bind(address.0, "--metrics").await?),
        None => None,
    };
    let store = args.store()?;
    let engine = Engine::guarded(&store, guard.access().clone())?;
    let closer = Closer::start(&engine)
        .map_err(|error| Failure::failed(format!("start a thread for the disk: {error}")))?;
    let tcp_encrypt = settings.tcp_encrypt;
    let (events, offers) = (Events::heard_from(&mut links), Offers::of(&links));
    let greeting = Greeting::new(&engine, store.when_full, args.prefault, &guard, &offers);
    let grpc = grpc(&engine, &offers).with_tls(guard.grpc_tls());
    let endpoint = Endpoint::new(links)?;
    let (opener, address, others) = (endpoint.clone(), args.listen.0, grpc.connection_handler());
    let mut opening = spawn_blocking(move || listener::open(&opener, address, others));
    // A device that does not answer delays links, not the rest. Until it does nobody else asks: a thread
    // that hangs in the dynamic linker keeps the process from starting others.
    let opened = tokio::select! {
        opened = timeout(PATIENCE, &mut opening) => opened.ok(),
        () = signals.next() => return Ok(()),
    };
    let listener = match opened {
        Some(opened) => Some(Arc::new(opened.expect("it does not panic")?)),
        None => None,
    };
    let status = Arc::new(Status::new(Parts {
        global: global.clone(),
        settings,
        when_full: store.when_full,
        max_clients: args.max_clients(),
        prefix: args.metrics_prefix.clone(),
        engine: engine.clone(),
        endpoint: endpoint.clone(),
        grpc: grpc.counts().clone(),
        grpc_sessions: grpc.sessions().clone(),
        offers,
        events,
    }));
    if let Some(listener) = &listener {
        status.opened(listener.clone());
    }
    let address = listener.as_ref().map_or(address, |listener| listener.address());
    let alone = metrics.as_ref().and_then(|metrics| metrics.local_addr().ok());
    greeting.say(address, http.local_addr().unwrap_or(args.http.0), alone, listener.is_some());
    guard.warn(args.listen.0, args.http.0, tcp_encrypt);
    if args.prefault {
        upkeep::prefault(&engine);
    }
    let (tell, life) = watch::channel(Phase::Serving);
    let (drained, calls) = oneshot::channel();
    if let Some(metrics) = metrics {
        tokio::spawn(web::serve(metrics, Site::metrics(status.clone()), life.clone()));
    }
    tokio::spawn(reload::serve(hangup, guard.clone(), life.clone()));
    let site = Site::everything(status.clone(), guard);
    let http = tokio::spawn(web::serve(http, site, life.clone()));
    let grpc = tokio::spawn(grpc.serve(life.clone(), drained));
    let tidy = tokio::spawn(upkeep::tidy(engine, life.clone()));
    let hands = Hands { workers: args.workers(), drain: args.drain, endpoint, status };
    let status = hands.status.clone();
    let mut links = tokio::spawn(take_links(listener, opening, hands, life));
    tokio::select! {
        () = signals.next() => {}
        // The listener could not be opened, late.
        Ok(Err(failure)) = &mut links => return Err(failure),
    }
    status.drains();
    let _ = tell.send(Phase::Draining);
    tokio::select! {
        // Links look after the limit themselves, and have then to say goodbye.
        _ = async { tokio::join!(timeout(args.drain, calls), links) } => {}
        () = signals.next() => return Err(drain::cut_short(&status)),
    }
    let _ = tell.send(Phase::Stopping);
    let ended = async {
        let _ = tokio::join!(http, grpc, tidy);
        if let Some(closer) = closer {
            closer.close().await;
        }
    };
    tokio::select! {
        _ = timeout(GRACE, ended) => {}
        () = signals.next() => {}
    }
    Ok(())
}

/// The store for callers by gRPC.
fn grpc(engine: &Arc<Engine>, offers: &Offers) -> Grpc {
    let offers = offers.clone();
    let about = About {
        version: VERSION,
        transports: Arc::new(move || offers.list().into_iter().map(Into::into).collect()),
    };
    Grpc::new(engine.clone(), about)
}

/// What it takes to serve links.
struct Hands {
    workers: usize,
    /// How long what is in flight may take at the end.
    drain: Duration,
    endpoint: Endpoint,
    status: Arc<Status>,
}

/// Serves links once the listener is open, and says then how libfabric and RDMA are.
async fn take_links(
    listener: Option<Arc<Listener>>,
    opening: JoinHandle<Result<Listener, Failure>>,
    hands: Hands,
    mut life: watch::Receiver<Phase>,
) -> Result<(), Failure> {
    let listener = match listener {
        Some(listener) => listener,
        None => tokio::select! {
            opened = opening => Arc::new(opened.expect("it does not panic")?),
            () = Phase::Draining.reached(&mut life) => return Ok(()),
        },
    };
    let Hands { workers, drain, endpoint, status } = hands;
    status.opened(listener.clone());
    let look = status.clone();
    spawn_blocking(move || {
        let rdma = look.look();
        if let Some(libfabric) = look.offers().libfabric() {
            output::note(&format!("ofi   {libfabric}"));
        }
        output::note(&format!("RDMA  {}", rdma.sentence()));
    });
    let engine = status.engine().clone();
    let starts = endpoint.clone();
    let workers = spawn_blocking(move || WorkerPool::start(&engine, &starts, workers));
    let workers = workers.await.expect("it does not panic")?;
    register(endpoint).await;
    status.works(workers.handle());
    let access = status.engine().access().clone();
    let _ = spawn_blocking(move || links::serve(&listener, workers, &access, drain, &life)).await;
    Ok(())
}

/// Registers the pool with every device before the first client comes: it would have to wait for it, and for a
/// large pool too long.
async fn register(endpoint: Endpoint) {
    let devices = spawn_blocking(move || endpoint.open_devices());
    match timeout(REGISTERING, devices).await {
        Ok(Ok(errors)) => errors.iter().for_each(|error| tracing::warn!(%error, "RDMA device")),
        _ => tracing::warn!(
            "an RDMA device does not answer; the first client by RDMA may have to wait"
        ),
    }
}

/// Listens, or says who is in the way.
pub(crate) async fn bind(address: SocketAddr, option: &str) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        let other = format!("choose another address with {option} HOST:PORT");
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

/// How long to wait for devices before saying that links come later.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long registering the pool may take before clients are served without.
const REGISTERING: Duration = Duration::from_secs(120);
/// How long callers of HTTP and gRPC may take to let go once everything else is over.
const GRACE: Duration = Duration::from_secs(1);
