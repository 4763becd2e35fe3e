//! What `/api/v1/transport/status` answers: a look at the machine, at most once a second, and the links.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use fabric::link::{Endpoint, Explanation, Listener};
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::door::DoorReport;
use crate::cli::Global;
use crate::config::Settings;
use crate::rdma::{ChoiceReport, DeviceReport, Rdma, RdmaReport};
use crate::version::VERSION;

pub(super) struct Status {
    global: Global,
    settings: Settings,
    endpoint: Endpoint,
    /// Where peers call, once it is open.
    door: OnceLock<Arc<Listener>>,
    /// The last look. Locked while somebody looks, so that a device which does not answer costs
    /// one thread and not one for every caller.
    last: Arc<Mutex<Option<Look>>>,
}

/// What was seen of the machine, and when.
type Look = (Instant, Arc<Rdma>);

impl Status {
    pub(super) fn new(global: Global, settings: Settings, endpoint: Endpoint) -> Self {
        Status { global, settings, endpoint, door: OnceLock::new(), last: Arc::default() }
    }

    /// Peers can call from now on.
    pub(super) fn opened(&self, door: Arc<Listener>) {
        // There is one door.
        let _ = self.door.set(door);
    }

    /// Asks the machine now. Opens every device, so it blocks.
    pub(super) fn look(&self) -> Rdma {
        Rdma::look_with(&self.global, &self.settings)
    }

    /// The answer as JSON text; `None` when a device keeps us waiting too long, the door too.
    pub(super) async fn json(self: Arc<Self>) -> Option<String> {
        let door = self.door.get()?.clone();
        let rdma = self.clone().lately().await?;
        Some(self.render(&rdma, &door))
    }

    async fn lately(self: Arc<Self>) -> Option<Arc<Rdma>> {
        let mut last = timeout(PATIENCE, self.last.clone().lock_owned()).await.ok()?;
        if let Some((at, rdma)) = &*last
            && at.elapsed() < FRESH
        {
            return Some(rdma.clone());
        }
        let look = tokio::task::spawn_blocking(move || {
            let rdma = Arc::new(self.look());
            *last = Some((Instant::now(), rdma.clone()));
            rdma
        });
        timeout(PATIENCE, look).await.ok()?.ok()
    }

    fn render(&self, rdma: &Rdma, door: &Listener) -> String {
        let report = Report {
            version: VERSION,
            rdma: rdma.report(),
            choice: rdma.choice(&self.settings).into(),
            devices: rdma.device_reports(),
            door: DoorReport::new(door),
            links: self.endpoint.links(),
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
    door: DoorReport,
    links: Vec<Explanation>,
}

const FRESH: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(5);
