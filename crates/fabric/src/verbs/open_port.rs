//! The state that all lanes of a domain share: the device, its port, the settings, and the shared receive queue.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rdma_sys::Errno;
use rdma_sys::consts::IBV_ATOMIC_NONE;

use super::choose::Choice;
use super::config::{Config, QpType, Sizes};
use super::device::Limits;
use super::domain::Pd;
use super::events::Events;
use super::mr;
use super::port::{LinkLayer, Port};
use super::srq_slots::SrqSlots;
use crate::attached_regions::AttachedRegions;
use crate::error::{Error, ErrorKind};
use crate::memory::{Memory, Pages};
use crate::region::Rights;
use crate::registration::verbs::Mr;

pub(super) struct OpenPort {
    pub(super) pd: Arc<Pd>,
    pub(super) choice: Choice,
    pub(super) gid_index: u8,
    pub(super) config: Config,
    pub(super) port: Port,
    pub(super) limits: Limits,
    pub(super) sizes: Sizes,
    pub(super) atomics: bool,
    pub(super) events: Events,
    /// Regions that may also be attached to other domains.
    pub(super) attached: AttachedRegions,
    pub(super) shared: Option<Arc<SrqSlots>>,
    /// For datagrams: receives their global headers (GRH), which are not read.
    pub(super) grh_buffer: Option<Arc<Mr>>,
    vectors: AtomicU32,
}

impl OpenPort {
    pub(super) fn new(pd: Arc<Pd>, choice: &Choice, config: Config) -> Result<Self, Error> {
        let context = pd.context().clone();
        let device = context.attributes().map_err(|errno| failed(choice, "query", errno))?;
        let port = context.port(choice.port).map_err(|errno| failed(choice, "query", errno))?;
        let (device, port) = (device.orig_attr, Port::new(choice.port, &port, Vec::new()));
        let is_mlx5 = device.vendor_id == MELLANOX && device.vendor_part_id >= FIRST_MLX5;
        let gid_index = check(choice, &config, &port, is_mlx5).map_err(|(kind, why)| {
            let call = format!("open {} port {}", choice.device, choice.port);
            Error::new(kind, call, why, "change the setting; see docs/configuration.md")
        })?;
        let limits = Limits::new(&device);
        // Not every device has shared receive queues: lanes have their own then.
        let srq = config.srq.filter(|_| limits.max_srq_wr > 0);
        let config = Config { srq, ..config };
        let sizes = Sizes::new(&config, &limits);
        let grh_buffer = (config.qp_type == QpType::Ud)
            .then(|| registered(&pd, choice, GRH_BUFFER_BYTES))
            .transpose()?;
        let shared =
            config.srq.map(|_| srq_slots(&pd, choice, &sizes, grh_buffer.clone())).transpose()?;
        let events = Events::new(context).map_err(|errno| failed(choice, "read events", errno))?;
        Ok(OpenPort {
            attached: AttachedRegions::new(pd.number(), |keys, domain| keys.verbs.remove(domain)),
            pd,
            choice: choice.clone(),
            gid_index,
            config,
            port,
            limits,
            sizes,
            atomics: device.atomic_cap != IBV_ATOMIC_NONE,
            events,
            shared,
            grh_buffer,
            vectors: AtomicU32::new(0),
        })
    }

    /// The completion vector for the next lane: round-robin, so that interrupts are spread over CPUs.
    pub(super) fn next_vector(&self) -> u32 {
        self.vectors.fetch_add(1, Ordering::Relaxed)
    }

    /// The maximum message length of the port, or a smaller one set by tests.
    pub(super) fn max_message(&self) -> u32 {
        // Some drivers report 0; the specification allows 2 GiB.
        let port = if self.port.max_msg_sz == 0 { 1 << 31 } else { self.port.max_msg_sz };
        self.config.max_message.unwrap_or(u32::MAX).min(port)
    }

    pub(super) fn error(&self, what: &str, errno: Errno) -> Error {
        failed(&self.choice, what, errno)
    }
}

impl fmt::Debug for OpenPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenPort")
            .field("choice", &self.choice)
            .field("config", &self.config)
            .finish()
    }
}

