//! `wirelane serve`: the store, by links and by gRPC, and health and status over HTTP.

mod address;
mod door;
mod http;
mod links;
mod port_owner;
mod status;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use fabric::Pages;
use fabric::link::{self, Class, Endpoint, Listener, Policy};
use kv_server::{Crew, Engine};
use kv_store::WhenFull;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

use crate::cli::Global;
use crate::config::Settings;
use crate::exit::{self, Exit, Failure};
use crate::signals::Signals;
use crate::size::Size;
use crate::version::VERSION;
use crate::{endpoint, logging, output};
use address::{HttpAddress, LinkAddress};
use status::Status;

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Where peers make links to; others than loopback addresses need security.rdma.key_file
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50051")]
    listen: LinkAddress,

    /// Where to serve /healthz and /api/v1/transport/status; loopback addresses only
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8080")]
    http: HttpAddress,

    /// How much memory values may take
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    memory: Size,

    /// Let callers in that show no key, also on addresses that other machines reach
    #[arg(long)]
    allow_anonymous: bool,
}

pub(crate) fn run(global: &Global, args: &ServeArgs) -> Result<Exit, Failure> {
    let settings = Settings::load(global)?.settings;
    let links = link_settings(global, args, &settings)?;
    logging::start(global, &settings);
    // Several threads: a link that ends may keep its own for a moment.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("start the event loop: {error}")))?;
    let served = runtime.block_on(serve(global, args, settings, links));
    // A thread may still wait for a device that does not answer, or for the dynamic linker on its
    // behalf, which an ordinary exit would wait for too.
    exit::at_once(served.map(|()| Exit::Done))
}

/// What links may do, and who may call: on addresses of the world only who shows the key, unless told
/// otherwise.
fn link_settings(
    global: &Global,
    args: &ServeArgs,
    settings: &Settings,
) -> Result<link::Settings, Failure> {
    let mut links = endpoint::settings(global, settings)?;
    let (address, reachable) = (args.listen.0, !args.listen.0.ip().is_loopback());
    if args.allow_anonymous && links.require_authentication {
        let text =
            "--allow-anonymous contradicts security.rdma.require_authentication: drop one of them";
        return Err(Failure::usage(text));
    }
    if reachable && !args.allow_anonymous {
        if settings.key_file.is_empty() {
            return Err(Failure::usage(format!(
                "listen on {address}: other machines reach it, and there is no key by which they could be \
                 known: set security.rdma.key_file, or let everybody in with --allow-anonymous"
            )));
        }
        links.require_authentication = true;
    }
    links.on_event = Some(Arc::new(links::log));
    Ok(links)
}

async fn serve(
    global: &Global,
    args: &ServeArgs,
    settings: Settings,
    links: link::Settings,
) -> Result<(), Failure> {
    // Before the first line is printed: a signal that answers it must find us listening.
    let mut signals = Signals::new()?;
    let http = bind(args.http.0).await?;
    let terms = Terms::of(&links);
    let endpoint = Endpoint::new(links)?;
    let engine = Engine::new(&kv_server::Settings {
        memory: args.memory.0,
        pages: Pages::Auto,
        when_full: WhenFull::Evict,
        most_value: None,
        idle: Duration::from_secs(60),
    })?;
    let (opener, address) = (endpoint.clone(), args.listen.0);
    let mut opening = spawn_blocking(move || door::open(&opener, address));
    // A device that does not answer delays links, not the rest. Until it does nobody else asks: a thread
    // that hangs in the dynamic linker keeps the process from starting others.
    let opened = tokio::select! {
        opened = timeout(PATIENCE, &mut opening) => opened.ok(),
        () = signals.next() => return Ok(()),
    };
    let door = match opened {
        Some(opened) => Some(Arc::new(opened.expect("it does not panic")?)),
        None => None,
    };
    let status = Arc::new(Status::new(global.clone(), settings, endpoint.clone()));
    if let Some(door) = &door {
        status.opened(door.clone());
    }
    let address = door.as_ref().map_or(address, |door| door.address());
    greet(address, http.local_addr().unwrap_or(args.http.0), &terms, door.is_some());
    let (stop, stopping) = watch::channel(false);
    let http = tokio::spawn(http::serve(http, status.clone(), stopping.clone()));
    let mut links = tokio::spawn(take_links(door, opening, endpoint, engine, status, stopping));
    tokio::select! {
        () = signals.next() => {}
        // The door could not be opened, late.
        Ok(Err(failure)) = &mut links => return Err(failure),
    }
    let _ = stop.send(true);
    tokio::select! {
        _ = timeout(GRACE, async { tokio::join!(http, links) }) => {}
        () = signals.next() => {}
    }
    Ok(())
}

/// Serves links once the door is open, and says then how RDMA is.
async fn take_links(
    door: Option<Arc<Listener>>,
    opening: JoinHandle<Result<Listener, Failure>>,
    endpoint: Endpoint,
    engine: Arc<Engine>,
    status: Arc<Status>,
    mut stopping: watch::Receiver<bool>,
) -> Result<(), Failure> {
    let door = match door {
        Some(door) => door,
        None => tokio::select! {
            opened = opening => Arc::new(opened.expect("it does not panic")?),
            _ = stopping.changed() => return Ok(()),
        },
    };
    status.opened(door.clone());
    let look = status.clone();
    spawn_blocking(move || output::note(&format!("RDMA  {}", look.look().sentence())));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let crew = spawn_blocking(move || Crew::start(&engine, &endpoint, cores));
    let crew = crew.await.expect("it does not panic")?;
    let _ = spawn_blocking(move || links::serve(&door, crew, &stopping)).await;
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

/// What callers are told at the start about links.
struct Terms {
    ways: String,
    callers: &'static str,
}

impl Terms {
    fn of(links: &link::Settings) -> Self {
        let name = |class: &Class| match (class, links.policy) {
            (Class::Verbs, Policy::Off) | (Class::Shm | Class::Tcp, Policy::Require) => None,
            (Class::Verbs, _) => Some("verbs if RDMA is on"),
            (class, _) => Some(class.name()),
        };
        let ways: Vec<&str> = links.classes.iter().filter_map(name).collect();
        let callers = match links.require_authentication {
            true => "callers need the key",
            false => "callers need no key",
        };
        Terms { ways: ways.join(", "), callers }
    }
}

/// With the line about RDMA at most six: what it keeps, where it listens, what to try.
fn greet(links: SocketAddr, http: SocketAddr, terms: &Terms, open: bool) {
    let Terms { ways, callers } = terms;
    let later = if open { "" } else { "; not yet: an RDMA device does not answer" };
    let peer = match links.ip().is_unspecified() {
        true => format!("HOST:{}", links.port()),
        false => links.to_string(),
    };
    output::note(&format!("wirelane {VERSION}: a store of values in memory"));
    output::note(&format!("links {links}  {ways}; {callers}{later}"));
    output::note(&format!("HTTP  http://{http}  /healthz  /api/v1/transport/status"));
    output::note(&format!(
        "try   wirelane connect {peer}; curl -s http://{http}/api/v1/transport/status"
    ));
    output::note("stop  Ctrl-C");
}

/// HTTP is small, and a link's own work is short.
const WORKERS: usize = 4;
/// How long to wait for devices before saying that links come later.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long answers and goodbyes under way may take once a signal came; a second one ends at once.
const GRACE: Duration = Duration::from_secs(5);
