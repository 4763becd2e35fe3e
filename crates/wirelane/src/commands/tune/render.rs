//! A plan as text and as JSON.

use change::tune::Profile;
use change::{ApplyOutcome, Plan, Reader};
use serde::Serialize;

use crate::commands::plans::apply::PlanView;
use crate::commands::plans::report;

/// A plan and the state of its steps on the machine.
#[derive(Serialize)]
pub(super) struct TuneReport<'p> {
    profile: Profile,
    /// Whether the machine has RDMA devices.
    rdma: bool,
    #[serde(flatten)]
    plan: report::Report<'p>,
    #[serde(skip)]
    manual_steps: usize,
}

impl<'p> TuneReport<'p> {
    pub(super) fn new(
        plan: &'p Plan,
        reader: &Reader<'_>,
        profile: Profile,
        no_rdma: bool,
    ) -> Self {
        let manual_steps = plan.advice.len();
        TuneReport {
            profile,
            rdma: !no_rdma,
            plan: report::Report::new(plan, reader),
            manual_steps,
        }
    }

    fn summary(&self) -> String {
        let mut parts = self.plan.counts();
        if self.manual_steps > 0 {
            parts.push(format!("{} to do manually", self.manual_steps));
        }
        format!("profile {}: {}\n", self.profile.name(), parts.join(", "))
    }
}

impl PlanView for TuneReport<'_> {
    fn text(&self) -> String {
        let mut text = String::new();
        if !self.rdma {
            text.push_str("No RDMA device: only settings for any host are planned.\n\n");
        }
        text += &self.plan.steps();
        text += &self.plan.advice("advice");
        if !text.is_empty() {
            text.push('\n');
        }
        text + &self.summary()
    }

    fn changes(&self) -> usize {
        self.plan.changes()
    }

    fn set_applied(&mut self, applied: &ApplyOutcome) {
        self.plan.set_applied(applied);
    }
}
