//! The RDMA ports of this host, and the providers of libfabric. Querying devices takes time, and one may not
//! answer at all: callers that must not wait use the last result.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::providers::Providers;
use crate::{ofi, verbs};

/// Which devices to query, and the last result.
pub(in crate::link) struct Ports {
    /// The file of libibverbs; `None`: verbs is not enabled.
    pub(in crate::link) library: Option<PathBuf>,
    /// `None`: libfabric is not enabled.
    pub(in crate::link) providers: Option<Arc<Providers>>,
    /// Names of devices; empty: all.
    pub(in crate::link) devices: Vec<String>,
    pub(in crate::link) device_request: verbs::DeviceRequest,
    pub(in crate::link) cache: Mutex<Cache>,
}

/// The usable ports, best first, and why others are not usable.
#[derive(Debug, Clone, Default)]
pub(in crate::link) struct DeviceList {
    pub(in crate::link) choices: Vec<verbs::Choice>,
    pub(in crate::link) ports: Vec<verbs::UsablePort>,
    pub(in crate::link) refused: String,
    /// The same for libfabric.
    pub(in crate::link) providers: Vec<ofi::Provider>,
    pub(in crate::link) no_ofi: String,
}

#[derive(Default)]
pub(in crate::link) struct Cache {
    last: Option<(Instant, DeviceList)>,
    /// Whether a query is running.
    querying: bool,
}

impl Ports {
    /// Whether verbs or libfabric is enabled.
    pub(in crate::link) fn is_enabled(&self) -> bool {
        self.library.is_some() || self.providers.is_some()
    }

    /// Queries all devices; may block.
    pub(in crate::link) fn query(&self) -> DeviceList {
        let list = self.query_devices();
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        *cache = Cache { last: Some((Instant::now(), list.clone())), querying: false };
        list
    }

    /// As [`Ports::query`], but waits at most `limit` for devices that do not answer.
    pub(in crate::link) fn query_within(self: &Arc<Self>, limit: Duration) -> DeviceList {
        let started = Instant::now();
        loop {
            let (list, is_fresh) = self.latest();
            if is_fresh || started.elapsed() >= limit {
                return list;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The last result. If it is old, a thread queries again.
    pub(in crate::link) fn cached(self: &Arc<Self>) -> DeviceList {
        self.latest().0
    }

    /// The last result and whether it is fresh, under one lock: the devices may answer right after it.
    fn latest(self: &Arc<Self>) -> (DeviceList, bool) {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fresh = cache.last.as_ref().is_some_and(|(at, _)| at.elapsed() <= MAX_CACHE_AGE);
        if !is_fresh && !cache.querying {
            let ports = self.clone();
            let query = move || drop(ports.query());
            let thread = std::thread::Builder::new().name("wirelane-ports".to_owned());
            cache.querying = thread.spawn(query).is_ok();
        }
        let list = match &cache.last {
            Some((_, list)) => list.clone(),
            None => {
                let pending = || "the devices have not answered yet".to_owned();
                DeviceList { refused: pending(), no_ofi: pending(), ..DeviceList::default() }
            }
        };
        (list, is_fresh)
    }

    fn query_devices(&self) -> DeviceList {
        let list = match &self.library {
            Some(library) => self.query_verbs(library),
            None => DeviceList::default(),
        };
        match self.providers.as_ref().map(|providers| providers.query()) {
            Some(Ok(providers)) => DeviceList { providers, ..list },
            Some(Err(no_ofi)) => DeviceList { no_ofi, ..list },
            None => list,
        }
    }

    fn query_verbs(&self, library: &Path) -> DeviceList {
        let listed = match verbs::list_devices(library) {
            Ok(listed) => listed,
            Err(off) => return DeviceList { refused: off.to_string(), ..DeviceList::default() },
        };
        let wanted =
            |device: &verbs::Device| self.devices.is_empty() || self.devices.contains(&device.name);
        let devices: Vec<verbs::Device> = listed.devices.into_iter().filter(wanted).collect();
        let (choices, refused) = verbs::candidates(&devices, &self.device_request);
        let ports = choices.iter().map(verbs::UsablePort::of).collect();
        DeviceList { choices, ports, refused: refused.join("; "), ..DeviceList::default() }
    }
}

/// How long to wait for devices where others can be used without them.
pub(in crate::link) const DEVICE_QUERY_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum age of a result before the devices are queried again.
const MAX_CACHE_AGE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::EndpointSettings;

    /// The answer may arrive between reading the result and checking its age. Many threads query at the same time, so that
    /// this happens.
    #[test]
    fn a_finished_wait_never_returns_the_result_before_the_answer() {
        for round in 0..500 {
            let ports = Arc::new(Ports {
                library: None,
                providers: None,
                devices: Vec::new(),
                device_request: EndpointSettings::default().device_request,
                cache: Mutex::default(),
            });
            let query = || ports.query_within(Duration::from_secs(600));
            std::thread::scope(|scope| {
                let waiting: Vec<_> = (0..8).map(|_| scope.spawn(query)).collect();
                for thread in waiting {
                    assert_eq!(thread.join().unwrap().refused, "", "round {round}");
                }
            });
        }
    }
}
