//! Setup and teardown of lanes, which may block: done by threads, since polling never blocks.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::lane::RailLane;
use super::probe::Probe;
use crate::error::{Error, ErrorKind};
use crate::lane::Lane;
use crate::link::messages::message_buffers::MessageBuffers;
use crate::link::protocol::control::{RailPlan, Transport};
use crate::link::protocol::hello::Hello;
use crate::setup::{Fabric, Side, UnconnectedLane};

/// Opens fabrics by transport and the name of a port or provider (of shared memory and TCP, that of the transport); for the
/// rails of one link.
pub(crate) trait FabricOpener: Send + Sync {
    /// Opens a port or provider; may block.
    fn open(&self, transport: Transport, port_name: &str) -> Result<Arc<dyn Fabric>, Error>;
    /// Releases a port or provider if it is broken; may block.
    fn release_broken(&self, transport: Transport, port_name: &str);
    /// Called with every new lane.
    fn lane_created(&self, _lane: &dyn Lane) {}
    /// Plans the rails again, with the devices that this end has now, and with the peer's, if it has announced them; may
    /// block. Only the initiator plans rails. `None`: not possible.
    fn plan_again(&self, _theirs: Option<Hello>) -> Option<NewPlan> {
        None
    }
}

/// A plan of rails that was made after the link.
pub(crate) struct NewPlan {
    /// Our hello with the current devices.
    pub(in crate::link) ours: Hello,
    /// The peer's, if it has announced devices.
    pub(in crate::link) theirs: Option<Hello>,
    pub(in crate::link) plans: Vec<RailPlan>,
    pub(in crate::link) left_out: Vec<String>,
}

/// Runs tasks, and returns their results.
pub(crate) trait Connector: Send {
    fn start(&mut self, task: ConnectorTask);
    fn finished(&mut self) -> Option<TaskResult>;
    /// Readable when a task has finished.
    fn fd(&self) -> Option<BorrowedFd<'_>>;
}

/// The number of no rail, for tasks that are about all of them.
pub(in crate::link) const NO_RAIL: u8 = u8::MAX;

/// A task for the lane of one generation of a rail.
pub(crate) struct ConnectorTask {
    pub(in crate::link) rail: u8,
    pub(in crate::link) generation: u32,
    pub(in crate::link) task: Task,
}

pub(in crate::link) enum Task {
    Prepare {
        transport: Transport,
        port_name: String,
        side: Side,
    },
    Connect {
        unconnected: Box<dyn UnconnectedLane>,
        fabric: Arc<dyn Fabric>,
        offer: Vec<u8>,
        options: LaneOptions,
    },
    /// Closes a lane, which may wait for its device.
    Discard(Box<RailLane>),
    /// Releases a lost device, which cannot come back before that.
    Release {
        transport: Transport,
        port_name: String,
    },
    /// Plans the rails again, with the devices that the peer has announced.
    Plan(Option<Box<Hello>>),
}

/// Parameters for connecting a lane.
pub(in crate::link) struct LaneOptions {
    pub(in crate::link) message_slots: u16,
    pub(in crate::link) max_payload: usize,
    pub(in crate::link) timeout: Duration,
}

pub(crate) struct TaskResult {
    pub(in crate::link) rail: u8,
    pub(in crate::link) generation: u32,
    pub(in crate::link) output: Result<TaskOutput, Error>,
}

pub(in crate::link) enum TaskOutput {
    Unconnected(Box<dyn UnconnectedLane>, Arc<dyn Fabric>),
    Lane(Box<RailLane>),
    Plan(Option<Box<NewPlan>>),
}

impl ConnectorTask {
    /// Runs the task. Some tasks have no result.
    pub(crate) fn run(self, opener: &dyn FabricOpener) -> Option<TaskResult> {
        let ConnectorTask { rail, generation, task } = self;
        let output = match task {
            Task::Prepare { transport, port_name, side } => {
                prepare(opener, transport, &port_name, side)
            }
            Task::Connect { unconnected, fabric, offer, options } => {
                connect(opener, unconnected, &fabric, &offer, &options)
            }
            Task::Discard(lane) => {
                drop(lane);
                return None;
            }
            Task::Release { transport, port_name } => {
                opener.release_broken(transport, &port_name);
                return None;
            }
            Task::Plan(theirs) => {
                let plan = opener.plan_again(theirs.map(|theirs| *theirs));
                Ok(TaskOutput::Plan(plan.map(Box::new)))
            }
        };
        Some(TaskResult { rail, generation, output })
    }
}

