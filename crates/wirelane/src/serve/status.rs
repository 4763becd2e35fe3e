//! What `/api/v1/transport/status` answers: a fresh look at the machine, at most once a second.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::cli::Global;
use crate::config::Settings;
use crate::rdma::{ChoiceReport, DeviceReport, Rdma, RdmaReport};
use crate::version::VERSION;

pub(super) struct Status {
    global: Global,
    settings: Settings,
    last: Mutex<Option<(Instant, String)>>,
}

impl Status {
    pub(super) fn new(global: Global, settings: Settings) -> Self {
        Status { global, settings, last: Mutex::new(None) }
    }

    /// Asks the machine now.
    pub(super) fn look(&self) -> Rdma {
        Rdma::look_with(&self.global, &self.settings)
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
        let report = Report {
            version: VERSION,
            rdma: rdma.report(),
            choice: rdma.choice(&self.settings).into(),
            devices: rdma.device_reports(),
        };
        let text = serde_json::to_string_pretty(&report).expect("a report is plain data");
        format!("{text}\n")
    }
}

#[derive(Serialize)]
struct Report<'r> {
    version: &'r str,
    rdma: RdmaReport<'r>,
    choice: ChoiceReport,
    devices: Vec<DeviceReport<'r>>,
}

const FRESH: Duration = Duration::from_secs(1);
