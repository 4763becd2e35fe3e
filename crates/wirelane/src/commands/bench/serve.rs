//! `wirelane bench serve`: a server for measurements; clients choose the settings.

use std::io::{BufRead, Read};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use access::Credential;
use clap::Args;
use fabric::session::{Credentials, Key, Keyring};
use measure::{Observer, RelayCredentials, Server, ServerSettings, Transports};

use super::{PORT, facts, transports};
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
    /// Address to listen on
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50052", value_parser = address)]
    listen: SocketAddr,

    /// Accept clients with a token from this file (`wirelane token new`)
    #[arg(long, value_name = "FILE", conflicts_with = "allow_anonymous")]
    token_file: Option<PathBuf>,

    /// Accept every client, also on addresses that other machines can reach
    #[arg(long)]
    allow_anonymous: bool,

    /// Maximum number of concurrent clients
    #[arg(long, value_name = "N", default_value = "8", value_parser = clap::value_parser!(u16).range(1..=1024))]
    max_clients: u16,

    /// Maximum memory per measurement
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    memory: Size,

    /// Serve the parent process, and end with it: reads a key from stdin, prints the address to stdout
    #[arg(long, hide = true, conflicts_with_all = ["token_file", "allow_anonymous"])]
    for_parent: bool,
}

pub(super) fn run(global: &Global, args: &ServeArgs) -> Result<Exit, Failure> {
    let settings = Settings::load(global)?.settings;
    let keys = args.keys(&settings)?;
    let transports = transports(global, &settings)?;
    let log = logging::start_in_background(global, &settings)
        .map_err(|error| Failure::failed(format!("start a thread for the log: {error}")))?;
    let about = serde_json::to_value(facts::host_facts())
        .map_err(|error| Failure::failed(format!("describe this host: {error}")))?;
    let server = Server::open(ServerSettings {
        address: args.listen,
        keyring: keyring(&keys)?,
        require_authentication: !keys.is_empty() || settings.require_authentication,
        max_clients: args.max_clients.into(),
        max_memory: args.memory.0 as u64,
        has_rdma: has_rdma(&transports)?,
        transports,
        about,
        read_counters: facts::counters(),
        relay_credentials: relay_credentials(keys.clone()),
    })?;
    let served = match args.for_parent {
        true => serve_parent(&server),
        false => {
            let access = if keys.is_empty() {
                "no authentication"
            } else {
                "clients need a token or the key"
            };
            output::note(&format!("bench {} ({access})", server.address()));
            serve(server)
        }
    };
    log.flush();
    served.map(|()| Exit::Done)
}

impl ServeArgs {
    /// The keys of clients; empty: every client is accepted. On addresses that other machines can reach, that needs
    /// `--allow-anonymous`.
    fn keys(&self, settings: &Settings) -> Result<Vec<Key>, Failure> {
        if self.for_parent {
            return Ok(vec![read_key()?]);
        }
        let configured =
            Some(&settings.token_file).filter(|file| !file.is_empty()).map(PathBuf::from);
        let mut keys = Vec::new();
        if !self.allow_anonymous {
            if let Some(file) = self.token_file.clone().or(configured) {
                let identities = token::identities(&file)?.into_iter();
                keys.extend(identities.filter_map(|identity| match identity.credential {
                    Credential::Key(key) => Some(key),
                    Credential::Nothing | Credential::Certificate => None,
                }));
            }
            if !settings.key_file.is_empty() {
                keys.push(key_file::read(&PathBuf::from(&settings.key_file))?);
            }
        }
        let is_open = keys.is_empty() && !self.allow_anonymous;
        if self.allow_anonymous && settings.require_authentication {
            let text = "--allow-anonymous contradicts security.rdma.require_authentication: remove one of them";
            return Err(Failure::usage(text));
        }
        if is_open && !self.listen.ip().is_loopback() {
            return Err(Failure::usage(format!(
                "listen on {}: other machines can reach this address, and no authentication is configured. Pass \
                 --token-file FILE (see `wirelane token new NAME`), or --allow-anonymous on a trusted network",
                self.listen
            )));
        }
        Ok(keys)
    }
}

