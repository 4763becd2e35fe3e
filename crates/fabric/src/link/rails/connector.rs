//! What takes time when lanes are made: done elsewhere, since polling never blocks.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::lane::RailLane;
use super::probe::Probe;
use crate::error::{Error, Kind};
use crate::half::{Fabric, Half, Side};
use crate::lane::Lane;
use crate::link::messages::message_queue::MessageQueue;
use crate::link::protocol::control::Class;

/// Opens devices and other paths by their names.
pub(crate) trait Transports: Send + Sync {
    /// Opens one; may block.
    fn open(&self, class: Class, path: &str) -> Result<Arc<dyn Fabric>, Error>;
    /// Lets go of a path that is of no use any more, if it is so; may block.
    fn tidy(&self, class: Class, path: &str);
    /// Called with every lane that was made.
    fn made(&self, _lane: &dyn Lane) {}
}

/// Does tasks, and gives back what they made.
pub(crate) trait Connector: Send {
    fn start(&mut self, task: ConnectorTask);
    fn finished(&mut self) -> Option<Finished>;
    /// Readable when something is finished.
    fn fd(&self) -> Option<BorrowedFd<'_>>;
}

/// Work on the lane of one generation of a rail.
pub(crate) struct ConnectorTask {
    pub(in crate::link) rail: u8,
    pub(in crate::link) generation: u32,
    pub(in crate::link) task: Task,
}

pub(in crate::link) enum Task {
    Prepare {
        class: Class,
        path: String,
        side: Side,
    },
    Connect {
        half: Box<dyn Half>,
        fabric: Arc<dyn Fabric>,
        offer: Vec<u8>,
        make: Make,
    },
    /// Ending a lane may wait for its device.
    Discard(Box<RailLane>),
    /// A device that is lost must be let go of, or it cannot come back.
    Tidy {
        class: Class,
        path: String,
    },
}

/// How to furnish a lane.
pub(in crate::link) struct Make {
    pub(in crate::link) messages: u16,
    pub(in crate::link) room: usize,
    pub(in crate::link) limit: Duration,
}

pub(crate) struct Finished {
    pub(in crate::link) rail: u8,
    pub(in crate::link) generation: u32,
    pub(in crate::link) product: Result<Product, Error>,
}

pub(in crate::link) enum Product {
    Half(Box<dyn Half>, Arc<dyn Fabric>),
    Lane(Box<RailLane>),
}

impl ConnectorTask {
    /// Does it. Nothing comes of what is discarded.
    pub(crate) fn run(self, transports: &dyn Transports) -> Option<Finished> {
        let ConnectorTask { rail, generation, task } = self;
        let product = match task {
            Task::Prepare { class, path, side } => prepare(transports, class, &path, side),
            Task::Connect { half, fabric, offer, make } => {
                connect(transports, half, &*fabric, &offer, &make)
            }
            Task::Discard(lane) => {
                drop(lane);
                return None;
            }
            Task::Tidy { class, path } => {
                transports.tidy(class, &path);
                return None;
            }
        };
        Some(Finished { rail, generation, product })
    }
}

fn prepare(
    transports: &dyn Transports,
    class: Class,
    path: &str,
    side: Side,
) -> Result<Product, Error> {
    let fabric = transports.open(class, path)?;
    // What was opened for an earlier lane may be of no use now.
    let half = fabric.half(side).inspect_err(|_| transports.tidy(class, path))?;
    Ok(Product::Half(half, fabric))
}

fn connect(
    transports: &dyn Transports,
    half: Box<dyn Half>,
    fabric: &dyn Fabric,
    offer: &[u8],
    make: &Make,
) -> Result<Product, Error> {
    // Before the peer can send: what is made here is ready when the lane is.
    let messages = MessageQueue::new(fabric, make.messages, make.room)?;
    let probe = Probe::new(fabric)?;
    let lane = half.connect(offer, make.limit)?;
    if lane.caps().datagram {
        let why = "unreliable datagrams lose messages, and cannot write or read";
        let fix = "set rdma_qp_type to RC; UD is for bare lanes";
        return Err(Error::new(Kind::Unsupported, "make a link of a UD lane", why, fix));
    }
    let slots: usize = messages.slots().iter().map(|slots| usize::from(*slots)).sum();
    if lane.caps().receives < slots {
        let why = format!("it has {} receives, and a link needs {slots}", lane.caps().receives);
        let fix = "raise rdma_max_recv_wr, or lower the link's number of messages";
        return Err(Error::new(Kind::Unsupported, "use a lane for a link", why, fix));
    }
    transports.made(&*lane);
    Ok(Product::Lane(Box::new(RailLane::new(lane, messages, probe))))
}

/// A thread for each task: there are few, and each may wait for something else.
pub(crate) struct Threads {
    transports: Arc<dyn Transports>,
    results: Receiver<Finished>,
    done: Sender<Finished>,
    wakeup: Arc<OwnedFd>,
}

impl Threads {
    pub(crate) fn new(transports: Arc<dyn Transports>) -> Result<Self, Error> {
        let wakeup =
            eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|error| {
                let fix = "raise the limit of open files: `ulimit -n`";
                Error::new(Kind::System, "prepare a link", error, fix)
            })?;
        let (done, results) = channel();
        Ok(Threads { transports, results, done, wakeup: Arc::new(wakeup) })
    }
}

impl Connector for Threads {
    fn start(&mut self, task: ConnectorTask) {
        let (rail, generation) = (task.rail, task.generation);
        let (transports, done, wakeup) =
            (self.transports.clone(), self.done.clone(), self.wakeup.clone());
        let work = move || {
            let run = std::panic::AssertUnwindSafe(|| task.run(&*transports));
            // A panic is reported where it happens; the rail must not wait for it for ever.
            let finished = std::panic::catch_unwind(run).unwrap_or_else(|_| {
                let (why, fix) = ("it panicked", "report this with the program's log");
                let error = Error::new(Kind::System, "set up a rail", why, fix);
                Some(Finished { rail, generation, product: Err(error) })
            });
            if let Some(finished) = finished {
                // Nobody waits any more if this fails.
                let _ = done.send(finished);
                let _ = rustix::io::write(&*wakeup, &1u64.to_ne_bytes());
            }
        };
        let started = std::thread::Builder::new().name("wirelane-rail".to_owned()).spawn(work);
        if let Err(error) = started {
            let fix = "raise the limit of threads of this user or container";
            let error = Error::new(Kind::System, "start a thread for a rail", error, fix);
            let _ = self.done.send(Finished { rail, generation, product: Err(error) });
            let _ = rustix::io::write(&*self.wakeup, &1u64.to_ne_bytes());
        }
    }

    fn finished(&mut self) -> Option<Finished> {
        let mut count = [0; 8];
        let _ = rustix::io::read(&*self.wakeup, &mut count);
        self.results.try_recv().ok()
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.wakeup.as_fd())
    }
}
