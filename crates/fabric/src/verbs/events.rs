//! What happens to a device besides completions: ports that go down, addresses that change, failures.
//!
//! The device has one descriptor for them, shared by the lanes of a domain: whichever lane is about to
//! sleep reads them for all, and rings the alarm of those they concern.
//!
//! Unsafe here: `Events` holds the open device; an event's object is looked at only before the event
//! is acknowledged, and libibverbs destroys no object until then.
#![allow(unsafe_code, reason = "reads the device's events")]

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rdma_sys::Errno;
use rdma_sys::consts::*;
use rdma_sys::device::ibv_async_event;
use rustix::event::{EventfdFlags, eventfd};

use super::context::{Context, nonblocking};
use super::cq::Cq;
use super::zero::zeroed;

/// How often what has happened since the domain was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Incidents {
    /// A port went down.
    pub port_down: u64,
    /// A port came up.
    pub port_up: u64,
    /// A port's table of addresses changed.
    pub gid_change: u64,
    /// The device failed as a whole. All its lanes are dead.
    pub device_fatal: u64,
    /// A queue pair or its queue failed. Its lane is dead.
    pub qp_fatal: u64,
    /// Anything else.
    pub other: u64,
    /// Datagrams that came from somebody else than the lane's peer, and were dropped.
    pub unknown_peers: u64,
}

/// The events of one open device.
pub(super) struct Events {
    context: Arc<Context>,
    counts: [AtomicU64; Incident::COUNT],
    /// The descriptor tells nothing any more.
    broken: AtomicBool,
    /// The device or the queue of receives that all lanes share has failed.
    failed: AtomicBool,
    alarms: Mutex<Vec<Weak<Alarm>>>,
}

/// The numbers of the counters.
#[derive(Clone, Copy)]
enum Incident {
    PortDown,
    PortUp,
    GidChange,
    DeviceFatal,
    QpFatal,
    Other,
    UnknownPeer,
}

impl Incident {
    const COUNT: usize = Incident::UnknownPeer as usize + 1;
}

impl Events {
    pub(super) fn new(context: Arc<Context>) -> Result<Self, Errno> {
        nonblocking(context.async_fd())?;
        let counts = [const { AtomicU64::new(0) }; Incident::COUNT];
        let [broken, failed] = [const { AtomicBool::new(false) }; 2];
        Ok(Events { context, counts, broken, failed, alarms: Mutex::default() })
    }

