//! The conformance tests over verbs, on the lab's first wire.
#![allow(missing_docs, reason = "a test")]

#[path = "conformance/cases.rs"]
mod cases;
#[path = "conformance/datagrams.rs"]
mod datagrams;
#[path = "conformance/linked.rs"]
mod linked;
#[macro_use]
#[path = "conformance/list.rs"]
mod list;
#[path = "conformance/pair.rs"]
mod pair;
#[path = "conformance/progress.rs"]
mod progress;
#[path = "conformance/refusals.rs"]
mod refusals;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fabric::link::{Settings, Transport};
use fabric::verbs::{
    Config, DeviceRequest, Domain, LIBRARY, QpType, SharedQueue, choose, list_devices,
};
use pair::Pair;

mod verbs_rc {
    reliable_lane!(crate::verbs(fabric::verbs::Config::default()));
}

mod verbs_rc_shared_receives_by_events {
    reliable_lane!(crate::verbs(fabric::verbs::Config {
        shared_queue: Some(crate::SHARED_QUEUE),
        use_event_channel: true,
        ..Default::default()
    }));
}

/// Needs the variables of `fabric::ofi::ENVIRONMENT`.
mod ofi_verbs {
    reliable_lane!(crate::ofi());
}

mod link_verbs {
    reliable_lane!(crate::link());
}

mod verbs_ud {
    datagram_lane!(crate::verbs(fabric::verbs::Config {
        qp_type: fabric::verbs::QpType::Ud,
        ..Default::default()
    }));
}

/// As long as the longest message of the cases.
const SHARED_QUEUE: SharedQueue =
    SharedQueue { memory: 16 << 20, max_message: 1 << 20, max_early: 16 };

fn link() -> Pair {
    let settings = ["rxe0", "rxe1"].map(|device| Settings {
        transports: vec![Transport::Verbs],
        devices: vec![device.to_owned()],
        ..Settings::default()
    });
    let mut pair = linked::pair(settings);
    pair.largest = 32 << 20;
    pair
}

/// libfabric over the same two devices.
fn ofi() -> Pair {
    use fabric::ofi;
    let listed = ofi::list_providers(None).expect("libfabric is installed");
    let timeout = Duration::from_secs(5);
    let config = ofi::Config { timeout, receive_timeout: timeout, ..ofi::Config::default() };
    let end = |device: &str| {
        let is_it = |provider: &&ofi::Provider| {
            provider.name == "verbs;ofi_rxm" && provider.domain == device
        };
        let provider = listed.providers.iter().find(is_it);
        let provider = provider.unwrap_or_else(|| panic!("{device} in {listed:?}")).clone();
        let choice = ofi::Choice { provider, why: "the lab has it".to_owned() };
        Arc::new(ofi::Domain::open(&choice, config.clone()).expect("opened"))
    };
    let mut pair = Pair::connect(end("rxe0"), end("rxe1"));
    pair.largest = 32 << 20;
    pair
}

fn verbs(config: Config) -> Pair {
    // A second before each retransmission: on a busy machine an emulated device may not acknowledge for
    // longer than the default allows in all, and its lane ends.
    let config = Config { timeout: 18, ..config };
    let library = Path::new(LIBRARY);
    let devices = list_devices(library).expect("the lab has devices").devices;
    let end = |device: &str| {
        let request = DeviceRequest {
            device: Some(device.to_owned()),
            port: None,
            gid_index: None,
            mtu: 4096,
        };
        let choice = choose(&devices, &request).expect("the lab's wires are up");
        Arc::new(Domain::open_with(library, &choice, config.clone()).expect("opened"))
    };
    let mut pair = Pair::connect(end("rxe0"), end("rxe1"));
    pair.keeps_messages = config.shared_queue.is_some();
    // Emulated devices transfer some tens of megabytes per second, or fewer on a busy machine.
    pair.largest = 8 << 20;
    let caps = pair.a.lane.caps();
    assert_eq!(caps.datagram, config.qp_type == QpType::Ud);
    assert_eq!(caps.spins, !config.use_event_channel);
    pair
}
