//! `wirelane bench serve`: the other end, which stays, and takes its settings from those who measure.

use std::io::{BufRead, Read};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use access::Proof;
use clap::Args;
use fabric::session::{Credentials, Key, Keyring};
use measure::{Observer, RelayCredentials, Server, ServerSettings, Transports};

use super::{PORT, facts, ways};
use crate::arguments::size::Size;
use crate::output::{Exit, Failure};
use crate::settings::Global;
use crate::settings::Settings;
use crate::signals::Signals;
use crate::timeout::with_timeout;
use crate::{logging, output};
use access::files::{key_file, token};

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Where to listen
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50052", value_parser = address)]
    listen: SocketAddr,

    /// Accept clients with a token of this file (`wirelane token new`)
    #[arg(long, value_name = "FILE", conflicts_with = "allow_anonymous")]
    token_file: Option<PathBuf>,

    /// Let everybody in, also on addresses that other machines reach
    #[arg(long)]
    allow_anonymous: bool,

    /// How many may measure at once
    #[arg(long, value_name = "N", default_value = "8", value_parser = clap::value_parser!(u16).range(1..=1024))]
    max_clients: u16,

    /// How much memory one measurement may take
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    memory: Size,

    /// Serve the process that started this one, and end with it: a key comes by stdin, the address goes to stdout
    #[arg(long, hide = true, conflicts_with_all = ["token_file", "allow_anonymous"])]
    for_parent: bool,
}

pub(super) fn run(global: &Global, args: &ServeArgs) -> Result<Exit, Failure> {
    let settings = Settings::load(global)?.settings;
    let keys = args.keys(&settings)?;
    let ways = ways(global, &settings)?;
    let log = logging::start_in_background(global, &settings)
        .map_err(|error| Failure::failed(format!("start a thread for the log: {error}")))?;
    let about = serde_json::to_value(facts::side())
        .map_err(|error| Failure::failed(format!("describe this host: {error}")))?;
    let server = Server::open(ServerSettings {
        address: args.listen,
        keyring: keyring(&keys)?,
        require_authentication: !keys.is_empty() || settings.require_authentication,
        max_clients: args.max_clients.into(),
        max_memory: args.memory.0 as u64,
        has_rdma: has_rdma(&ways)?,
        transports: ways,
        about,
        read_counters: facts::counters(),
        relay_credentials: onward(keys.clone()),
    })?;
    let served = match args.for_parent {
        true => serve_parent(&server),
        false => {
            let callers = if keys.is_empty() {
                "callers need no key"
            } else {
                "callers need a token or the key"
            };
            output::note(&format!("bench {} ({callers})", server.address()));
            serve(server)
        }
    };
    log.flush();
    served.map(|()| Exit::Done)
}

impl ServeArgs {
    /// Who may measure: nobody is named where everybody may. The world is let in by a word only.
    fn keys(&self, settings: &Settings) -> Result<Vec<Key>, Failure> {
        if self.for_parent {
            return Ok(vec![parents_key()?]);
        }
        let set = Some(&settings.token_file).filter(|file| !file.is_empty()).map(PathBuf::from);
        let mut keys = Vec::new();
        if !self.allow_anonymous {
            if let Some(file) = self.token_file.clone().or(set) {
                let holders = token::holders(&file)?.into_iter();
                keys.extend(holders.filter_map(|holder| match holder.proof {
                    Proof::Key(key) => Some(key),
                    Proof::Nothing | Proof::Certificate => None,
                }));
            }
            if !settings.key_file.is_empty() {
                keys.push(key_file::read(&PathBuf::from(&settings.key_file))?);
            }
        }
        let open = keys.is_empty() && !self.allow_anonymous;
        if self.allow_anonymous && settings.require_authentication {
            let text = "--allow-anonymous contradicts security.rdma.require_authentication: drop one of them";
            return Err(Failure::usage(text));
        }
        if open && !self.listen.ip().is_loopback() {
            return Err(Failure::usage(format!(
                "listen on {}: other machines reach it, and nobody would be asked who they are. Two ways to go on: \
                 --token-file FILE, made with `wirelane token new NAME`; or --allow-anonymous, on a network that you \
                 trust",
                self.listen
            )));
        }
        Ok(keys)
    }
}

