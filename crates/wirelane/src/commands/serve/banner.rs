//! What is said at the start: at most eight lines, and one where libfabric is asked for; the last of them about RDMA,
//! once the devices have answered.

use std::net::SocketAddr;

use kv_server::Engine;
use kv_store::WhenFull;

use super::guard::Guard;
use super::offers::Offers;
use crate::arguments::size;
use crate::commands::version::VERSION;
use crate::output;

/// All that the first lines tell of.
pub(super) struct Greeting {
    pub(super) keeps: String,
    pub(super) pool: String,
    pub(super) ways: String,
    pub(super) callers: &'static str,
    /// What a caller must say beside the server.
    pub(super) shows: &'static str,
    /// How HTTP is spoken.
    pub(super) scheme: &'static str,
}

impl Greeting {
    pub(super) fn new(
        engine: &Engine,
        when_full: WhenFull,
        prefault: bool,
        guard: &Guard,
        offers: &Offers,
    ) -> Self {
        let pool = engine.pool();
        let pages = size::shown(pool.page_size());
        let there = if prefault { "allocated now" } else { "allocated on demand" };
        let durability = engine.durability();
        let keeps = match &durability {
            None => "in-memory store (not persistent)".to_owned(),
            Some(durability) => {
                let (path, bytes) = (durability.disk.path().display(), durability.disk.bytes());
                let bytes = size::shown(bytes as usize);
                format!("keeps what it acknowledges in {path} ({bytes} now)")
            }
        };
        let full = match when_full {
            _ if durability.is_some() => "caches what was read lately",
            WhenFull::Evict => "when full, evicts values that were not read lately",
            WhenFull::Refuse => "when full, new values are refused",
        };
        let (callers, shows) = guard.greeting();
        let scheme = if guard.http_tls().is_some() { "https" } else { "http" };
        let pool = format!("{} in pages of {pages}, {there}; {full}", size::shown(pool.len()));
        Greeting { keeps, pool, ways: offers.line(), callers, shows, scheme }
    }

    /// Says it; `open`: whether peers can call already.
    pub(super) fn say(
        &self,
        links: SocketAddr,
        http: SocketAddr,
        metrics: Option<SocketAddr>,
        open: bool,
    ) {
        let Greeting { keeps, pool, ways, callers, shows, scheme } = self;
        let later = if open { "" } else { "; not yet: an RDMA device does not answer" };
        let peer = match links.ip().is_unspecified() {
            true => format!("HOST:{}", links.port()),
            false => links.to_string(),
        };
        output::note(&format!("wirelane {VERSION}: {keeps}"));
        output::note(&format!("pool  {pool}"));
        output::note(&format!("links {links}  {callers}{later}"));
        output::note(&format!("lanes {ways}"));
        output::note(&format!(
            "HTTP  {scheme}://{http}  /metrics  /healthz  /readyz  /api/v1/transport/status{}",
            metrics.map_or(String::new(), |alone| format!(";  open: http://{alone}/metrics"))
        ));
        output::note(&format!("try   wirelane kv --server {peer}{shows} put hello world"));
        output::note("stop  Ctrl-C");
    }
}
