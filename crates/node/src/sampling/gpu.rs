//! Samples of NVIDIA's GPUs.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use nvml_wrapper::error::NvmlError;

use super::xids::Xids;
use crate::queries::{Nvml, nvml};

/// The result of a sample.
#[derive(Debug, Clone, PartialEq)]
pub enum GpuSample {
    /// The GPUs.
    Gpus(Nvml),
    /// There are none; the reason. A missing library or driver is not a fault.
    NoGpus(String),
    /// NVML fails or does not answer.
    Failed(String),
}

/// Samples the GPUs of this machine. NVML is started once and runs on a thread of its own: a call that hangs costs
/// its result, but does not block the caller.
#[derive(Debug)]
pub struct GpuSampler {
    requests: Sender<()>,
    samples: Receiver<GpuSample>,
    /// The time of a request that is not answered yet.
    pending_since: Option<Instant>,
}

impl GpuSampler {
    /// Starts a watch; NVML is started by the first sample.
    pub fn open() -> GpuSampler {
        let mut session = Session::default();
        GpuSampler::with_sampler(move || session.sample())
    }

    /// Runs the sampler on a thread that ends with the watch.
    fn with_sampler(mut sample: impl FnMut() -> GpuSample + Send + 'static) -> GpuSampler {
        let (requests, requested) = mpsc::channel();
        let (send, samples) = mpsc::channel();
        let serve = move || {
            while requested.recv().is_ok() && send.send(sample()).is_ok() {}
        };
        // If the thread cannot be started, the first sample fails.
        let _ = std::thread::Builder::new().name("gpu watch".to_owned()).spawn(serve);
        GpuSampler { requests, samples, pending_since: None }
    }

    /// Takes a sample within `timeout`. While an earlier request is not answered, it fails immediately; a late
    /// result is dropped.
    pub fn sample(&mut self, timeout: Duration) -> GpuSample {
        if let Some(since) = self.pending_since {
            if self.samples.try_recv().is_err() {
                return no_answer(since);
            }
            self.pending_since = None;
        }
        let now = Instant::now();
        if self.requests.send(()).is_err() {
            return GpuSample::Failed(THREAD_ENDED.to_owned());
        }
        match self.samples.recv_timeout(timeout) {
            Ok(sample) => sample,
            Err(RecvTimeoutError::Timeout) => {
                self.pending_since = Some(now);
                no_answer(now)
            }
            Err(RecvTimeoutError::Disconnected) => GpuSample::Failed(THREAD_ENDED.to_owned()),
        }
    }
}

fn no_answer(since: Instant) -> GpuSample {
    let seconds = since.elapsed().as_secs_f64();
    GpuSample::Failed(format!(
        "NVML has not answered for {seconds:.1} s; check the kernel log for a GPU that hangs"
    ))
}

/// NVML, once it could be started.
#[derive(Debug, Default)]
struct Session {
    started: Option<Started>,
    /// The last failure, and when to try again.
    failure: Option<(GpuSample, Instant)>,
}

#[derive(Debug)]
struct Started {
    library: Arc<nvml_wrapper::Nvml>,
    xids: Xids,
}

impl Session {
    fn sample(&mut self) -> GpuSample {
        if let Some((why, until)) = &self.failure
            && Instant::now() < *until
        {
            return why.clone();
        }
        let sample = self.try_sample().unwrap_or_else(|error| failure(&error));
        self.failure = None;
        if !matches!(sample, GpuSample::Gpus(_)) {
            // After a driver was replaced, NVML must be restarted.
            self.started = None;
            self.failure = Some((sample.clone(), Instant::now() + RETRY_INTERVAL));
        }
        sample
    }

    fn try_sample(&mut self) -> Result<GpuSample, NvmlError> {
        let started = match &mut self.started {
            Some(started) => started,
            none => none.insert(Started::new()?),
        };
        let mut found = nvml::sample(&started.library)?;
        if found.gpus.is_empty() {
            return Ok(GpuSample::NoGpus("NVML found no GPU".to_owned()));
        }
        found.xids_by = started.xids.add_counts(&mut found.gpus);
        Ok(GpuSample::Gpus(found))
    }
}

impl Started {
    fn new() -> Result<Started, NvmlError> {
        let library = Arc::new(nvml::start()?);
        Ok(Started { xids: Xids::watch(&library), library })
    }
}

fn failure(error: &NvmlError) -> GpuSample {
    match error {
        NvmlError::LibloadingError(why) => {
            GpuSample::NoGpus(format!("NVML is not installed: {why}"))
        }
        NvmlError::DriverNotLoaded | NvmlError::LibraryNotFound => {
            GpuSample::NoGpus(format!("NVML found no driver: {error}"))
        }
        _ => GpuSample::Failed(format!("NVML failed: {error}")),
    }
}

const THREAD_ENDED: &str = "the thread that queries NVML has ended";
/// A driver may be loaded while the watch runs.
const RETRY_INTERVAL: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn found(driver: &str) -> GpuSample {
        GpuSample::Gpus(Nvml { driver: Some(driver.to_owned()), ..Nvml::default() })
    }

    #[test]
    fn each_sample_is_a_new_query() {
        let mut number = 0;
        let mut watch = GpuSampler::with_sampler(move || {
            number += 1;
            found(&number.to_string())
        });
        assert_eq!(watch.sample(LONG), found("1"));
        assert_eq!(watch.sample(LONG), found("2"));
    }

    #[test]
    fn a_call_that_hangs_fails_and_is_waited_for_once() {
        let (release, blocked) = mpsc::channel::<&str>();
        let (notify, answered) = mpsc::channel();
        let mut watch = GpuSampler::with_sampler(move || {
            let sample = blocked.recv().map_or_else(|_| found("none"), found);
            let _ = notify.send(());
            sample
        });
        let failed =
            |sample| matches!(sample, GpuSample::Failed(why) if why.contains("not answered"));
        assert!(failed(watch.sample(Duration::ZERO)));
        // If it were waited for again, the test would not end.
        assert!(failed(watch.sample(LONG)));
        release.send("late").expect("the thread is there");
        answered.recv().expect("the thread is there");
        release.send("now").expect("the thread is there");
        // The answer takes a moment to arrive.
        let sample = loop {
            match watch.sample(LONG) {
                sample @ GpuSample::Gpus(_) => break sample,
                _ => std::thread::yield_now(),
            }
        };
        assert_eq!(sample, found("now"), "the late result is dropped");
    }

    #[test]
    fn a_thread_that_ended_is_reported() {
        let mut watch = GpuSampler::with_sampler(|| panic!("a library that fails"));
        assert!(matches!(watch.sample(LONG), GpuSample::Failed(why) if why.contains("ended")));
        assert!(matches!(watch.sample(LONG), GpuSample::Failed(why) if why.contains("ended")));
    }

    #[test]
    fn this_machine_has_gpus_or_a_reason_for_none() {
        match GpuSampler::open().sample(LONG) {
            GpuSample::Gpus(found) => assert!(!found.gpus.is_empty()),
            GpuSample::NoGpus(why) | GpuSample::Failed(why) => {
                assert!(why.contains("NVML"), "{why}")
            }
        }
    }
}
