//! What `/api/v1/transport/status` answers: a fresh look at the machine, at most once a second.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::cli::Global;
use crate::config::Settings;
use crate::rdma::{ChoiceReport, DeviceReport, Rdma, RdmaReport};
use crate::version::VERSION;

pub(super) struct Status {
    global: Global,
    settings: Settings,
    /// The last answer. Locked while somebody looks, so that a device which does not answer costs
    /// one thread and not one for every caller.
    last: Arc<Mutex<Option<(Instant, String)>>>,
}

impl Status {
    pub(super) fn new(global: Global, settings: Settings) -> Self {
        Status { global, settings, last: Arc::default() }
    }

    /// Asks the machine now. Opens every device, so it blocks.
    pub(super) fn look(&self) -> Rdma {
        Rdma::look_with(&self.global, &self.settings)
    }

    /// The answer as JSON text; `None` when a device keeps us waiting too long.
    pub(super) async fn json(self: Arc<Self>) -> Option<String> {
        let mut last = timeout(PATIENCE, self.last.clone().lock_owned()).await.ok()?;
        if let Some((at, text)) = &*last
            && at.elapsed() < FRESH
        {
            return Some(text.clone());
        }
        let look = tokio::task::spawn_blocking(move || {
            let text = self.render();
            *last = Some((Instant::now(), text.clone()));
            text
        });
        timeout(PATIENCE, look).await.ok()?.ok()
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
const PATIENCE: Duration = Duration::from_secs(5);
