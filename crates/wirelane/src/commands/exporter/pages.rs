//! The pages over HTTP.

use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use tokio::task::spawn_blocking;

use super::encoder::{Notifier, PATIENCE};
use crate::web_config::Pages;
use web::{Head, PLAIN, Reply, text};

#[derive(Debug)]
pub(super) struct ExporterPages {
    encoder: Arc<Notifier>,
}

impl ExporterPages {
    pub(super) fn new(encoder: Arc<Notifier>) -> Self {
        ExporterPages { encoder }
    }
}

impl Pages for ExporterPages {
    fn paths(&self) -> &[&str] {
        &[ROOT, METRICS, HEALTH]
    }

    async fn page(&self, head: &Head) -> Reply {
        match head.uri.path() {
            METRICS => {
                let (encoder, patience) = (self.encoder.clone(), patience(head));
                match spawn_blocking(move || encoder.scrape(patience)).await {
                    Ok(body) => text(StatusCode::OK, metric::CONTENT_TYPE, body),
                    Err(_) => {
                        let body = "a collector failed; look at the log\n";
                        text(StatusCode::INTERNAL_SERVER_ERROR, PLAIN, body)
                    }
                }
            }
            HEALTH => text(StatusCode::OK, PLAIN, "ok\n"),
            _ => text(StatusCode::OK, "text/html; charset=utf-8", INDEX),
        }
    }
}

/// Less than the scraper has: it should get the rest, and which part is missing, rather than nothing.
fn patience(head: &Head) -> Duration {
    let told = head.headers.get(TIMEOUT_HEADER).and_then(|value| value.to_str().ok()?.parse().ok());
    let Some(seconds) = told.filter(|seconds: &f64| seconds.is_finite()) else { return PATIENCE };
    Duration::from_secs_f64((seconds - OFFSET).clamp(MIN, MAX))
}

const ROOT: &str = "/";
const METRICS: &str = "/metrics";
const HEALTH: &str = "/healthz";
/// Prometheus says how long it waits.
const TIMEOUT_HEADER: &str = "x-prometheus-scrape-timeout-seconds";
/// For the way there and back.
const OFFSET: f64 = 0.5;
const MIN: f64 = 0.1;
const MAX: f64 = 50.0;
const INDEX: &str = "<!doctype html>
<html lang=\"en\"><head><meta charset=\"utf-8\"><title>wirelane exporter</title></head>
<body><h1>wirelane exporter</h1>
<ul><li><a href=\"/metrics\">/metrics</a>: for Prometheus</li>
<li><a href=\"/healthz\">/healthz</a>: whether it runs</li></ul></body></html>
";

#[cfg(test)]
mod tests {
    use super::*;

    fn patience_for(seconds: &str) -> Duration {
        let request = hyper::Request::builder().header(TIMEOUT_HEADER, seconds).body(());
        patience(&request.expect("a request").into_parts().0)
    }

    #[test]
    fn a_scraper_is_answered_before_it_gives_up() {
        assert_eq!(patience_for("10"), Duration::from_millis(9500));
        assert_eq!(patience_for("0.2"), Duration::from_millis(100));
        assert_eq!(patience_for("1e300"), Duration::from_secs(50));
        for odd in ["", "soon", "NaN", "inf"] {
            assert_eq!(patience_for(odd), PATIENCE, "{odd}");
        }
    }
}
