//! What `/api/v1/transport/status` answers: a fresh look at the machine, at most once a second.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::cli::Global;
use crate::config::Settings;
use crate::rdma::{DeviceReport, Rdma, RdmaReport};
use crate::version::VERSION;

pub(super) struct Status {
    global: Global,
    rdma_enabled: bool,
    last: Mutex<Option<(Instant, String)>>,
}

impl Status {
    pub(super) fn new(global: Global, settings: &Settings) -> Self {
        Status { global, rdma_enabled: settings.enable_rdma, last: Mutex::new(None) }
    }

    /// Asks the machine now.
    pub(super) fn look(&self) -> Rdma {
        let rdma = Rdma::look(&self.global);
        if self.rdma_enabled { rdma } else { rdma.disabled("transport.enable_rdma") }
    }

    /// The answer as JSON text. Opens every device, so it blocks, and callers share a recent one.
    pub(super) fn json(&self) -> String {
        let mut last = self.last.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some((at, text)) = &*last
            && at.elapsed() < FRESH
        {
            return text.clone();
        }
        let text = self.render();
        *last = Some((Instant::now(), text.clone()));
        text
    }

    fn render(&self) -> String {
        let rdma = self.look();
        let report =
            Report { version: VERSION, rdma: rdma.report(), devices: rdma.device_reports() };
        let text = serde_json::to_string_pretty(&report).expect("a report is plain data");
        format!("{text}\n")
    }
}

#[derive(Serialize)]
struct Report<'r> {
    version: &'r str,
    rdma: RdmaReport<'r>,
    devices: Vec<DeviceReport<'r>>,
}

const FRESH: Duration = Duration::from_secs(1);
