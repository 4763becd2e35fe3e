//! The other end of a measurement: a server that runs, or one that is started for it.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use fabric::session::Credentials;
use measure::{Client, Kind, Transports};

use super::child::{Helper, one_time_key};
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
    /// The other end, where `wirelane bench serve` listens; the port is 50052 unless given. Where none answers, and no port
    /// is given, one is started there by ssh
    #[arg(value_name = "HOST[:PORT]", required_unless_present = "local", conflicts_with = "local")]
    host: Option<Host>,

    /// Start the other end here, as a process of its own
    #[arg(long)]
    local: bool,

    #[command(flatten)]
    pub(super) caller: CallerArgs,
}

/// As whom a server is called.
#[derive(Debug, Clone, Args)]
pub(super) struct CallerArgs {
    /// Token file, with NAME TOKEN on its first line; also by the variable WIRELANE_TOKEN_FILE
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// How many seconds connecting may take
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

/// The other end, found.
pub(super) struct Target {
    /// For people.
    pub(super) name: String,
    addresses: Vec<SocketAddr>,
    credentials: Credentials,
    timeout: Duration,
    /// Ends with us.
    helper: Option<Helper>,
}

impl TargetArgs {
    /// Finds it, or starts it.
    pub(super) fn find(&self, global: &Global, settings: &Settings) -> Result<Target, Failure> {
        match &self.host {
            None => Target::start(global, &self.caller),
            Some(host) => Target::find(host, &self.caller, global, settings),
        }
    }
}

impl CallerArgs {
    /// By a token, the settings' key, or nothing.
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
    /// A process of our own, here.
    fn start(global: &Global, caller: &CallerArgs) -> Result<Target, Failure> {
        let helper = Helper::here(global)?;
        Ok(Target {
            name: facts::host(),
            addresses: vec![helper.address],
            credentials: helper.credentials.clone(),
            timeout: caller.timeout,
            helper: Some(helper),
        })
    }

    /// One that runs there, or is started there.
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
        output::progress(&format!("no server answers at {}: starting one by ssh …", host.peer));
        target.start_there(host, &one_time_key()?)
    }

    /// All of several. Where no ports were given and one of them does not answer, all are started anew, with one key: each
    /// shows the next what we showed it, so none may know another.
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
        output::progress("not every host has a server: starting one on each by ssh …");
        let key = one_time_key()?;
        let pairs: Vec<(&Host, &Target)> = hosts.iter().zip(&running).collect();
        let started = remote::in_parallel(&pairs, |(host, target)| target.start_there(host, &key));
        started.into_iter().collect()
    }

    /// One that should run there.
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
        Ok(Target { name, addresses, credentials, timeout, helper: None })
    }

    /// Whether somebody listens at one of the addresses.
    fn answers(&self) -> bool {
        let soon = self.timeout.min(Duration::from_secs(3));
        self.addresses
            .iter()
            .any(|address| std::net::TcpStream::connect_timeout(address, soon).is_ok())
    }

    fn start_there(&self, host: &Host, key: &str) -> Result<Target, Failure> {
        let any =
            if self.addresses.iter().any(SocketAddr::is_ipv4) { "0.0.0.0:0" } else { "[::]:0" };
        let helper = Helper::there(host.peer.host(), any, key).map_err(|failure| {
            Failure::failed(format!(
                "nobody answers at {}: start `wirelane bench serve` there ({failure})",
                host.peer
            ))
        })?;
        let port = helper.address.port();
        let addresses = self.addresses.iter().map(|address| SocketAddr::new(address.ip(), port));
        Ok(Target {
            addresses: addresses.collect(),
            credentials: helper.credentials.clone(),
            helper: Some(helper),
            name: self.name.clone(),
            timeout: self.timeout,
        })
    }

    /// By what another host reaches it: as it was named, at the port it has.
    pub(super) fn seen_by_others(&self) -> String {
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

    /// By what ssh knows it, if we started it there.
    pub(super) fn ssh_host(&self) -> Option<&str> {
        (self.helper.is_some() && !self.is_local()).then_some(self.name.as_str())
    }

    /// Whether it was started by us on this host.
    pub(super) fn is_local(&self) -> bool {
        self.helper.is_some() && self.addresses.iter().all(|address| address.ip().is_loopback())
    }

    /// Connects to the first address that answers.
    pub(super) fn connect(&self, ways: &Transports) -> Result<Client, Failure> {
        let (addresses, credentials) = (self.addresses.clone(), self.credentials.clone());
        let (ways, limit) = (ways.clone(), self.timeout);
        let waiting =
            || format!("connecting to {}, for {} s at most …", self.name, limit.as_secs());
        let dial = move || dial(&addresses, &credentials, &ways, limit);
        let client = with_timeout(limit, waiting, dial)?.unwrap_or_else(|| {
            let text = format!("connect to {}: no answer in time", self.name);
            exit::immediately(Err(Failure::failed(text)))
        });
        client.map_err(|error| match error.kind {
            Kind::Gone => Failure::failed(format!(
                "{error} — is `wirelane bench serve` running there, and not kept from us by a firewall?"
            )),
            Kind::Misuse | Kind::Refused => Failure::failed(error.to_string()),
        })
    }
}

fn dial(
    addresses: &[SocketAddr],
    credentials: &Credentials,
    ways: &Transports,
    limit: Duration,
) -> Result<Client, measure::Error> {
    let deadline = Instant::now() + limit;
    let mut last = None;
    for address in addresses {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        match Client::connect(*address, credentials, ways.clone(), facts::counters(), left) {
            Ok(client) => return Ok(client),
            // Somebody is there, and says no.
            Err(error) if error.kind == Kind::Refused => return Err(error),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| measure::Error::unreached("no time was left to connect")))
}
