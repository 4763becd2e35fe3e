//! Reads the `/metrics` of the store on this machine, for each sample.

use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use doctor::monitoring::{CollectorRun, SampledStore};

use crate::arguments::peer::Peer;
use crate::monitoring::store_metrics;
use crate::output::Failure;

/// Polls a store, on a separate thread.
#[derive(Debug)]
pub(super) struct StorePoller {
    requests: Sender<()>,
    answers: Receiver<Answer>,
    /// Whether the user named it: then a failure is reported.
    is_named: bool,
}

type Answer = Result<SampledStore, String>;

impl StorePoller {
    /// Polls the named store, or else one at the default address of `serve`.
    pub(super) fn start(named: Option<&Peer>) -> Result<StorePoller, Failure> {
        let peer = named.cloned().map_or_else(store_metrics::default_address, Ok)?;
        let (requests, received) = mpsc::channel();
        let (sender, answers) = mpsc::channel();
        let is_named = named.is_some();
        let thread = std::thread::Builder::new().name("wirelane-store".to_owned());
        let thread = thread.spawn(move || answer(&peer, is_named, &received, &sender));
        thread.map_err(|error| Failure::failed(format!("start a thread: {error}")))?;
        Ok(StorePoller { requests, answers, is_named })
    }

    /// Requests the metrics; `receive` returns them.
    pub(super) fn request(&self) {
        // Discard answers that were too late for the previous sample.
        while self.answers.try_recv().is_ok() {}
        // The thread lives as long as this poller.
        let _ = self.requests.send(());
    }

    /// The metrics, if they arrive in time; else the failure, if the user named the store.
    pub(super) fn receive(
        &self,
        timeout: Duration,
    ) -> (Option<SampledStore>, Option<CollectorRun>) {
        let answer = self.answers.recv_timeout(timeout);
        let why = match answer {
            Ok(Ok(store)) => return (Some(store), None),
            Ok(Err(why)) => why,
            Err(_) => "no answer in time".to_owned(),
        };
        let run = CollectorRun {
            collector: "store".to_owned(),
            why: Some(why),
            ..CollectorRun::default()
        };
        (None, self.is_named.then_some(run))
    }
}

fn answer(peer: &Peer, is_named: bool, requests: &Receiver<()>, answers: &Sender<Answer>) {
    let mut failed: Option<(Instant, String)> = None;
    while requests.recv().is_ok() {
        let result = match &failed {
            Some((when, why)) if !is_named && when.elapsed() < RETRY_PAUSE => Err(why.clone()),
            _ => query(peer),
        };
        failed = match (&result, failed) {
            (Ok(_), _) => None,
            (Err(_), Some(before)) if before.0.elapsed() < RETRY_PAUSE => Some(before),
            (Err(why), _) => Some((Instant::now(), why.clone())),
        };
        if answers.send(result).is_err() {
            return;
        }
    }
}

fn query(peer: &Peer) -> Answer {
    let text = store_metrics::fetch(peer)?;
    let none = || format!("http://{peer}/metrics has no metrics of a store");
    parse(&text, &peer.to_string()).ok_or_else(none)
}

/// Samples of the text format, by name without the prefix, which is configurable.
fn parse(text: &str, address: &str) -> Option<SampledStore> {
    let mut store = SampledStore { address: address.to_owned(), ..SampledStore::default() };
    for sample in store_metrics::samples(text)? {
        let name = match sample.label("quantile").as_deref() {
            None => sample.name.to_owned(),
            Some("0.99") => format!("{}_p99", sample.name),
            // Quantiles cannot be summed.
            Some(_) => continue,
        };
        if name.ends_with("_bucket") {
            continue;
        }
        if let ("links", Some(transport)) = (name.as_str(), sample.label("transport")) {
            store.links.insert(doctor::one_line(&transport), sample.value);
        }
        *store.numbers.entry(name).or_default() += sample.value;
    }
    Some(store)
}

/// Pause before a store that the user did not name is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_parsed_with_any_prefix() {
        let text = "# TYPE my_kv_store_keys gauge\nmy_kv_store_keys 3\n\
                    my_kv_links{transport=\"tcp\"} 2\nmy_kv_links{transport=\"shm\"} 1\n\
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
        assert!(!store.numbers.contains_key("pool_bytes"), "NaN is left out, not zero");
        assert_eq!(store.numbers.len(), 4, "{:?}", store.numbers);
        assert_eq!(parse("node_load1 1\n", "here"), None);
    }
}
