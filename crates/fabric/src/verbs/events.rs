//! The device's asynchronous events: ports going down, GID changes, failures.
//!
//! The device has one descriptor for them, shared by all lanes of a domain: a lane that is about to
//! sleep reads them for all, and raises the signal of the affected lanes.
//!
//! Unsafe here: `Events` owns the open device; an event's object is accessed only before the event
//! is acknowledged, and libibverbs destroys no object until then.
#![allow(unsafe_code, reason = "reads the device's events")]

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use rdma_sys::Errno;
use rdma_sys::consts::*;
use rdma_sys::device::ibv_async_event;
use rustix::event::{EventfdFlags, eventfd};

use super::context::{Context, nonblocking};
use super::cq::Cq;
use super::zero::zeroed;

/// Numbers of events since the domain was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EventCounts {
    /// A port went down.
    pub port_down: u64,
    /// A port came up.
    pub port_up: u64,
    /// A port's GID table changed.
    pub gid_change: u64,
    /// The whole device failed, and with it all its lanes.
    pub device_fatal: u64,
    /// A queue pair or its completion queue failed, and with it its lane.
    pub qp_fatal: u64,
    /// Other events.
    pub other: u64,
    /// Datagrams from a sender other than the lane's peer, which were dropped.
    pub unknown_peers: u64,
}

/// The events of one open device.
pub(super) struct Events {
    context: Arc<Context>,
    counts: [AtomicU64; EventKind::COUNT],
    /// Reading the descriptor failed: no more events will be reported.
    broken: AtomicBool,
    /// The device or the shared receive queue has failed.
    failed: AtomicBool,
    opened: Instant,
    /// When it was last checked that the device exists, in milliseconds after `opened`.
    checked: AtomicU64,
    signals: Mutex<Vec<Weak<FailureSignal>>>,
}

/// Between two checks whether the device still exists: a system call each, beside messages.
const EXISTENCE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The indexes of the counters.
#[derive(Clone, Copy)]
enum EventKind {
    PortDown,
    PortUp,
    GidChange,
    DeviceFatal,
    QpFatal,
    Other,
    UnknownPeer,
}

impl EventKind {
    const COUNT: usize = EventKind::UnknownPeer as usize + 1;
}

impl Events {
    pub(super) fn new(context: Arc<Context>) -> Result<Self, Errno> {
        nonblocking(context.async_fd())?;
        let counts = [const { AtomicU64::new(0) }; EventKind::COUNT];
        let [broken, failed] = [const { AtomicBool::new(false) }; 2];
        let (opened, checked) = (Instant::now(), AtomicU64::new(0));
        Ok(Events { context, counts, broken, failed, opened, checked, signals: Mutex::default() })
    }