/// Whether RDMA can be used; a device that does not answer keeps nobody from the rest.
fn has_rdma(ways: &Transports) -> Result<bool, Failure> {
    let ways = ways.clone();
    let waiting = || "asking the RDMA devices …".to_owned();
    Ok(with_timeout(DEVICES, waiting, move || ways.why_no_rdma().is_none())?.unwrap_or(false))
}

fn keyring(keys: &[Key]) -> Result<Keyring, Failure> {
    let keyring = Keyring::new();
    for key in keys {
        keyring.add(key.clone()).map_err(|error| Failure::usage(error.to_string()))?;
    }
    Ok(keyring)
}

/// A third end is called with the very key that the caller showed, so nobody gets further by us than by themselves.
fn onward(keys: Vec<Key>) -> RelayCredentials {
    Arc::new(move |name| {
        let key = keys.iter().find(|key| key.name() == name);
        key.map_or(Credentials::None, |key| Credentials::Key(key.clone()))
    })
}

/// Serves until a signal, on a thread of its own; those who measure then are cut off.
fn serve(server: Server) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Failure::failed(format!("start the event loop: {error}")))?;
    let _guard = runtime.enter();
    let mut signals = Signals::new()?;
    let over = Arc::new(AtomicBool::new(false));
    let end = over.clone();
    let thread = std::thread::Builder::new()
        .name("bench-serve".to_owned())
        .spawn(move || measure::serve(&server, &told(), || !end.load(Ordering::Relaxed)))
        .map_err(|error| Failure::failed(format!("start a thread: {error}")))?;
    runtime.block_on(async {
        while !thread.is_finished() {
            let _ = tokio::time::timeout(LOOK, signals.next()).await.map(|()| {
                over.store(true, Ordering::Relaxed);
            });
        }
    });
    thread.join().map_err(|_| Failure::failed("the server thread panicked"))??;
    Ok(())
}

/// Serves until the parent's end of our stdin is closed, as it is however the parent ends.
fn serve_parent(server: &Server) -> Result<(), Failure> {
    let over = Arc::new(AtomicBool::new(false));
    let end = over.clone();
    let watch = move || {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        end.store(true, Ordering::Relaxed);
    };
    std::thread::Builder::new()
        .name("bench-parent".to_owned())
        .spawn(watch)
        .map_err(|error| Failure::failed(format!("start a thread: {error}")))?;
    output::answer(&format!("{}\n", server.address()))?;
    Ok(measure::serve(server, &told(), || !over.load(Ordering::Relaxed))?)
}

/// The first line of stdin: hexadecimal digits.
fn parents_key() -> Result<Key, Failure> {
    let mut line = String::new();
    std::io::stdin()
        .lock()
        .take(LONGEST_LINE)
        .read_line(&mut line)
        .map_err(|error| Failure::failed(format!("read a key from stdin: {error}")))?;
    Key::from_hex("parent", line.trim()).map_err(|error| Failure::usage(error.to_string()))
}

/// A line in the log for each measurement.
fn told() -> Observer {
    Arc::new(|who, plan, done| {
        let (test, operation) = (plan.test.name(), plan.operation.name());
        let (transport, size) = (plan.transport.name(), plan.size);
        match done {
            Ok(()) => tracing::info!(client = who, test, operation, transport, size, "measured"),
            Err(error) => {
                tracing::warn!(client = who, test, operation, transport, size, %error, "not measured");
            }
        }
    })
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let text = text.replacen("localhost:", "127.0.0.1:", 1);
    text.parse()
        .map_err(|_| format!("write HOST:PORT with an IP address, such as 127.0.0.1:{PORT}"))
}

const DEVICES: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(200);
const LONGEST_LINE: u64 = 256;
