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
    /// The maximum number of posted receives; with `use_srq` for all lanes of the fabric together. With too few,
    /// the peer waits and finally fails with "not ready".
    pub max_recv_wr: u32,
    /// The maximum number of scatter/gather elements of one work request. Writes and reads with
    /// more are split.
    pub max_sge: u32,
    /// The type of queue pair. Both ends must have the same.
    pub qp_type: QpType,
    /// Receives posted on any lane of the fabric go to one shared queue, and complete on the lane on which a
    /// message arrives. Saves memory with many peers. They remain posted when a lane ends, until they complete
    /// with later messages or the fabric is closed.
    pub use_srq: bool,
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
            use_srq: false,
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
}

impl Sizes {
    pub(super) fn new(config: &Config, limits: &Limits) -> Self {
        let at_most = |requested: u32, limit: i32| requested.min(limit.max(1).unsigned_abs());
        // There is an entry for every outstanding completion, so that the queue cannot overflow.
        let entries = limits.max_cqe.max(2).unsigned_abs();
        let (max_wr, max_sge) = match config.use_srq {
            true => (limits.max_srq_wr, limits.max_srq_sge),
            false => (limits.max_qp_wr, limits.max_sge),
        };
        let recv_wr = at_most(config.max_recv_wr, max_wr).min(entries / 2);
        let send_wr = at_most(config.max_send_wr, limits.max_qp_wr).min(entries - recv_wr);
        let header = u32::from(config.qp_type == QpType::Ud);
        let send_sge = at_most(config.max_sge, limits.max_sge);
        let recv_sge = at_most(config.max_sge.saturating_add(header), max_sge);
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
        }
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
    fn a_shared_queue_has_separate_limits() {
        let config = Config { use_srq: true, max_sge: 30, ..Config::default() };
        let sizes = Sizes::new(&config, &Limits { max_srq_wr: 100, ..limits() });
        assert_eq!((sizes.recv_wr, sizes.recv_sge, sizes.send_sge), (100, 27, 30));
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
