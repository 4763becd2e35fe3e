//! What the store on this machine says of itself: its `/metrics`, read anew for each frame.

use std::net::SocketAddr;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use doctor::watch::{Run, Store};
use web::GetError;

use crate::arguments::peer::Peer;
use crate::output::Failure;

/// Asks a store, on a thread of its own.
#[derive(Debug)]
pub(super) struct StoreWatch {
    ask: Sender<()>,
    told: Receiver<Answer>,
    /// Whether the user named it: then it is said when it does not answer.
    named: bool,
}

type Answer = Result<Store, String>;

impl StoreWatch {
    /// Of the store that was named, or else of one that listens where `serve` does by itself.
    pub(super) fn start(named: Option<&Peer>) -> Result<StoreWatch, Failure> {
        let usual = || "127.0.0.1:8080".parse().map_err(Failure::failed);
        let peer = named.cloned().map_or_else(usual, Ok)?;
        let (ask, asked) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        let is_named = named.is_some();
        let thread = std::thread::Builder::new().name("wirelane-store".to_owned());
        let thread = thread.spawn(move || answer(&peer, is_named, &asked, &tell));
        thread.map_err(|error| Failure::failed(format!("start a thread: {error}")))?;
        Ok(StoreWatch { ask, told, named: is_named })
    }

    /// Asks; the answer is fetched a little later.
    pub(super) fn ask(&self) {
        // What came too late for the frame before.
        while self.told.try_recv().is_ok() {}
        // The thread lives as long as this does.
        let _ = self.ask.send(());
    }

    /// What it says, if it says so in time; and how it fared, if the user wants to know.
    pub(super) fn told(&self, patience: Duration) -> (Option<Store>, Option<Run>) {
        let answer = self.told.recv_timeout(patience);
        let why = match answer {
            Ok(Ok(store)) => return (Some(store), None),
            Ok(Err(why)) => why,
            Err(_) => "it does not answer in time".to_owned(),
        };
        let run = Run { collector: "store".to_owned(), why: Some(why), ..Run::default() };
        (None, self.named.then_some(run))
    }
}

fn answer(peer: &Peer, named: bool, asked: &Receiver<()>, tell: &Sender<Answer>) {
    let mut failed: Option<(Instant, String)> = None;
    while asked.recv().is_ok() {
        let again = match &failed {
            Some((when, why)) if !named && when.elapsed() < PAUSE => Err(why.clone()),
            _ => look(peer),
        };
        failed = match (&again, failed) {
            (Ok(_), _) => None,
            (Err(_), Some(before)) if before.0.elapsed() < PAUSE => Some(before),
            (Err(why), _) => Some((Instant::now(), why.clone())),
        };
        if tell.send(again).is_err() {
            return;
        }
    }
}

fn look(peer: &Peer) -> Answer {
    let addresses = peer.resolve().map_err(|failure| failure.to_string())?;
    let mut last = format!("{peer} has no address");
    for address in addresses {
        match fetch(address) {
            Ok(text) => {
                let none = || format!("http://{peer}/metrics has no metrics of a store");
                return parse(&text, &peer.to_string()).ok_or_else(none);
            }
            Err(why) => last = format!("read http://{peer}/metrics: {why}"),
        }
    }
    Err(last)
}

fn fetch(address: SocketAddr) -> Result<String, String> {
    web::get(address, "/metrics", PATIENCE, MAX_BYTES).map_err(|error| match error {
        GetError::Status(401 | 403) => {
            "credentials required — use the address of the store's --metrics".to_owned()
        }
        error => error.to_string(),
    })
}

/// Samples of the text format, by names without the prefix, which the user may choose.
fn parse(text: &str, address: &str) -> Option<Store> {
    let samples = || text.lines().filter_map(sample);
    let prefix = samples().find_map(|sample| sample.name.strip_suffix("store_keys"))?;
    let mut store = Store { address: address.to_owned(), ..Store::default() };
    for Sample { name, labels, value } in samples() {
        let Some(name) = name.strip_prefix(prefix) else { continue };
        let name = match label(labels, "quantile") {
            None => name.to_owned(),
            Some("0.99") => format!("{name}_p99"),
            // Quantiles cannot be added up.
            Some(_) => continue,
        };
        if name.ends_with("_bucket") {
            continue;
        }
        if let ("links", Some(lane)) = (name.as_str(), label(labels, "lane")) {
            store.links.insert(doctor::one_line(lane), value);
        }
        *store.numbers.entry(name).or_default() += value;
    }
    Some(store)
}

struct Sample<'t> {
    name: &'t str,
    labels: &'t str,
    value: f64,
}

/// `name{label="value"} 7`; what is no number is no sample.
fn sample(line: &str) -> Option<Sample<'_>> {
    if line.starts_with('#') {
        return None;
    }
    let (series, value) = line.trim_end().rsplit_once(' ')?;
    let value = value.parse::<f64>().ok().filter(|value| value.is_finite())?;
    let (name, labels) = series.split_once('{').unwrap_or((series, ""));
    Some(Sample { name, labels: labels.trim_end_matches('}'), value })
}

/// The labels that are looked for have values without quotes and commas.
fn label<'t>(labels: &'t str, name: &str) -> Option<&'t str> {
    labels.split(',').find_map(|label| {
        let (known, value) = label.split_once('=')?;
        (known.trim() == name).then(|| value.trim_matches('"'))
    })
}

/// How long a store may take to answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long until one that nobody named is tried again.
const PAUSE: Duration = Duration::from_secs(5);
const MAX_BYTES: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stores_text_is_read_whatever_its_prefix() {
        let text = "# TYPE my_kv_store_keys gauge\nmy_kv_store_keys 3\n\
                    my_kv_links{lane=\"tcp\"} 2\nmy_kv_links{lane=\"shm\"} 1\n\
                    my_kv_rdma_send_latency_ns{quantile=\"0.5\"} 900\n\
                    my_kv_rdma_send_latency_ns{quantile=\"0.99\"} 2500\n\
                    my_kv_rdma_send_latency_seconds_bucket{le=\"1\"} 5\n\
                    my_kv_grpc_calls_total{method=\"get\"} 4\nmy_kv_grpc_calls_total{method=\"put\"} 5\n\
                    my_kv_pool_bytes NaN\nother_store_hits_total 9\n";
        let store = parse(text, "here").expect("a store");
        assert_eq!(store.numbers["store_keys"], 3.0);
        assert_eq!(store.numbers["grpc_calls_total"], 9.0);
        assert_eq!(store.numbers["rdma_send_latency_ns_p99"], 2500.0);
        assert_eq!((store.links["tcp"], store.links["shm"]), (2.0, 1.0));
        assert!(!store.numbers.contains_key("pool_bytes"), "no number is no zero");
        assert_eq!(store.numbers.len(), 4, "{:?}", store.numbers);
        assert_eq!(parse("node_load1 1\n", "here"), None);
    }
}
