//! The server of a measurement: one that is running, or one that is started for it.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use fabric::session::Credentials;
use measure::{Client, ErrorKind, Transports};

use super::child::{ServerProcess, one_time_key};
use super::{PORT, facts};
use crate::arguments::peer::Peer;
use crate::arguments::size::seconds;
use crate::output;
use crate::output::exit::{self, Failure};
use crate::settings::Global;
use crate::settings::Settings;
use crate::timeout::with_timeout;
use access::files::{key_file, token};

#[derive(Debug, Clone, Args)]
pub(super) struct TargetArgs {
    /// Host of the server, `wirelane bench serve`; default port 50052. If none answers and no port is given, one is
    /// started there over ssh
    #[arg(value_name = "HOST[:PORT]", required_unless_present = "local", conflicts_with = "local")]
    host: Option<Host>,

    /// Start the server on this host, as a separate process
    #[arg(long)]
    local: bool,

    #[command(flatten)]
    pub(super) caller: CallerArgs,
}

/// Credentials and timeout for a server.
#[derive(Debug, Clone, Args)]
pub(super) struct CallerArgs {
    /// Token file, with NAME TOKEN on its first line [env: WIRELANE_TOKEN_FILE]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// Timeout for connecting, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    timeout: Duration,
}

/// A host, and whether its port was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Host {
    pub(super) peer: Peer,
    has_port: bool,
}

impl std::str::FromStr for Host {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let has_port = text.parse::<IpAddr>().is_err() && text.contains(':');
        Ok(Host { peer: Peer::parse(text, PORT)?, has_port })
    }
}

/// A server to measure with.
pub(super) struct Target {
    /// The name to print.
    pub(super) name: String,
    addresses: Vec<SocketAddr>,
    credentials: Credentials,
    timeout: Duration,
    /// A server that this process started; it ends with it.
    child: Option<ServerProcess>,
}

impl TargetArgs {
    /// Finds it, or starts it.
    pub(super) fn find(&self, global: &Global, settings: &Settings) -> Result<Target, Failure> {
        match &self.host {
            None => Target::start_local(global, &self.caller),
            Some(host) => Target::find(host, &self.caller, global, settings),
        }
    }
}

impl CallerArgs {
    /// A token, the key of the settings, or none.
    pub(super) fn credentials(
        &self,
        global: &Global,
        settings: &Settings,
    ) -> Result<Credentials, Failure> {
        match self.token_file.as_ref().or(global.token_file.as_ref()) {
            Some(file) => Ok(Credentials::Key(token::caller(file)?)),
            None if settings.key_file.is_empty() => Ok(Credentials::None),
            None => Ok(Credentials::Key(key_file::read(&PathBuf::from(&settings.key_file))?)),
        }
    }
}

impl Target {
    /// Starts a server on this host.
    fn start_local(global: &Global, caller: &CallerArgs) -> Result<Target, Failure> {
        let child = ServerProcess::start_local(global)?;
        Ok(Target {
            name: facts::host(),
            addresses: vec![child.address],
            credentials: child.credentials.clone(),
            timeout: caller.timeout,
            child: Some(child),
        })
    }

    /// A server that runs on the host, or is started there.
    fn find(
        host: &Host,
        caller: &CallerArgs,
        global: &Global,
        settings: &Settings,
    ) -> Result<Target, Failure> {
        let target = Target::running(host, caller, global, settings)?;
        if host.has_port || target.answers() {
            return Ok(target);
        }
        output::progress(&format!("no server answers at {}: starting one over ssh …", host.peer));
        target.start_remote(host, &one_time_key()?)
    }

    /// The servers of several hosts. If no ports were given and one of them does not answer, new servers are started on
    /// all, with one key: each server authenticates to the next with the key that the client used, so all need the same
    /// one.
    pub(super) fn find_all(
        hosts: &[Host],
        caller: &CallerArgs,
        global: &Global,
        settings: &Settings,
    ) -> Result<Vec<Target>, Failure> {
        let running = hosts.iter().map(|host| Target::running(host, caller, global, settings));
        let running = running.collect::<Result<Vec<_>, _>>()?;
        let all_answer = || remote::in_parallel(&running, Target::answers).into_iter().all(|is| is);
        if hosts.iter().any(|host| host.has_port) || all_answer() {
            return Ok(running);
        }
        output::progress("not every host has a server: starting one on each over ssh …");
        let key = one_time_key()?;
        let pairs: Vec<(&Host, &Target)> = hosts.iter().zip(&running).collect();
        let started = remote::in_parallel(&pairs, |(host, target)| target.start_remote(host, &key));
        started.into_iter().collect()
    }