/// Whether RDMA is usable; false if a device does not answer in time, so that other transports still work.
fn has_rdma(transports: &Transports) -> Result<bool, Failure> {
    let transports = transports.clone();
    let waiting = || "querying RDMA devices …".to_owned();
    Ok(with_timeout(DEVICE_TIMEOUT, waiting, move || transports.why_no_rdma().is_none())?
        .unwrap_or(false))
}

fn keyring(keys: &[Key]) -> Result<Keyring, Failure> {
    let keyring = Keyring::new();
    for key in keys {
        keyring.add(key.clone()).map_err(|error| Failure::usage(error.to_string()))?;
    }
    Ok(keyring)
}

/// Credentials for a relayed measurement: the key that the client used here, so that relaying gives a client no further
/// access.
fn relay_credentials(keys: Vec<Key>) -> RelayCredentials {
    Arc::new(move |name| {
        let key = keys.iter().find(|key| key.name() == name);
        key.map_or(Credentials::None, |key| Credentials::Key(key.clone()))
    })
}

/// Serves on a separate thread until a signal; measurements that are running then are aborted.
fn serve(server: Server) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Failure::failed(format!("start the event loop: {error}")))?;
    let _guard = runtime.enter();
    let mut signals = Signals::new()?;
    let is_ended = Arc::new(AtomicBool::new(false));
    let end = is_ended.clone();
    let thread = std::thread::Builder::new()
        .name("bench-serve".to_owned())
        .spawn(move || {
            measure::serve(&server, &log_measurements(), || !end.load(Ordering::Relaxed))
        })
        .map_err(|error| Failure::failed(format!("start a thread: {error}")))?;
    runtime.block_on(async {
        while !thread.is_finished() {
            let _ = tokio::time::timeout(POLL_INTERVAL, signals.next()).await.map(|()| {
                is_ended.store(true, Ordering::Relaxed);
            });
        }
    });
    thread.join().map_err(|_| Failure::failed("the server thread panicked"))??;
    Ok(())
}

/// Serves until stdin is closed, which happens however the parent ends.
fn serve_parent(server: &Server) -> Result<(), Failure> {
    let is_ended = Arc::new(AtomicBool::new(false));
    let end = is_ended.clone();
    let watch = move || {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        end.store(true, Ordering::Relaxed);
    };
    std::thread::Builder::new()
        .name("bench-parent".to_owned())
        .spawn(watch)
        .map_err(|error| Failure::failed(format!("start a thread: {error}")))?;
    output::answer(&format!("{}\n", server.address()))?;
    Ok(measure::serve(server, &log_measurements(), || !is_ended.load(Ordering::Relaxed))?)
}

/// Reads a key from the first line of stdin, in hexadecimal digits.
fn read_key() -> Result<Key, Failure> {
    let mut line = String::new();
    std::io::stdin()
        .lock()
        .take(MAX_LINE_BYTES)
        .read_line(&mut line)
        .map_err(|error| Failure::failed(format!("read a key from stdin: {error}")))?;
    Key::from_hex("parent", line.trim()).map_err(|error| Failure::usage(error.to_string()))
}

/// Logs a line for each measurement.
fn log_measurements() -> Observer {
    Arc::new(|client, plan, result| {
        let (test, operation) = (plan.test.name(), plan.operation.name());
        let (transport, size) = (plan.transport.name(), plan.size);
        match result {
            Ok(()) => tracing::info!(client, test, operation, transport, size, "measured"),
            Err(error) => {
                tracing::warn!(client, test, operation, transport, size, %error, "measurement failed");
            }
        }
    })
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let text = text.replacen("localhost:", "127.0.0.1:", 1);
    text.parse()
        .map_err(|_| format!("write HOST:PORT with an IP address, such as 127.0.0.1:{PORT}"))
}

const DEVICE_TIMEOUT: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(200);
const MAX_LINE_BYTES: u64 = 256;
