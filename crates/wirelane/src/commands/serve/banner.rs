//! The lines printed at start: at most eight, and one more if libfabric is requested. The last, about RDMA, follows when
//! the devices have answered.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use kv_server::Engine;
use kv_store::WhenFull;

use super::authenticator::Authenticator;
use super::offered_transports::OfferedTransports;
use crate::arguments::size;
use crate::commands::version::VERSION;
use crate::output;

/// The contents of the lines.
pub(super) struct Banner {
    pub(super) durability: String,
    pub(super) pool: String,
    pub(super) transports: String,
    pub(super) access: &'static str,
    /// A command of a client, after its server.
    pub(super) example: String,
    /// http or https.
    pub(super) scheme: &'static str,
}

impl Banner {
    pub(super) fn new(
        engine: &Engine,
        when_full: WhenFull,
        prefault: bool,
        authenticator: &Authenticator,
        offered_transports: &OfferedTransports,
        example: String,
    ) -> Self {
        let pool = engine.pool();
        let pages = size::format(pool.page_size());
        let allocation = if prefault { "allocated now" } else { "allocated on demand" };
        let disk = engine.disk_status();
        let durability = match &disk {
            None => "in-memory store (not persistent)".to_owned(),
            Some(status) => {
                let (path, bytes) = (status.disk.path().display(), status.disk.bytes());
                let bytes = size::format(bytes as usize);
                format!("persistent store in {path} ({bytes})")
            }
        };
        let full = match when_full {
            _ if disk.is_some() => "cache of recently used values",
            WhenFull::Evict => "evicts values not read recently when full",
            WhenFull::Refuse => "refuses new values when full",
        };
        let scheme = if authenticator.http_tls().is_some() { "https" } else { "http" };
        let pool =
            format!("{} in pages of {pages}, {allocation}; {full}", size::format(pool.len()));
        Banner {
            durability,
            pool,
            transports: offered_transports.line(),
            access: authenticator.requirement(),
            example,
            scheme,
        }
    }

    /// Prints the lines; `open`: whether the listener for links is open.
    pub(super) fn print(
        &self,
        links: SocketAddr,
        http: SocketAddr,
        metrics: Option<SocketAddr>,
        open: bool,
    ) {
        let Banner { durability, pool, transports, access, example, scheme } = self;
        let later =
            if open { "" } else { "; not open yet: RDMA devices or libfabric do not answer" };
        let peer: SocketAddr = match links {
            SocketAddr::V4(any) if any.ip().is_unspecified() => {
                (Ipv4Addr::LOCALHOST, any.port()).into()
            }
            SocketAddr::V6(any) if any.ip().is_unspecified() => {
                (Ipv6Addr::LOCALHOST, any.port()).into()
            }
            named => named,
        };
        output::note(&format!("wirelane {VERSION}: {durability}"));
        output::note(&format!("pool  {pool}"));
        output::note(&format!("links {links}  {access}{later}"));
        output::note(&format!("transports {transports}"));
        output::note(&format!(
            "HTTP  {scheme}://{http}  /metrics  /healthz  /readyz  /api/v1/transport/status{}",
            metrics.map_or(String::new(), |address| format!(";  open: http://{address}/metrics"))
        ));
        output::note(&format!("try   wirelane kv --server {peer} {example}"));
        output::note("stop  Ctrl-C");
    }
}
