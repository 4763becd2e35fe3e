//! NVIDIA's GPUs, read anew each time.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use nvml_wrapper::error::NvmlError;

use super::xids::Xids;
use crate::answers::{Nvml, nvml};

/// What looking at GPUs gave.
#[derive(Debug, Clone, PartialEq)]
pub enum GpuLook {
    /// They are there.
    Gpus(Nvml),
    /// There are none, and why: that there is no library or no driver is an answer, and no fault.
    NoGpus(String),
    /// They should be there, and NVML fails or does not answer.
    Failed(String),
}

/// Watches the GPUs of this machine. NVML is started once and lives on a thread of its own: a call of it that hangs costs
/// what it would have told, and holds up nobody.
#[derive(Debug)]
pub struct GpuWatch {
    asks: Sender<()>,
    answers: Receiver<GpuLook>,
    /// Since when an answer has been owed.
    owed: Option<Instant>,
}

impl GpuWatch {
    /// Begins to watch; NVML is started by the first look.
    pub fn open() -> GpuWatch {
        let mut session = Session::default();
        GpuWatch::of(move || session.look())
    }

    /// On a thread that ends when nobody asks any more.
    fn of(mut look: impl FnMut() -> GpuLook + Send + 'static) -> GpuWatch {
        let (asks, asked) = mpsc::channel();
        let (tell, answers) = mpsc::channel();
        let answer = move || {
            while asked.recv().is_ok() && tell.send(look()).is_ok() {}
        };
        // With no thread nobody answers, which a look then says.
        let _ = std::thread::Builder::new().name("gpu watch".to_owned()).spawn(answer);
        GpuWatch { asks, answers, owed: None }
    }

    /// One look, for which `patience` is the most that is waited. While an earlier look has not been answered nothing is
    /// waited for; what comes too late is thrown away.
    pub fn look(&mut self, patience: Duration) -> GpuLook {
        if let Some(since) = self.owed {
            if self.answers.try_recv().is_err() {
                return silent(since);
            }
            self.owed = None;
        }
        let now = Instant::now();
        if self.asks.send(()).is_err() {
            return GpuLook::Failed("the thread that asks NVML has ended".to_owned());
        }
        match self.answers.recv_timeout(patience) {
            Ok(look) => look,
            Err(RecvTimeoutError::Timeout) => {
                self.owed = Some(now);
                silent(now)
            }
            Err(RecvTimeoutError::Disconnected) => {
                GpuLook::Failed("the thread that asks NVML has ended".to_owned())
            }
        }
    }
}

fn silent(since: Instant) -> GpuLook {
    let seconds = since.elapsed().as_secs_f64();
    GpuLook::Failed(format!(
        "NVML has not answered for {seconds:.1} s; the kernel's log may tell which GPU hangs"
    ))
}

/// NVML, once it could be started.
#[derive(Debug, Default)]
struct Session {
    started: Option<Started>,
    /// Why it could not be, and when it is tried again.
    off: Option<(GpuLook, Instant)>,
}

#[derive(Debug)]
struct Started {
    library: Arc<nvml_wrapper::Nvml>,
    xids: Xids,
}

impl Session {
    fn look(&mut self) -> GpuLook {
        if let Some((why, until)) = &self.off
            && Instant::now() < *until
        {
            return why.clone();
        }
        let look = self.try_look().unwrap_or_else(|error| why_not(&error));
        self.off = None;
        if !matches!(look, GpuLook::Gpus(_)) {
            // A driver that was exchanged is found again only by starting anew.
            self.started = None;
            self.off = Some((look.clone(), Instant::now() + TRY_AGAIN));
        }
        look
    }

    fn try_look(&mut self) -> Result<GpuLook, NvmlError> {
        let started = match &mut self.started {
            Some(started) => started,
            none => none.insert(Started::new()?),
        };
        let mut found = nvml::look(&started.library)?;
        if found.gpus.is_empty() {
            return Ok(GpuLook::NoGpus("NVML finds no GPU".to_owned()));
        }
        found.xids_by = started.xids.tell(&mut found.gpus);
        Ok(GpuLook::Gpus(found))
    }
}

impl Started {
    fn new() -> Result<Started, NvmlError> {
        let library = Arc::new(nvml::start()?);
        Ok(Started { xids: Xids::watch(&library), library })
    }
}

fn why_not(error: &NvmlError) -> GpuLook {
    match error {
        NvmlError::LibloadingError(why) => GpuLook::NoGpus(format!("there is no NVML: {why}")),
        NvmlError::DriverNotLoaded | NvmlError::LibraryNotFound => {
            GpuLook::NoGpus(format!("NVML finds no driver: {error}"))
        }
        _ => GpuLook::Failed(format!("NVML fails: {error}")),
    }
}

/// A driver may be loaded, or come back, while we run.
const TRY_AGAIN: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn found(driver: &str) -> GpuLook {
        GpuLook::Gpus(Nvml { driver: Some(driver.to_owned()), ..Nvml::default() })
    }

    #[test]
    fn each_look_is_asked_anew() {
        let mut number = 0;
        let mut watch = GpuWatch::of(move || {
            number += 1;
            found(&number.to_string())
        });
        assert_eq!(watch.look(LONG), found("1"));
        assert_eq!(watch.look(LONG), found("2"));
    }

    #[test]
    fn a_call_that_hangs_is_told_and_waited_for_once() {
        let (go_on, hold) = mpsc::channel::<&str>();
        let (tell, answered) = mpsc::channel();
        let mut watch = GpuWatch::of(move || {
            let look = hold.recv().map_or_else(|_| found("none"), found);
            let _ = tell.send(());
            look
        });
        let failed = |look| matches!(look, GpuLook::Failed(why) if why.contains("not answered"));
        assert!(failed(watch.look(Duration::ZERO)));
        // Were it waited for again, the test would not end.
        assert!(failed(watch.look(LONG)));
        go_on.send("late").expect("the thread is there");
        answered.recv().expect("the thread is there");
        go_on.send("now").expect("the thread is there");
        // Between its answer and its arrival there is a moment.
        let look = loop {
            match watch.look(LONG) {
                look @ GpuLook::Gpus(_) => break look,
                _ => std::thread::yield_now(),
            }
        };
        assert_eq!(look, found("now"), "what came too late is not told");
    }

    #[test]
    fn a_thread_that_is_gone_is_told() {
        let mut watch = GpuWatch::of(|| panic!("a library that fails"));
        assert!(matches!(watch.look(LONG), GpuLook::Failed(why) if why.contains("ended")));
        assert!(matches!(watch.look(LONG), GpuLook::Failed(why) if why.contains("ended")));
    }

    #[test]
    fn a_machine_without_nvml_says_so_and_one_with_it_tells_its_gpus() {
        match GpuWatch::open().look(LONG) {
            GpuLook::Gpus(found) => assert!(!found.gpus.is_empty()),
            GpuLook::NoGpus(why) | GpuLook::Failed(why) => assert!(why.contains("NVML"), "{why}"),
        }
    }
}
