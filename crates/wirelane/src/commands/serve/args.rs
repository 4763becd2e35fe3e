//! Arguments of `wirelane serve`, and the settings derived from them.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use fabric::Pages;
use fabric::link;
use kv_store::WhenFull;
use metric::Prefix;

use super::address::{HttpAddress, LinkAddress};
use super::security::{Security, SecurityArgs};
use super::user::UserArg;
use crate::arguments::size::{Size, seconds_or_none};
use crate::arguments::transport::TransportArg;
use crate::links::endpoint;
use crate::output::Failure;
use crate::settings::Global;
use crate::settings::Settings;

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Address for clients, over links and gRPC; addresses other than loopback require credentials, see below
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50051")]
    #[arg(alias = "listen-addr")]
    pub(super) listen: LinkAddress,

    /// Address for /metrics, /healthz, /readyz and /api/v1/transport/status; addresses other than
    /// loopback require credentials
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8080")]
    pub(super) http: HttpAddress,

    /// Address for /metrics only, without authentication (default: none)
    #[arg(long, value_name = "HOST:PORT")]
    pub(super) metrics: Option<HttpAddress>,

    /// Memory for values
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    memory: Size,

    /// The same in MiB, for older scripts
    #[arg(long, value_name = "N", hide = true, conflicts_with = "memory")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    memory_mb: Option<u32>,

    /// Prefault the pool at start, in huge pages where possible, instead of allocating pages on first use
    #[arg(long)]
    pub(super) prefault: bool,

    /// When the memory is full: evict values that were not read recently, or refuse new ones
    #[arg(long, value_name = "WHAT", default_value = "evict")]
    when_full: WhenFullArg,

    /// Maximum size of a value (default: the memory)
    #[arg(long, value_name = "SIZE")]
    max_value: Option<Size>,

    /// Persist acknowledged writes in this directory, across restarts and power loss; the memory is then a cache
    /// (default: not persistent)
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    /// Transport of links: the best that both ends have, or only this one
    #[arg(long, value_name = "KIND", default_value = "auto")]
    transport: TransportArg,

    /// Maximum number of RDMA port pairs (rails) per link (default: the setting rdma_rails)
    #[arg(long, value_name = "N", aliases = ["domains", "num-domains"])]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=16))]
    rails: Option<u8>,

    /// Number of threads that serve links (default: the number of CPUs)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: Option<u16>,

    /// Maximum number of clients with links (default: 4096)
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) max_clients: Option<u32>,

    /// Maximum bytes of incoming values in flight, half of it per client (default: half of the memory)
    #[arg(long, value_name = "SIZE")]
    max_in_flight: Option<Size>,

    /// Time for requests in flight to finish after a signal; a second signal exits immediately
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds_or_none)]
    pub(super) drain: Duration,

    /// Serve as this user of /etc/passwd, or UID:GID, without capabilities; only root can change the user
    #[arg(long, value_name = "USER")]
    pub(super) user: Option<UserArg>,

    /// Prefix of metric names
    #[arg(long, value_name = "WORD", default_value = "wirelane")]
    pub(super) metrics_prefix: Prefix,

    #[command(flatten)]
    pub(super) security: SecurityArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum WhenFullArg {
    Evict,
    Refuse,
}

impl ServeArgs {
    /// How clients authenticate.
    pub(super) fn security(&self, settings: &Settings) -> Result<Security, Failure> {
        self.security.check(settings, self.listen.0, self.http.0)
    }

    /// The settings of links.
    pub(super) fn links(
        &self,
        global: &Global,
        settings: &Settings,
        security: &Security,
    ) -> Result<link::EndpointSettings, Failure> {
        let mut links = endpoint::settings(global, settings, security.auth_method())?;
        self.transport.restrict(None, &mut links)?;
        links.max_peers = self.max_clients() as usize;
        links.max_rails = self.rails.map_or(links.max_rails, usize::from);
        links.require_authentication = !security.anonymous;
        Ok(links)
    }

    /// The settings of the store.
    pub(super) fn store(&self) -> Result<kv_server::Settings, Failure> {
        let memory = self.memory_mb.map_or(self.memory.0, |mib| (mib as usize) << 20);
        let max_value = self.max_value.map(|size| size.0 as u64);
        if max_value.is_some_and(|max| max > memory as u64) {
            let text = "--max-value is larger than --memory, so that no such value fits: change one of them";
            return Err(Failure::usage(text));
        }
        if self.data_dir.is_some() && self.when_full == WhenFullArg::Refuse {
            let text = "--when-full refuse contradicts --data-dir: values on the disk can always be evicted from \
                        memory, so that none is refused; remove one of them";
            return Err(Failure::usage(text));
        }
        Ok(kv_server::Settings {
            data_dir: self.data_dir.clone(),
            memory,
            pages: Pages::Auto,
            when_full: match self.when_full {
                WhenFullArg::Evict => WhenFull::Evict,
                WhenFullArg::Refuse => WhenFull::Refuse,
            },
            max_value,
            max_in_flight: self.max_in_flight.map(|size| size.0 as u64),
            idle_timeout: IDLE_TIMEOUT,
        })
    }

    /// Maximum number of links.
    pub(super) fn max_clients(&self) -> u32 {
        self.max_clients.unwrap_or(MAX_CLIENTS)
    }

    /// The option of `wirelane kv` that a client needs: libfabric is used only on request.
    pub(super) fn client_transport(&self) -> &'static str {
        if self.transport == TransportArg::Ofi { "--transport ofi " } else { "" }
    }

    /// Number of threads that serve links.
    pub(super) fn workers(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.workers.map_or_else(cores, usize::from)
    }
}

const MAX_CLIENTS: u32 = 4096;
/// How long a client may be idle during an operation that holds memory.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: ServeArgs,
    }

    fn parse(words: &[&str]) -> Result<ServeArgs, clap::Error> {
        Line::try_parse_from([&["serve"], words].concat()).map(|line| line.args)
    }

    #[test]
    fn older_spellings_mean_the_same() {
        let new = ["--listen", "127.0.0.1:7", "--memory", "64MiB", "--rails", "2"];
        let old = ["--listen-addr", "127.0.0.1:7", "--memory-mb", "64", "--num-domains", "2"];
        let [new, old] = [new, old].map(|words| parse(&words).unwrap());
        assert_eq!((new.listen, new.rails), (old.listen, old.rails));
        assert_eq!(new.store().unwrap().memory, old.store().unwrap().memory);
        assert!(parse(&["--memory", "1GiB", "--memory-mb", "64"]).is_err());
    }

    #[test]
    fn invalid_values_are_refused() {
        for wrong in [
            &["--memory-mb", "0"][..],
            &["--rails", "0"],
            &["--workers", "0"],
            &["--when-full", "panic"],
            &["--metrics-prefix", "a-b"],
            &["--max-clients", "0"],
            &["--max-in-flight", "0"],
            &["--drain", "-1"],
            &["--user", "998"],
        ] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
        let wrong = parse(&["--memory", "1MiB", "--max-value", "2MiB"]).unwrap();
        assert!(wrong.store().is_err());
        let defaults = parse(&[]).unwrap().store().unwrap();
        assert_eq!((defaults.memory, defaults.when_full), (1 << 30, WhenFull::Evict));
    }
}