    /// A server that should be running on the host.
    pub(super) fn running(
        host: &Host,
        caller: &CallerArgs,
        global: &Global,
        settings: &Settings,
    ) -> Result<Target, Failure> {
        let credentials = caller.credentials(global, settings)?;
        let (peer, timeout) = (host.peer.clone(), caller.timeout);
        let waiting = || format!("looking {} up …", host.peer);
        let found = with_timeout(timeout, waiting, move || peer.resolve())?;
        let addresses = found.unwrap_or_else(|| {
            let text = format!("look up {}: the resolver does not answer", host.peer.host());
            exit::immediately(Err(Failure::failed(text)))
        })?;
        let name = host.peer.host().to_owned();
        Ok(Target { name, addresses, credentials, timeout, child: None })
    }

    /// Whether one of the addresses accepts a connection.
    fn answers(&self) -> bool {
        let timeout = self.timeout.min(Duration::from_secs(3));
        self.addresses
            .iter()
            .any(|address| std::net::TcpStream::connect_timeout(address, timeout).is_ok())
    }

    fn start_remote(&self, host: &Host, key: &str) -> Result<Target, Failure> {
        let listen =
            if self.addresses.iter().any(SocketAddr::is_ipv4) { "0.0.0.0:0" } else { "[::]:0" };
        let child =
            ServerProcess::start_remote(host.peer.host(), listen, key).map_err(|failure| {
                Failure::failed(format!(
                    "no server answers at {}: start `wirelane bench serve` there ({failure})",
                    host.peer
                ))
            })?;
        let port = child.address.port();
        let addresses = self.addresses.iter().map(|address| SocketAddr::new(address.ip(), port));
        Ok(Target {
            addresses: addresses.collect(),
            credentials: child.credentials.clone(),
            child: Some(child),
            name: self.name.clone(),
            timeout: self.timeout,
        })
    }

    /// Its address for other hosts: the name that the user gave, and its port.
    pub(super) fn peer_address(&self) -> String {
        let port = self.address().port();
        match self.name.contains(':') {
            true => format!("[{}]:{port}", self.name),
            false => format!("{}:{port}", self.name),
        }
    }

    /// The first of its addresses.
    pub(super) fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// Its host name for ssh, if it was started over ssh.
    pub(super) fn ssh_host(&self) -> Option<&str> {
        (self.child.is_some() && !self.is_local()).then_some(self.name.as_str())
    }

    /// Whether it was started on this host by this process.
    pub(super) fn is_local(&self) -> bool {
        self.child.is_some() && self.addresses.iter().all(|address| address.ip().is_loopback())
    }

    /// Connects to the first address that answers.
    pub(super) fn connect(&self, transports: &Transports) -> Result<Client, Failure> {
        let (addresses, credentials) = (self.addresses.clone(), self.credentials.clone());
        let (transports, limit) = (transports.clone(), self.timeout);
        let waiting =
            || format!("connecting to {}, for {} s at most …", self.name, limit.as_secs());
        let dial = move || dial(&addresses, &credentials, &transports, limit);
        let client = with_timeout(limit, waiting, dial)?.unwrap_or_else(|| {
            let text = format!("connect to {}: no answer in time", self.name);
            exit::immediately(Err(Failure::failed(text)))
        });
        client.map_err(|error| match error.kind {
            ErrorKind::Gone => Failure::failed(format!(
                "{error} — is `wirelane bench serve` running there? Does a firewall block it?"
            )),
            ErrorKind::Misuse | ErrorKind::Refused => {
                Failure::failed(exit::with_options(error.to_string(), &error))
            }
        })
    }
}

fn dial(
    addresses: &[SocketAddr],
    credentials: &Credentials,
    transports: &Transports,
    limit: Duration,
) -> Result<Client, measure::Error> {
    let deadline = Instant::now() + limit;
    let mut last = None;
    for address in addresses {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        match Client::connect(*address, credentials, transports.clone(), facts::counters(), left) {
            Ok(client) => return Ok(client),
            // The server is there, and refuses.
            Err(error) if error.kind == ErrorKind::Refused => return Err(error),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| measure::Error::unreached("connect timed out")))
}
