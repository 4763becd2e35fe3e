//! The settings of queue pairs: validated, and limited by the device.

use super::device::Limits;
use super::gid::Gid;

/// The settings of a queue pair. Both ends should have the same. Each is limited by its
/// device; [`Caps`](crate::Caps) has the resulting values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Sends and writes of up to this many bytes are copied into the work request, which saves the device a
    /// read of host memory. Larger values make every slot of the send queue larger. If the device
    /// refuses a value, half of it is tried, and so on.
    pub max_inline_data: u32,
    /// The maximum number of work requests in flight. Each uses memory of the device or the host; too few
    /// leave a fast link idle.
    pub max_send_wr: u32,
    /// The maximum number of posted receives. With too few, the peer waits and finally fails with "not ready".
    pub max_recv_wr: u32,
    /// The maximum number of scatter/gather elements of one work request. Writes and reads with
    /// more are split.
    pub max_sge: u32,
    /// The type of queue pair. Both ends must have the same.
    pub qp_type: QpType,
    /// Messages of all peers arrive in one shared receive queue, instead of one for each lane.
    pub srq: Option<SrqConfig>,
    /// Bytes of registered memory for the messages that links send, and receive if there is no shared queue. It is kept ready
    /// for links; more of them register their own.
    pub message_memory: [usize; 2],
    /// Whether waiting uses completion events immediately, without polling for a short time first: less
    /// CPU, more latency. See [`Caps::spins`](crate::Caps::spins).
    pub use_event_channel: bool,
    /// The traffic class in the packets' global header; on RoCE v2 its upper six bits are the DSCP, by
    /// which switches choose a queue. With a wrong value RoCE traffic misses its lossless class.
    pub traffic_class: u8,
    /// The service level, 0 to 15; on RoCE the VLAN's priority.
    pub service_level: u8,
    /// The index in the port's partition key table.
    pub pkey_index: u16,
    /// InfiniBand only; on other link layers opening the fabric fails. Verbs cannot enable adaptive
    /// routing: the subnet manager assigns it to service levels. This states that `service_level` is
    /// one of those; it changes no packet. Lanes never depend on the order of packets.
    pub adaptive_routing: bool,
    /// How long the device waits for an acknowledgement before it retransmits: 4.096 µs × 2^timeout, so
    /// 14 is 67 ms; devices take up to four times as long. 1 to 31.
    pub timeout: u8,
    /// The number of retransmissions before the peer is considered unreachable. 0 to 6; 7 would mean forever.
    pub retry_count: u8,
    /// GIDs of peers to which lanes may connect; empty: all. The GID is the one that the peer claims: this
    /// prevents mistakes, not attacks.
    pub allowed_gids: Vec<Gid>,
    /// Limits the message length, so that tests can split operations.
    #[doc(hidden)]
    pub max_message: Option<u32>,
}

/// A receive queue that all lanes of a fabric share, with memory of its own: a lane copies its messages from there to its
/// receives. Saves memory with many peers, and costs a copy of each message. If messages arrive faster than they are copied,
/// peers wait: all of them, also if a lane that is not polled leaves its messages in the queue. Devices without such queues
/// use one for each lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SrqConfig {
    /// The size of its memory in bytes.
    pub memory: usize,
    /// The longest message that can be received; peers refuse to send longer ones.
    pub max_message: u32,
    /// The maximum number of messages that a lane keeps while no receive is posted. With more the lane ends.
    pub max_unexpected: u32,
}

impl Default for SrqConfig {
    fn default() -> Self {
        SrqConfig { memory: 4 << 20, max_message: 4096, max_unexpected: 128 }
    }
}

/// The types of queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QpType {
    /// Reliable connection: supports all operations.
    Rc,
    /// Unreliable datagrams: sends and receives up to the MTU.
    Ud,
    /// Dynamically connected, of mlx5 devices. Not implemented.
    Dc,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            max_inline_data: 256,
            max_send_wr: 1024,
            max_recv_wr: 1024,
            max_sge: 16,
            qp_type: QpType::Rc,
            srq: None,
            message_memory: [4 << 20; 2],
            use_event_channel: false,
            traffic_class: 0,
            service_level: 0,
            pkey_index: 0,
            adaptive_routing: false,
            timeout: 14,
            retry_count: 6,
            allowed_gids: Vec::new(),
            max_message: None,
        }
    }
}

impl Config {
    /// Refuses values out of range, with the reason.
    pub(super) fn check(&self) -> Result<(), String> {
        let within = |name: &str, value: u32, min: u32, max: u32| {
            let fits = (min..=max).contains(&value);
            fits.then_some(()).ok_or_else(|| format!("{name} is {value}, not {min} to {max}"))
        };
        within("max_send_wr", self.max_send_wr, 1, u32::MAX)?;
        within("max_recv_wr", self.max_recv_wr, 1, u32::MAX)?;
        within("max_sge", self.max_sge, 1, u32::MAX)?;
        within("service_level", self.service_level.into(), 0, 15)?;
        within("timeout", self.timeout.into(), 1, 31)?;
        within("retry_count", self.retry_count.into(), 0, 6)?;
        if let Some(queue) = &self.srq {
            within("max_message of the shared queue", queue.max_message, 256, 1 << 30)?;
            within("max_unexpected of the shared queue", queue.max_unexpected, 1, 1 << 16)?;
            if queue.memory < queue.max_message as usize {
                return Err("the shared queue has no space for one message".to_owned());
            }
        }
        within("max_message", self.max_message.unwrap_or(1), 1, u32::MAX)
    }
}

