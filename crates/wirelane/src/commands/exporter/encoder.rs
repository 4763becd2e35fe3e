//! The metrics as text.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use doctor::monitoring::exposition::{self, node_exporter};
use doctor::monitoring::{MachineSample, rows};
use metric::Exposition;

use super::args::Compat;
use crate::commands::version::VERSION;
use crate::monitoring::Monitor;
use crate::output;

/// Formats the readings of the collectors.
#[derive(Debug)]
pub(super) struct Encoder {
    monitor: Monitor,
    compat: Option<Compat>,
    /// Whether this is --once: problems are printed instead of logged.
    once: bool,
    scrapes: AtomicU64,
    /// Collectors without a reading whose reason was reported, and whether they succeeded.
    reported: Mutex<BTreeMap<String, bool>>,
}

impl Encoder {
    pub(super) fn new(monitor: Monitor, compat: Option<Compat>, once: bool) -> Self {
        Encoder { monitor, compat, once, scrapes: AtomicU64::new(0), reported: Mutex::default() }
    }

    /// For a scrape over HTTP.
    pub(super) fn scrape(&self, timeout: Duration) -> String {
        let scrapes = self.scrapes.fetch_add(1, Ordering::Relaxed) + 1;
        self.text(timeout, self.compat, |own| own.add(&rows::SCRAPES, &[], scrapes))
    }

    /// For the text file. It has no names of other exporters, which would collide with theirs.
    pub(super) fn file(&self, timeout: Duration, errors: u64) -> String {
        self.text(timeout, None, |own| own.add(&rows::TEXTFILE_ERRORS, &[], errors))
    }

    /// For --once.
    pub(super) fn print(&self, timeout: Duration) -> String {
        self.text(timeout, self.compat, |_| {})
    }

    /// The collectors without a reading, and why: each once, until that changes.
    fn new_problems(&self, sample: &MachineSample) -> Vec<(bool, String)> {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        let mut problems = Vec::new();
        for run in &sample.runs {
            // The reason of a hanging collector contains a growing time, so reasons are not compared.
            let known = match run.why {
                Some(_) => reported.insert(run.collector.clone(), run.success),
                None => reported.remove(&run.collector),
            };
            if let Some(why) = run.why.as_ref().filter(|_| known != Some(run.success)) {
                problems.push((run.success, format!("{}: {why}", run.collector)));
            }
        }
        problems
    }

    fn text(
        &self,
        timeout: Duration,
        compat: Option<Compat>,
        more: impl FnOnce(&mut Exposition),
    ) -> String {
        let sample = self.monitor.sample(timeout);
        for (success, why) in self.new_problems(&sample) {
            match (self.once, success) {
                (true, _) => output::note(&why),
                (false, true) => tracing::info!("{why}"),
                (false, false) => tracing::warn!("{why}"),
            }
        }
        let mut exposed = exposition::expose(&sample);
        exposed.own.add(&rows::BUILD, &[("version", VERSION)], true);
        more(&mut exposed.own);
        match compat {
            None => exposed.to_string(),
            Some(Compat::Node) => format!("{exposed}{}", node_exporter::expose(&sample)),
        }
    }
}

/// Default timeout of collectors: less than Prometheus's default scrape timeout of ten seconds.
pub(super) const DEFAULT_TIMEOUT: Duration = Duration::from_millis(9500);