    /// Becomes readable when there is an event.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.context.async_fd()
    }

    /// Whether the device was removed, so that its descriptor reports no more events.
    pub(super) fn broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    /// Whether all lanes have failed, and new ones would fail too.
    pub(super) fn failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    pub(super) fn event_counts(&self) -> EventCounts {
        let count = |kind: EventKind| self.counts[kind as usize].load(Ordering::Relaxed);
        EventCounts {
            port_down: count(EventKind::PortDown),
            port_up: count(EventKind::PortUp),
            gid_change: count(EventKind::GidChange),
            device_fatal: count(EventKind::DeviceFatal),
            qp_fatal: count(EventKind::QpFatal),
            other: count(EventKind::Other),
            unknown_peers: count(EventKind::UnknownPeer),
        }
    }

    /// A signal for the lane with this queue pair and completion queue.
    pub(super) fn failure_signal(&self, qp: u32, cq: &Cq) -> Result<Arc<FailureSignal>, Errno> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| Errno(error.raw_os_error()))?;
        let cq = cq.as_ptr().addr();
        let signal = Arc::new(FailureSignal {
            qp,
            cq,
            raised: AtomicBool::new(false),
            drained: AtomicBool::new(false),
            fd,
        });
        let mut signals = self.signals.lock().unwrap_or_else(PoisonError::into_inner);
        signals.retain(|signal| signal.strong_count() > 0);
        signals.push(Arc::downgrade(&signal));
        Ok(signal)
    }

    pub(super) fn count_unknown_peer(&self) {
        self.count(EventKind::UnknownPeer);
    }

    /// Reads all pending events. Never blocks.
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
                Err(Errno(EAGAIN)) => return self.check_existence(),
                Err(_) => return self.lose_device(),
            }
        }
    }

    /// Some drivers, soft-RoCE for one, report no event when their device is removed while it is in
    /// use: its lanes would wait forever for messages.
    fn check_existence(&self) {
        let now = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
        let last = self.checked.load(Ordering::Relaxed);
        if now.saturating_sub(last) < EXISTENCE_CHECK_INTERVAL.as_millis() as u64 {
            return;
        }
        self.checked.store(now, Ordering::Relaxed);
        if !self.context.is_listed() {
            self.lose_device();
        }
    }

    fn handle(&self, event: &mut ibv_async_event) {
        match event.event_type {
            IBV_EVENT_PORT_ERR => self.count(EventKind::PortDown),
            IBV_EVENT_PORT_ACTIVE => self.count(EventKind::PortUp),
            IBV_EVENT_GID_CHANGE => self.count(EventKind::GidChange),
            IBV_EVENT_DEVICE_FATAL => {
                self.count(EventKind::DeviceFatal);
                self.fail();
            }
            IBV_EVENT_QP_FATAL | IBV_EVENT_QP_REQ_ERR | IBV_EVENT_QP_ACCESS_ERR => {
                self.count(EventKind::QpFatal);
                // SAFETY: these events are about a queue pair, which is not destroyed before the
                // acknowledgement below.
                let qp = unsafe { (*event.element.qp).qp_num };
                self.raise(|signal| signal.qp == qp);
            }
            IBV_EVENT_CQ_ERR => {
                self.count(EventKind::QpFatal);
                // SAFETY: this event is about a completion queue; only its address is read.
                let cq = unsafe { event.element.cq }.addr();
                self.raise(|signal| signal.cq == cq);
            }
            IBV_EVENT_SRQ_ERR => {
                self.count(EventKind::QpFatal);
                self.fail();
            }
            IBV_EVENT_QP_LAST_WQE_REACHED => {
                // SAFETY: this event is about a queue pair, which is not destroyed before the acknowledgement below.
                let qp = unsafe { (*event.element.qp).qp_num };
                self.for_each_signal(|signal| signal.qp == qp, FailureSignal::set_drained);
            }
            _ => self.count(EventKind::Other),
        }
        // SAFETY: returned by the device in `read`, and acknowledged once.
        unsafe { self.context.verbs().ibv_ack_async_event(event) };
    }

    /// A device whose events cannot be read has failed.
    fn lose_device(&self) {
        if !self.broken.swap(true, Ordering::AcqRel) {
            self.count(EventKind::DeviceFatal);
            self.fail();
        }
    }

    fn fail(&self) {
        self.failed.store(true, Ordering::Release);
        self.raise(|_| true);
    }

    fn count(&self, kind: EventKind) {
        self.counts[kind as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn raise(&self, matches: impl Fn(&FailureSignal) -> bool) {
        self.for_each_signal(matches, FailureSignal::raise);
    }

    fn for_each_signal(
        &self,
        matches: impl Fn(&FailureSignal) -> bool,
        each: impl Fn(&FailureSignal),
    ) {
        let signals = self.signals.lock().unwrap_or_else(PoisonError::into_inner);
        for signal in signals.iter().filter_map(Weak::upgrade).filter(|signal| matches(signal)) {
            each(&signal);
        }
    }
}

/// Notifies one lane that it has failed, and wakes it if it sleeps.
pub(super) struct FailureSignal {
    qp: u32,
    cq: usize,
    raised: AtomicBool,
    drained: AtomicBool,
    fd: OwnedFd,
}

impl FailureSignal {
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    #[inline]
    pub(super) fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Acquire)
    }

    /// Makes the descriptor unreadable again, so that it does not wake the lane a second time.
    pub(super) fn clear(&self) {
        let _ = rustix::io::read(&self.fd, &mut [0; 8]);
    }

    /// Whether the failed queue pair takes no more receives from the shared queue, and has completed
    /// all it took.
    pub(super) fn drained(&self) -> bool {
        self.drained.load(Ordering::Acquire)
    }

    fn set_drained(&self) {
        self.drained.store(true, Ordering::Release);
        self.wake();
    }

    fn raise(&self) {
        self.raised.store(true, Ordering::Release);
        self.wake();
    }

    fn wake(&self) {
        // If the write fails, the counter is full, and the descriptor readable already.
        let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
    }
}
