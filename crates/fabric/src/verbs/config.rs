//! How queue pairs are made: what the user sets, checked, and lowered to what the device allows.

use super::device::Limits;
use super::gid::Gid;

/// The settings of a queue pair. Both ends should have the same; each may be lowered to what its
/// device allows, and [`Caps`](crate::Caps) tell what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Sends and writes up to so many bytes are copied into the work request, which saves the device a
    /// read of our memory. Larger values make every slot of the send queue larger; where the device
    /// refuses, half of it is tried, and so on.
    pub max_inline_data: u32,
    /// How many work requests may be in flight. Each costs memory of the device or of ours; too few
    /// leave a fast link idle.
    pub max_send_wr: u32,
    /// How many receives may be posted; with `use_srq` on all lanes of the fabric together. Too few make
    /// the peer wait, and in the end fail as not ready.
    pub max_recv_wr: u32,
    /// Into how many pieces the memory of one work request may be scattered. Writes and reads with
    /// more are split.
    pub max_sge: u32,
    /// Which kind of queue pair. Both ends must have the same.
    pub qp_type: QpType,
    /// Receives posted on any lane of the fabric go to one queue, and complete on whichever lane a
    /// message arrives. Saves memory where there are many peers. They stay when a lane ends: they come
    /// back with later messages, or go with the fabric.
    pub use_srq: bool,
    /// Whether waiting uses completion events at once, without looking for a short while first: less
    /// CPU, more latency. See [`Caps::spins`](crate::Caps::spins).
    pub use_event_channel: bool,
    /// The traffic class in the packets' global header; on RoCE v2 its upper six bits are the DSCP, by
    /// which switches choose a queue. Wrong, and RoCE runs without its lossless class.
    pub traffic_class: u8,
    /// The service level, 0 to 15; on RoCE the VLAN's priority.
    pub service_level: u8,
    /// Which entry of the port's partition table.
    pub pkey_index: u16,
    /// InfiniBand only; elsewhere the fabric does not open with it. Verbs have no switch for adaptive
    /// routing: the subnet manager gives it to service levels. This says that `service_level` is
    /// meant to be one of those; it changes no packet. Lanes never depend on the order of packets.
    pub adaptive_routing: bool,
    /// How long the device waits for an acknowledgement before it sends again: 4.096 µs × 2^timeout, so
    /// 14 is 67 ms; devices take up to four times as long. 1 to 31.
    pub timeout: u8,
    /// How often it sends again before the peer counts as gone. 0 to 6; 7 would be for ever.
    pub retry_count: u8,
    /// GIDs of peers that lanes are made with; none: all. What counts is what the peer claims: this keeps
    /// out mistakes, not attackers.
    pub allowed_gids: Vec<Gid>,
    /// Lowers the longest message, so that tests see operations split.
    #[doc(hidden)]
    pub max_message: Option<u32>,
}

/// The kinds of queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QpType {
    /// Reliable connection: everything that lanes can do.
    Rc,
    /// Unreliable datagrams: sends and receives up to the MTU.
    Ud,
    /// Dynamically connected, of mlx5 devices. Not built yet.
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
    /// What cannot be meant, in words.
    pub(super) fn check(&self) -> Result<(), String> {
        let within = |name: &str, value: u32, least: u32, most: u32| {
            let fits = (least..=most).contains(&value);
            fits.then_some(()).ok_or_else(|| format!("{name} is {value}, not {least} to {most}"))
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

/// The settings as one device allows them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) send_wr: u32,
    pub(super) recv_wr: u32,
    pub(super) send_sge: u32,
    /// With the one for the global header of datagrams.
    pub(super) recv_sge: u32,
    pub(super) read_sge: u32,
    pub(super) inline: u32,
    /// Pieces of a send or a receive, of the caller's memory.
    pub(super) pieces: u32,
}

impl Sizes {
    pub(super) fn new(config: &Config, limits: &Limits) -> Self {
        let at_most = |wished: u32, limit: i32| wished.min(limit.max(1).unsigned_abs());
        // Every completion in flight has a place in the queue, so that it cannot overflow.
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
        // Some devices do not say; then reads are as any other.
        let max_read = if limits.max_sge_rd > 0 { limits.max_sge_rd } else { limits.max_sge };
        Sizes {
            send_wr,
            recv_wr,
            send_sge,
            recv_sge,
            read_sge: at_most(send_sge, max_read),
            inline: config.max_inline_data,
            pieces: send_sge.min(recv_sge.saturating_sub(header)),
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
    fn a_roomy_device_gives_what_is_asked() {
        let sizes = Sizes::new(&Config::default(), &limits());
        assert_eq!((sizes.send_wr, sizes.recv_wr), (1024, 1024));
        assert_eq!((sizes.send_sge, sizes.recv_sge, sizes.pieces), (16, 16, 16));
    }

    #[test]
    fn a_small_device_lowers_everything() {
        let small = Limits { max_qp_wr: 64, max_cqe: 100, max_sge: 4, max_sge_rd: 1, ..limits() };
        let sizes = Sizes::new(&Config::default(), &small);
        assert_eq!((sizes.send_wr, sizes.recv_wr), (50, 50), "together within the queue");
        assert_eq!((sizes.send_sge, sizes.read_sge, sizes.pieces), (4, 1, 4));
    }

    #[test]
    fn datagrams_need_one_piece_for_the_header() {
        let config = Config { qp_type: QpType::Ud, max_sge: 4, ..Config::default() };
        let sizes = Sizes::new(&config, &limits());
        assert_eq!((sizes.recv_sge, sizes.pieces), (5, 4));
        let sizes = Sizes::new(&config, &Limits { max_sge: 4, ..limits() });
        assert_eq!((sizes.recv_sge, sizes.pieces), (4, 3));
    }

    #[test]
    fn a_shared_queue_has_limits_of_its_own() {
        let config = Config { use_srq: true, max_sge: 30, ..Config::default() };
        let sizes = Sizes::new(&config, &Limits { max_srq_wr: 100, ..limits() });
        assert_eq!((sizes.recv_wr, sizes.recv_sge, sizes.send_sge), (100, 27, 30));
    }

    #[test]
    fn endless_retries_are_refused() {
        assert_eq!(Config::default().check(), Ok(()));
        let why = Config { retry_count: 7, ..Config::default() }.check().unwrap_err();
        assert_eq!(why, "retry_count is 7, not 0 to 6");
        Config { timeout: 0, ..Config::default() }.check().expect_err("endless too");
        Config { service_level: 16, ..Config::default() }.check().expect_err("four bits");
    }
}