fn prepare(
    opener: &dyn FabricOpener,
    transport: Transport,
    port_name: &str,
    side: Side,
) -> Result<TaskOutput, Error> {
    let fabric = opener.open(transport, port_name)?;
    // The device was opened for an earlier lane and may be lost now.
    let unconnected =
        fabric.prepare_lane(side).inspect_err(|_| opener.release_broken(transport, port_name))?;
    Ok(TaskOutput::Unconnected(unconnected, fabric))
}

fn connect(
    opener: &dyn FabricOpener,
    unconnected: Box<dyn UnconnectedLane>,
    fabric: &Arc<dyn Fabric>,
    offer: &[u8],
    options: &LaneOptions,
) -> Result<TaskOutput, Error> {
    // Before the lane is connected, which may take a while.
    let probe = Probe::new(&**fabric)?;
    let mut lane = unconnected.connect(offer, options.timeout)?;
    if lane.caps().datagram {
        let why = "unreliable datagrams lose messages, and cannot write or read";
        let fix = "set rdma_qp_type to RC; UD is for bare lanes";
        return Err(Error::new(ErrorKind::Unsupported, "use a UD lane for a link", why, fix));
    }
    if lane.packets().is_some() {
        opener.lane_created(&*lane);
        return Ok(TaskOutput::Lane(Box::new(RailLane::new(
            lane,
            None,
            probe,
            options.max_payload,
        ))));
    }
    let messages = MessageBuffers::new(fabric, options.message_slots, options.max_payload)?;
    let slots = messages.receives();
    if lane.caps().receives < slots {
        let why = format!("it has {} receives, a link needs {slots}", lane.caps().receives);
        let fix = "raise rdma_max_recv_wr, or lower `message_slots` of the link's configuration";
        return Err(Error::new(ErrorKind::Unsupported, "use a lane for a link", why, fix));
    }
    opener.lane_created(&*lane);
    Ok(TaskOutput::Lane(Box::new(RailLane::new(lane, Some(messages), probe, options.max_payload))))
}

/// Runs each task in its own thread: there are few, and each may block.
pub(crate) struct ThreadConnector {
    opener: Arc<dyn FabricOpener>,
    results: Receiver<TaskResult>,
    done: Sender<TaskResult>,
    wakeup: Arc<OwnedFd>,
}

impl ThreadConnector {
    pub(crate) fn new(opener: Arc<dyn FabricOpener>) -> Result<Self, Error> {
        let wakeup =
            eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|error| {
                let fix = "raise the limit of open files: `ulimit -n`";
                Error::new(ErrorKind::System, "create a link", error, fix)
            })?;
        let (done, results) = channel();
        Ok(ThreadConnector { opener, results, done, wakeup: Arc::new(wakeup) })
    }
}

impl Connector for ThreadConnector {
    fn start(&mut self, task: ConnectorTask) {
        let (rail, generation) = (task.rail, task.generation);
        let (opener, done, wakeup) = (self.opener.clone(), self.done.clone(), self.wakeup.clone());
        let work = move || {
            let run = std::panic::AssertUnwindSafe(|| task.run(&*opener));
            // The panic is reported where it happens; the rail must not wait forever.
            let finished = std::panic::catch_unwind(run).unwrap_or_else(|_| {
                let (why, fix) =
                    ("the setup thread panicked", "report this with the program's log");
                let error = Error::new(ErrorKind::System, "set up a rail", why, fix);
                Some(TaskResult { rail, generation, output: Err(error) })
            });
            if let Some(finished) = finished {
                // This fails if the link was dropped.
                let _ = done.send(finished);
                let _ = rustix::io::write(&*wakeup, &1u64.to_ne_bytes());
            }
        };
        let started = std::thread::Builder::new().name("wirelane-rail".to_owned()).spawn(work);
        if let Err(error) = started {
            let fix = "raise the limit of threads of this user or container";
            let error = Error::new(ErrorKind::System, "start a thread for a rail", error, fix);
            let _ = self.done.send(TaskResult { rail, generation, output: Err(error) });
            let _ = rustix::io::write(&*self.wakeup, &1u64.to_ne_bytes());
        }
    }

    fn finished(&mut self) -> Option<TaskResult> {
        let mut count = [0; 8];
        let _ = rustix::io::read(&*self.wakeup, &mut count);
        self.results.try_recv().ok()
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.wakeup.as_fd())
    }
}