    /// Becomes readable when there is an event.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.context.async_fd()
    }

    /// Whether the device is gone, so that its descriptor tells nothing any more.
    pub(super) fn broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    /// Whether all lanes are dead, and others will be.
    pub(super) fn failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    pub(super) fn incidents(&self) -> Incidents {
        let count = |incident: Incident| self.counts[incident as usize].load(Ordering::Relaxed);
        Incidents {
            port_down: count(Incident::PortDown),
            port_up: count(Incident::PortUp),
            gid_change: count(Incident::GidChange),
            device_fatal: count(Incident::DeviceFatal),
            qp_fatal: count(Incident::QpFatal),
            other: count(Incident::Other),
            unknown_peers: count(Incident::UnknownPeer),
        }
    }

    /// An alarm for the lane with this queue pair and queue.
    pub(super) fn alarm(&self, qp: u32, cq: &Cq) -> Result<Arc<Alarm>, Errno> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| Errno(error.raw_os_error()))?;
        let cq = cq.as_ptr().addr();
        let alarm = Arc::new(Alarm {
            qp,
            cq,
            rung: AtomicBool::new(false),
            drained: AtomicBool::new(false),
            fd,
        });
        let mut alarms = self.alarms.lock().unwrap_or_else(PoisonError::into_inner);
        alarms.retain(|alarm| alarm.strong_count() > 0);
        alarms.push(Arc::downgrade(&alarm));
        Ok(alarm)
    }

    pub(super) fn count_unknown_peer(&self) {
        self.count(Incident::UnknownPeer);
    }

    /// Reads what has come. Never blocks.
    pub(super) fn read(&self) {
        const EINTR: i32 = 4;
        const EAGAIN: i32 = 11;
        loop {
            let mut event: ibv_async_event = zeroed();
            let verbs = self.context.verbs();
            // SAFETY: the device is open; `event` is writable. It does not block, see `new`.
            match unsafe { verbs.ibv_get_async_event(self.context.as_ptr(), &mut event) } {
                Ok(_) => self.handle(&mut event),
                Err(Errno(EINTR)) => {}
                Err(Errno(EAGAIN)) => return,
                Err(_) => return self.lose_device(),
            }
        }
    }

    fn handle(&self, event: &mut ibv_async_event) {
        match event.event_type {
            IBV_EVENT_PORT_ERR => self.count(Incident::PortDown),
            IBV_EVENT_PORT_ACTIVE => self.count(Incident::PortUp),
            IBV_EVENT_GID_CHANGE => self.count(Incident::GidChange),
            IBV_EVENT_DEVICE_FATAL => {
                self.count(Incident::DeviceFatal);
                self.fail();
            }
            IBV_EVENT_QP_FATAL | IBV_EVENT_QP_REQ_ERR | IBV_EVENT_QP_ACCESS_ERR => {
                self.count(Incident::QpFatal);
                // SAFETY: these events are about a queue pair, which is not destroyed before the
                // acknowledgement below.
                let qp = unsafe { (*event.element.qp).qp_num };
                self.ring(|alarm| alarm.qp == qp);
            }
            IBV_EVENT_CQ_ERR => {
                self.count(Incident::QpFatal);
                // SAFETY: this event is about a completion queue; only its address is read.
                let cq = unsafe { event.element.cq }.addr();
                self.ring(|alarm| alarm.cq == cq);
            }
            IBV_EVENT_SRQ_ERR => {
                self.count(Incident::QpFatal);
                self.fail();
            }
            IBV_EVENT_QP_LAST_WQE_REACHED => {
                // SAFETY: as for the other events about a queue pair.
                let qp = unsafe { (*event.element.qp).qp_num };
                self.each_alarm(|alarm| alarm.qp == qp, Alarm::drain);
            }
            _ => self.count(Incident::Other),
        }
        // SAFETY: got from the device in `read`, and acknowledged once.
        unsafe { self.context.verbs().ibv_ack_async_event(event) };
    }

    /// A device that cannot be asked any more has failed.
    fn lose_device(&self) {
        if !self.broken.swap(true, Ordering::AcqRel) {
            self.count(Incident::DeviceFatal);
            self.fail();
        }
    }

    fn fail(&self) {
        self.failed.store(true, Ordering::Release);
        self.ring(|_| true);
    }

    fn count(&self, incident: Incident) {
        self.counts[incident as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn ring(&self, concerned: impl Fn(&Alarm) -> bool) {
        self.each_alarm(concerned, Alarm::ring);
    }

    fn each_alarm(&self, concerned: impl Fn(&Alarm) -> bool, each: impl Fn(&Alarm)) {
        let alarms = self.alarms.lock().unwrap_or_else(PoisonError::into_inner);
        for alarm in alarms.iter().filter_map(Weak::upgrade).filter(|alarm| concerned(alarm)) {
            each(&alarm);
        }
    }
}

/// Tells one lane that it is dead, also while it sleeps.
pub(super) struct Alarm {
    qp: u32,
    cq: usize,
    rung: AtomicBool,
    drained: AtomicBool,
    fd: OwnedFd,
}

impl Alarm {
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    #[inline]
    pub(super) fn rung(&self) -> bool {
        self.rung.load(Ordering::Acquire)
    }

    /// Once noticed, it shall wake nobody again.
    pub(super) fn silence(&self) {
        let _ = rustix::io::read(&self.fd, &mut [0; 8]);
    }

    /// Whether the queue pair, dead by now, takes no more receives from a shared queue, and has given
    /// back all it took.
    pub(super) fn drained(&self) -> bool {
        self.drained.load(Ordering::Acquire)
    }

    fn drain(&self) {
        self.drained.store(true, Ordering::Release);
    }

    fn ring(&self) {
        self.rung.store(true, Ordering::Release);
        // A counter that is full is readable already.
        let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
    }
}
