//! The RDMA ports of this host, and the providers of libfabric. Asking devices takes time, and one may not
//! answer at all: who must not wait takes what was seen lately.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::providers::Providers;
use crate::{ofi, verbs};

/// Which ports to look for, and what was last seen of them.
pub(in crate::link) struct Ports {
    /// The file of libibverbs; none: it is not asked.
    pub(in crate::link) library: Option<PathBuf>,
    /// None: libfabric is not asked.
    pub(in crate::link) providers: Option<Arc<Providers>>,
    /// Names of devices; none: all.
    pub(in crate::link) devices: Vec<String>,
    pub(in crate::link) wish: verbs::DeviceRequest,
    pub(in crate::link) seen: Mutex<Seen>,
}

/// The ports that can be used, best first, and why others cannot.
#[derive(Debug, Clone, Default)]
pub(in crate::link) struct View {
    pub(in crate::link) choices: Vec<verbs::Choice>,
    pub(in crate::link) ports: Vec<verbs::UsablePort>,
    pub(in crate::link) refused: String,
    /// The same of libfabric.
    pub(in crate::link) providers: Vec<ofi::Provider>,
    pub(in crate::link) no_ofi: String,
}

#[derive(Default)]
pub(in crate::link) struct Seen {
    last: Option<(Instant, View)>,
    /// Whether somebody is asking now.
    asking: bool,
}

impl Ports {
    /// Whether anybody is asked at all.
    pub(in crate::link) fn are_there(&self) -> bool {
        self.library.is_some() || self.providers.is_some()
    }

    /// Asks all devices; may block.
    pub(in crate::link) fn look(&self) -> View {
        let view = self.ask();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        *seen = Seen { last: Some((Instant::now(), view.clone())), asking: false };
        view
    }

    /// As [`Ports::look`], but waits no longer than `limit` for devices that do not answer.
    pub(in crate::link) fn look_within(self: &Arc<Self>, limit: Duration) -> View {
        let begun = Instant::now();
        loop {
            let (view, is_fresh) = self.latest();
            if is_fresh || begun.elapsed() >= limit {
                return view;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// What was seen lately. Where that is old, somebody else is sent to look again.
    pub(in crate::link) fn glance(self: &Arc<Self>) -> View {
        self.latest().0
    }

    /// The same, and whether it is fresh, at one moment: the devices may answer right after it.
    fn latest(self: &Arc<Self>) -> (View, bool) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fresh = seen.last.as_ref().is_some_and(|(at, _)| at.elapsed() <= LATELY);
        if !is_fresh && !seen.asking {
            let ports = self.clone();
            let look = move || drop(ports.look());
            let thread = std::thread::Builder::new().name("wirelane-ports".to_owned());
            seen.asking = thread.spawn(look).is_ok();
        }
        let view = match &seen.last {
            Some((_, view)) => view.clone(),
            None => {
                let yet = || "the devices have not answered yet".to_owned();
                View { refused: yet(), no_ofi: yet(), ..View::default() }
            }
        };
        (view, is_fresh)
    }

    fn ask(&self) -> View {
        let view = match &self.library {
            Some(library) => self.ask_verbs(library),
            None => View::default(),
        };
        match self.providers.as_ref().map(|providers| providers.look()) {
            Some(Ok(providers)) => View { providers, ..view },
            Some(Err(no_ofi)) => View { no_ofi, ..view },
            None => view,
        }
    }

    fn ask_verbs(&self, library: &Path) -> View {
        let survey = match verbs::survey(library) {
            Ok(survey) => survey,
            Err(off) => return View { refused: off.to_string(), ..View::default() },
        };
        let wanted =
            |device: &verbs::Device| self.devices.is_empty() || self.devices.contains(&device.name);
        let devices: Vec<verbs::Device> = survey.devices.into_iter().filter(wanted).collect();
        let (choices, refused) = verbs::candidates(&devices, &self.wish);
        let ports = choices.iter().map(verbs::UsablePort::of).collect();
        View { choices, ports, refused: refused.join("; "), ..View::default() }
    }
}

/// How old what is sent to callers may be.
const LATELY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Settings;

    /// The answer may come right after somebody has looked and before he is told that it is there. Many look at once,
    /// so that this happens.
    #[test]
    fn who_waits_for_the_devices_is_never_told_what_was_before_their_answer() {
        for round in 0..500 {
            let ports = Arc::new(Ports {
                library: None,
                providers: None,
                devices: Vec::new(),
                wish: Settings::default().wish,
                seen: Mutex::default(),
            });
            let look = || ports.look_within(Duration::from_secs(600));
            std::thread::scope(|scope| {
                let waiting: Vec<_> = (0..8).map(|_| scope.spawn(look)).collect();
                for one in waiting {
                    assert_eq!(one.join().unwrap().refused, "", "round {round}");
                }
            });
        }
    }
}