/// Refuses settings that the port does not support; returns the GID's index as address handles store it.
fn check(
    choice: &Choice,
    config: &Config,
    port: &Port,
    is_mlx5: bool,
) -> Result<u8, (ErrorKind, String)> {
    let unsupported = |why: &str| Err((ErrorKind::Unsupported, why.to_owned()));
    config.check().map_err(|why| (ErrorKind::Misuse, why))?;
    if config.qp_type == QpType::Dc {
        return match is_mlx5 {
            true => unsupported("queue pairs of type DC are not implemented; set RC"),
            false => unsupported("no DC on this device: only mlx5 devices have it; set RC"),
        };
    }
    if config.adaptive_routing && port.link_layer != LinkLayer::InfiniBand {
        return unsupported("adaptive_routing is for InfiniBand; on Ethernet the switches decide");
    }
    if config.pkey_index >= port.pkey_tbl_len.max(1) {
        let why = format!(
            "pkey_index is {}, and the port's table has {} entries",
            config.pkey_index, port.pkey_tbl_len
        );
        return Err((ErrorKind::Misuse, why));
    }
    let index = choice.gid.as_ref().map_or(0, |gid| gid.index);
    u8::try_from(index).map_err(|_| (ErrorKind::Misuse, format!("GID index {index} is beyond 255")))
}

fn srq_slots(
    pd: &Arc<Pd>,
    choice: &Choice,
    sizes: &Sizes,
    grh_buffer: Option<Arc<Mr>>,
) -> Result<Arc<SrqSlots>, Error> {
    let bytes = sizes.srq_slots as usize * sizes.slot_bytes as usize;
    let slots = registered(pd, choice, bytes)?;
    let shared = SrqSlots::new(pd.clone(), sizes, slots, grh_buffer);
    let failed = |errno| failed(choice, "create a shared receive queue", errno);
    Ok(Arc::new(shared.map_err(failed)?))
}

/// Memory of our own, registered with the device.
fn registered(pd: &Arc<Pd>, choice: &Choice, bytes: usize) -> Result<Arc<Mr>, Error> {
    let memory = Memory::allocate(bytes, Pages::Plain)?;
    Ok(Arc::new(mr::register(&choice.device, pd.clone(), &memory, Rights::NONE)?))
}

/// A page: the smallest registration.
const GRH_BUFFER_BYTES: usize = 4096;

fn failed(choice: &Choice, what: &str, errno: Errno) -> Error {
    const EIO: i32 = 5;
    const ENOMEM: i32 = 12;
    const ENODEV: i32 = 19;
    let (kind, fix) = match errno.0 {
        EIO | ENODEV => {
            (ErrorKind::Gone, "check with `wirelane devices` that the device is present")
        }
        ENOMEM => (ErrorKind::Full, "lower max_send_wr and max_recv_wr, or use fewer lanes"),
        _ => (ErrorKind::System, "check the kernel log (`dmesg`) for the driver's error"),
    };
    Error::new(kind, format!("{what} on {} port {}", choice.device, choice.port), errno, fix)
}

/// The vendor id of mlx4 and mlx5 devices, and the lowest part id of mlx5 (Connect-IB).
const MELLANOX: u32 = 0x02c9;
const FIRST_MLX5: u32 = 4113;

#[cfg(test)]
mod tests {
    use super::*;

    fn choice() -> Choice {
        Choice {
            device: "a".to_owned(),
            port: 1,
            gid: None,
            link_layer: LinkLayer::Ethernet,
            mtu: 4096,
            rate_mbps: 100_000,
            why: String::new(),
        }
    }

    #[test]
    fn dc_is_refused_with_the_device_specific_reason() {
        let config = Config { qp_type: QpType::Dc, ..Config::default() };
        let why = |is_mlx5| check(&choice(), &config, &Port::example(1), is_mlx5).unwrap_err();
        assert!(why(false).1.contains("no DC on this device"));
        assert!(why(true).1.contains("not implemented"));
        assert_eq!(why(true).0, ErrorKind::Unsupported);
    }

    #[test]
    fn settings_that_a_port_does_not_support_are_refused() {
        let refused = |config| check(&choice(), &config, &Port::example(1), false).unwrap_err();
        let (kind, why) = refused(Config { adaptive_routing: true, ..Config::default() });
        assert_eq!(kind, ErrorKind::Unsupported, "{why}");
        let (kind, why) = refused(Config { pkey_index: 1, ..Config::default() });
        assert_eq!(kind, ErrorKind::Misuse, "{why}");
        assert_eq!(check(&choice(), &Config::default(), &Port::example(1), false), Ok(0));
    }
}