/// The queue sizes, limited by the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) send_wr: u32,
    pub(super) recv_wr: u32,
    pub(super) send_sge: u32,
    /// Including the one for the global header of datagrams.
    pub(super) recv_sge: u32,
    pub(super) read_sge: u32,
    pub(super) inline: u32,
    /// The maximum number of slices of the caller's memory, for a send or a receive.
    pub(super) max_slices: u32,
    /// The number and size of the shared queue's slots; 0 without one.
    pub(super) srq_slots: u32,
    pub(super) slot_bytes: u32,
}

impl Sizes {
    pub(super) fn new(config: &Config, limits: &Limits) -> Self {
        let at_most = |requested: u32, limit: i32| requested.min(limit.max(1).unsigned_abs());
        // There is an entry for every outstanding completion, so that the queue cannot overflow.
        let entries = limits.max_cqe.max(2).unsigned_abs();
        let header = u32::from(config.qp_type == QpType::Ud);
        let send_sge = at_most(config.max_sge, limits.max_sge);
        let (recv_wr, recv_sge, srq_slots, slot_bytes) = match &config.srq {
            // The device sees the slots alone; receives are matched with messages by the lane.
            Some(queue) => {
                let slot_bytes = queue.max_message.next_multiple_of(64);
                let slots = u32::try_from(queue.memory / slot_bytes as usize).unwrap_or(u32::MAX);
                let slots = at_most(slots.max(1), limits.max_srq_wr).min(entries / 2);
                (config.max_recv_wr, send_sge.saturating_add(header), slots, slot_bytes)
            }
            None => {
                let recv_wr = at_most(config.max_recv_wr, limits.max_qp_wr).min(entries / 2);
                (recv_wr, at_most(config.max_sge.saturating_add(header), limits.max_sge), 0, 0)
            }
        };
        // Each slot may complete on any lane.
        let receives = if srq_slots > 0 { srq_slots } else { recv_wr };
        let send_wr = at_most(config.max_send_wr, limits.max_qp_wr).min(entries - receives);
        // Some devices do not report a limit for reads.
        let max_read = if limits.max_sge_rd > 0 { limits.max_sge_rd } else { limits.max_sge };
        Sizes {
            send_wr,
            recv_wr,
            send_sge,
            recv_sge,
            read_sge: at_most(send_sge, max_read),
            inline: config.max_inline_data,
            max_slices: send_sge.min(recv_sge.saturating_sub(header)),
            srq_slots,
            slot_bytes,
        }
    }

    /// The number of completions that may be outstanding on a lane.
    pub(super) fn completions(&self) -> u32 {
        let receives = if self.srq_slots > 0 { self.srq_slots } else { self.recv_wr };
        self.send_wr + receives
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        let mut limits = super::super::device::DeviceFacts::example(Vec::new()).limits;
        (limits.max_qp_wr, limits.max_cqe) = (16_384, 32_767);
        (limits.max_srq_wr, limits.max_srq_sge) = (16_384, 27);
        (limits.max_sge, limits.max_sge_rd) = (32, 32);
        limits
    }

    #[test]
    fn settings_within_the_device_limits_are_kept() {
        let sizes = Sizes::new(&Config::default(), &limits());
        assert_eq!((sizes.send_wr, sizes.recv_wr), (1024, 1024));
        assert_eq!((sizes.send_sge, sizes.recv_sge, sizes.max_slices), (16, 16, 16));
    }

    #[test]
    fn a_small_device_limits_all_sizes() {
        let small = Limits { max_qp_wr: 64, max_cqe: 100, max_sge: 4, max_sge_rd: 1, ..limits() };
        let sizes = Sizes::new(&Config::default(), &small);
        assert_eq!((sizes.send_wr, sizes.recv_wr), (50, 50), "the sum fits the completion queue");
        assert_eq!((sizes.send_sge, sizes.read_sge, sizes.max_slices), (4, 1, 4));
    }

    #[test]
    fn datagrams_need_one_element_for_the_header() {
        let config = Config { qp_type: QpType::Ud, max_sge: 4, ..Config::default() };
        let sizes = Sizes::new(&config, &limits());
        assert_eq!((sizes.recv_sge, sizes.max_slices), (5, 4));
        let sizes = Sizes::new(&config, &Limits { max_sge: 4, ..limits() });
        assert_eq!((sizes.recv_sge, sizes.max_slices), (4, 3));
    }

    #[test]
    fn the_slots_of_a_shared_queue_fit_its_memory_and_the_device() {
        let queue = SrqConfig { memory: 1 << 20, max_message: 4090, max_unexpected: 1 };
        let config = Config { srq: Some(queue), max_sge: 30, ..Config::default() };
        let sizes = Sizes::new(&config, &limits());
        assert_eq!((sizes.srq_slots, sizes.slot_bytes), (256, 4096));
        assert_eq!((sizes.completions(), sizes.recv_wr, sizes.max_slices), (1024 + 256, 1024, 30));
        let sizes = Sizes::new(&config, &Limits { max_srq_wr: 100, max_cqe: 110, ..limits() });
        assert_eq!((sizes.srq_slots, sizes.send_wr), (55, 55));
        let refused = |queue: SrqConfig| {
            Config { srq: Some(queue), ..Config::default() }.check().unwrap_err()
        };
        assert!(refused(SrqConfig { memory: 4000, ..queue }).contains("no space"));
        assert!(refused(SrqConfig { max_message: 1, ..queue }).contains("256 to"));
    }

    #[test]
    fn infinite_retries_are_refused() {
        assert_eq!(Config::default().check(), Ok(()));
        let why = Config { retry_count: 7, ..Config::default() }.check().unwrap_err();
        assert_eq!(why, "retry_count is 7, not 0 to 6");
        Config { timeout: 0, ..Config::default() }.check().expect_err("infinite too");
        Config { service_level: 16, ..Config::default() }.check().expect_err("four bits");
    }
}
