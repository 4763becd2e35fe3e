//! What a scraper is told.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use doctor::watch::exposition::{self, node_exporter};
use doctor::watch::{Frame, rows};
use metric::Exposition;

use super::args::Compat;
use crate::commands::version::VERSION;
use crate::output;
use crate::watch::Watcher;

/// Makes the text of what the collectors say.
#[derive(Debug)]
pub(super) struct Notifier {
    watcher: Watcher,
    compat: Option<Compat>,
    /// Whether a person reads it, and no log is kept.
    once: bool,
    scrapes: AtomicU64,
    /// Collectors of which was said why they tell nothing, and whether that is a failure.
    said: Mutex<BTreeMap<String, bool>>,
}

impl Notifier {
    pub(super) fn new(watcher: Watcher, compat: Option<Compat>, once: bool) -> Self {
        Notifier { watcher, compat, once, scrapes: AtomicU64::new(0), said: Mutex::default() }
    }

    /// For who asks over HTTP.
    pub(super) fn scrape(&self, patience: Duration) -> String {
        let scrapes = self.scrapes.fetch_add(1, Ordering::Relaxed) + 1;
        self.text(patience, self.compat, |own| own.add(&rows::SCRAPES, &[], scrapes))
    }

    /// For a file that others read. Names of other exporters would collide with theirs.
    pub(super) fn file(&self, patience: Duration, errors: u64) -> String {
        self.text(patience, None, |own| own.add(&rows::TEXTFILE_ERRORS, &[], errors))
    }

    /// For a person.
    pub(super) fn print(&self, patience: Duration) -> String {
        self.text(patience, self.compat, |_| {})
    }

    /// What collectors do not tell, and why: each once, until that changes.
    fn news(&self, frame: &Frame) -> Vec<(bool, String)> {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let mut news = Vec::new();
        for run in &frame.runs {
            // How long something has not answered grows; that it does not is said already.
            let known = match run.why {
                Some(_) => said.insert(run.collector.clone(), run.success),
                None => said.remove(&run.collector),
            };
            if let Some(why) = run.why.as_ref().filter(|_| known != Some(run.success)) {
                news.push((run.success, format!("{}: {why}", run.collector)));
            }
        }
        news
    }

    fn text(
        &self,
        patience: Duration,
        compat: Option<Compat>,
        more: impl FnOnce(&mut Exposition),
    ) -> String {
        let frame = self.watcher.frame(patience);
        for (success, why) in self.news(&frame) {
            match (self.once, success) {
                (true, _) => output::note(&why),
                (false, true) => tracing::info!("{why}"),
                (false, false) => tracing::warn!("{why}"),
            }
        }
        let mut exposed = exposition::expose(&frame);
        exposed.own.add(&rows::BUILD, &[("version", VERSION)], true);
        more(&mut exposed.own);
        match compat {
            None => exposed.to_string(),
            Some(Compat::Node) => format!("{exposed}{}", node_exporter::expose(&frame)),
        }
    }
}

/// How long collectors may take where nobody says: Prometheus waits for ten seconds.
pub(super) const PATIENCE: Duration = Duration::from_millis(9500);
