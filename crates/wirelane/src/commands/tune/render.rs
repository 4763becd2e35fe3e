//! A plan for people and as JSON.

use change::tune::Profile;
use change::{ApplyOutcome, Plan, Reader};
use serde::Serialize;

use crate::commands::plans::apply::PlanView;
use crate::commands::plans::report;

/// A plan and how it stands on the machine.
#[derive(Serialize)]
pub(super) struct TuneReport<'p> {
    profile: Profile,
    /// Whether the machine has RDMA devices.
    rdma: bool,
    #[serde(flatten)]
    plan: report::Report<'p>,
    #[serde(skip)]
    to_decide: usize,
}

impl<'p> TuneReport<'p> {
    pub(super) fn new(
        plan: &'p Plan,
        reader: &Reader<'_>,
        profile: Profile,
        no_rdma: bool,
    ) -> Self {
        let to_decide = plan.advice.len();
        TuneReport { profile, rdma: !no_rdma, plan: report::Report::new(plan, reader), to_decide }
    }

    fn summary(&self) -> String {
        let mut parts = self.plan.counts();
        if self.to_decide > 0 {
            parts.push(format!("{} for you to decide", self.to_decide));
        }
        format!("profile {}: {}\n", self.profile.name(), parts.join(", "))
    }
}

impl PlanView for TuneReport<'_> {
    fn text(&self) -> String {
        let mut text = String::new();
        if !self.rdma {
            text.push_str(
                "There is no RDMA device here: only what is good for any host is looked at.\n\n",
            );
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
