//! The HTTP pages of the exporter.

use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use tokio::task::spawn_blocking;

use super::encoder::{DEFAULT_TIMEOUT, Encoder};
use crate::web_config::Pages;
use web::{Head, PLAIN, Reply, text};

#[derive(Debug)]
pub(super) struct ExporterPages {
    encoder: Arc<Encoder>,
}

impl ExporterPages {
    pub(super) fn new(encoder: Arc<Encoder>) -> Self {
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
                let (encoder, timeout) = (self.encoder.clone(), timeout(head));
                match spawn_blocking(move || encoder.scrape(timeout)).await {
                    Ok(body) => text(StatusCode::OK, metric::CONTENT_TYPE, body),
                    Err(_) => {
                        let body = "a collector failed; see the log\n";
                        text(StatusCode::INTERNAL_SERVER_ERROR, PLAIN, body)
                    }
                }
            }
            HEALTH => text(StatusCode::OK, PLAIN, "ok\n"),
            _ => text(StatusCode::OK, "text/html; charset=utf-8", INDEX),
        }
    }
}

/// Shorter than the scrape timeout: the scraper gets what could be read, instead of nothing.
fn timeout(head: &Head) -> Duration {
    let header =
        head.headers.get(TIMEOUT_HEADER).and_then(|value| value.to_str().ok()?.parse().ok());
    let Some(seconds) = header.filter(|seconds: &f64| seconds.is_finite()) else {
        return DEFAULT_TIMEOUT;
    };
    Duration::from_secs_f64((seconds - MARGIN_SECONDS).clamp(MIN_SECONDS, MAX_SECONDS))
}

const ROOT: &str = "/";
const METRICS: &str = "/metrics";
const HEALTH: &str = "/healthz";
/// The scrape timeout of Prometheus.
const TIMEOUT_HEADER: &str = "x-prometheus-scrape-timeout-seconds";
/// For the transfer of request and reply.
const MARGIN_SECONDS: f64 = 0.5;
const MIN_SECONDS: f64 = 0.1;
const MAX_SECONDS: f64 = 50.0;
const INDEX: &str = "<!doctype html>
<html lang=\"en\"><head><meta charset=\"utf-8\"><title>wirelane exporter</title></head>
<body><h1>wirelane exporter</h1>
<ul><li><a href=\"/metrics\">/metrics</a>: for Prometheus</li>
<li><a href=\"/healthz\">/healthz</a>: whether it runs</li></ul></body></html>
";

#[cfg(test)]
mod tests {
    use super::*;

    fn timeout_for(seconds: &str) -> Duration {
        let request = hyper::Request::builder().header(TIMEOUT_HEADER, seconds).body(());
        timeout(&request.expect("a request").into_parts().0)
    }

    #[test]
    fn a_scraper_is_answered_before_it_gives_up() {
        assert_eq!(timeout_for("10"), Duration::from_millis(9500));
        assert_eq!(timeout_for("0.2"), Duration::from_millis(100));
        assert_eq!(timeout_for("1e300"), Duration::from_secs(50));
        for invalid in ["", "soon", "NaN", "inf"] {
            assert_eq!(timeout_for(invalid), DEFAULT_TIMEOUT, "{invalid}");
        }
    }
}
