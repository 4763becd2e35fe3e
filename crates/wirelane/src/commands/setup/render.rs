//! A plan as text and as JSON.

use change::setup::Purpose;
use change::{ApplyOutcome, Plan, Reader};
use node::Node;
use serde::Serialize;

use crate::commands::plans::apply::PlanView;
use crate::commands::plans::report;

/// A plan and the state of its steps on the machine.
#[derive(Serialize)]
pub(super) struct SetupReport<'p> {
    purpose: Purpose,
    /// `debian 12`.
    system: Option<&'p str>,
    /// Whether the machine has RDMA devices.
    rdma: bool,
    #[serde(flatten)]
    plan: report::Report<'p>,
    #[serde(skip)]
    manual_steps: usize,
}

impl<'p> SetupReport<'p> {
    pub(super) fn new(
        purpose: Purpose,
        node: &'p Node,
        plan: &'p Plan,
        reader: &Reader<'_>,
    ) -> SetupReport<'p> {
        SetupReport {
            purpose,
            system: node.host.system.as_deref(),
            rdma: !node.devices.is_empty(),
            plan: report::Report::new(plan, reader),
            manual_steps: plan.advice.len(),
        }
    }
}

impl PlanView for SetupReport<'_> {
    fn text(&self) -> String {
        let mut text = String::new();
        if !self.rdma {
            text.push_str(NO_RDMA);
        }
        text += &self.plan.steps();
        text += &self.plan.advice("advice");
        let mut counts = self.plan.counts();
        if self.manual_steps > 0 {
            counts.push(format!("{} to do manually", self.manual_steps));
        }
        let system = self.system.unwrap_or("unknown system");
        format!("{text}\n{} on {system}: {}\n", self.purpose.name(), counts.join(", "))
    }

    fn changes(&self) -> usize {
        self.plan.changes()
    }

    fn set_applied(&mut self, applied: &ApplyOutcome) {
        self.plan.set_applied(applied);
    }
}

const NO_RDMA: &str = "No RDMA device: steps for its ports are planned once it exists. Its driver may be missing or not loaded \
                       (see `wirelane doctor`).\n\n";
