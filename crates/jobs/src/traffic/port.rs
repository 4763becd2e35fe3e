//! The transfer of one RDMA port.

use node::counters::{self, Counter};
use serde::Serialize;

use super::amount::Amount;
use super::net::NetDeviceTransfer;

/// What a port transferred by RDMA between two samples.
#[derive(Debug, Clone, Serialize)]
pub struct PortTransfer {
    /// `mlx5_0 port 1`.
    pub port: String,
    /// Sent, without IPoIB.
    pub sent: Amount,
    /// Received, without IPoIB.
    pub received: Amount,
    /// Bytes of IPoIB, in both directions together.
    pub ipoib_bytes: u64,
    /// Whether RDMA was used: the traffic exceeds that of IPoIB with its headers, and of management.
    #[serde(skip)]
    pub(super) is_used: bool,
    /// Operations by kind, if the driver counts them.
    pub operations: Vec<Operations>,
    /// Why the amounts may be wrong.
    pub warnings: Vec<String>,
}

/// A count of operations of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Operations {
    /// The driver's counter: `rx_write_requests`.
    pub counter: String,
    /// The count.
    pub count: u64,
}

impl PortTransfer {
    /// From its counters before and after, and the transfers of the IPoIB devices on it.
    pub(super) fn between(
        port: String,
        before: &[Counter],
        after: &[Counter],
        ipoib: &[&NetDeviceTransfer],
    ) -> PortTransfer {
        let mut growth = Growth { before, after, warnings: Vec::new() };
        let sent = growth.amount("port_transmit_bytes_total", "port_transmit_packets_total");
        let received = growth.amount("port_receive_bytes_total", "port_receive_packets_total");
        let ipoib = ipoib.iter().fold((0, 0, 0), |sum, netdev| {
            let bytes = |amount: Amount| amount.bytes.unwrap_or(0);
            (sum.0 + bytes(netdev.sent), sum.1 + bytes(netdev.received), sum.2 + netdev.packets)
        });
        let raw = sent.and(received);
        let ipoib_bytes = ipoib.0 + ipoib.1;
        PortTransfer {
            port,
            sent: without(sent, ipoib.0),
            received: without(received, ipoib.1),
            ipoib_bytes,
            is_used: match raw.bytes {
                Some(bytes) => {
                    bytes > ipoib_bytes + headers(ipoib_bytes, ipoib.2) + MANAGEMENT_BYTES
                }
                None => raw.packets.is_some_and(|packets| packets > ipoib.2 + MANAGEMENT_PACKETS),
            },
            operations: growth.operations(),
            warnings: growth.warnings,
        }
    }

    /// `mlx5_0 port 1: sent 20.1 GB, received 21.1 GB`.
    pub(super) fn line(&self) -> String {
        let mut line = format!("{}: sent {}, received {}", self.port, self.sent, self.received);
        if self.ipoib_bytes > 0 {
            let ipoib = Amount { bytes: Some(self.ipoib_bytes), packets: None };
            line.push_str(&format!(", without {ipoib} of IPoIB"));
        }
        for Operations { counter, count } in &self.operations {
            line.push_str(&format!(", {counter} {count}"));
        }
        for warning in &self.warnings {
            line.push_str(&format!("; {warning}"));
        }
        line
    }
}

/// Two readings of one port.
struct Growth<'g> {
    before: &'g [Counter],
    after: &'g [Counter],
    warnings: Vec<String>,
}

impl Growth<'_> {
    /// Bytes, or packets if the driver does not count bytes.
    fn amount(&mut self, bytes: &str, packets: &str) -> Amount {
        match self.metric(bytes) {
            Some(bytes) => Amount { bytes: Some(bytes), packets: None },
            None => Amount { bytes: None, packets: self.metric(packets) },
        }
    }

    fn metric(&mut self, name: &str) -> Option<u64> {
        let (before, after) = (value(self.before, name)?, value(self.after, name)?);
        let is_saturated = |counter: &Counter| {
            counter.is_saturated() && counter.known().is_some_and(|known| known.row.name() == name)
        };
        if self.after.iter().any(is_saturated) {
            self.warnings.push(format!("{name} is saturated: the real value is higher"));
        }
        if after < before {
            self.warnings
                .push(format!("{name} restarted at 0 during the job: the real value is higher"));
            return Some(after);
        }
        Some(after - before)
    }

    /// Counters that changed.
    fn operations(&self) -> Vec<Operations> {
        let change = |counter: &Counter| {
            let before = self.before.iter().find(|known| known.name == counter.name)?;
            let count = counter.number()?.checked_sub(before.number()?)?;
            (count > 0).then(|| Operations { counter: counter.name.clone(), count })
        };
        let known = |counter: &&Counter| OPERATIONS.contains(&counter.name.as_str());
        self.after.iter().filter(known).filter_map(change).collect()
    }
}

fn value(counters: &[Counter], name: &str) -> Option<u64> {
    let sample = counters::samples(counters).into_iter().find(|sample| sample.row.name() == name);
    sample.and_then(|sample| sample.value.whole())
}

fn without(amount: Amount, bytes: u64) -> Amount {
    Amount { bytes: amount.bytes.map(|all| all.saturating_sub(bytes)), ..amount }
}

/// Headers of IPoIB packets on the fabric: up to 80 bytes each, and a tenth of the bytes where packets are aggregated.
fn headers(bytes: u64, packets: u64) -> u64 {
    bytes / 10 + packets.saturating_mul(80)
}

/// Counters of operations in bnxt_re, efa, irdma, mana, mlx5 and rxe.
const OPERATIONS: &[&str] = &[
    "rx_write_requests",
    "rx_read_requests",
    "rx_atomic_requests",
    "rx_send_requests",
    "tx_write_req",
    "tx_read_req",
    "tx_send_req",
    "tx_atomic_req",
    "send_wrs",
    "recv_wrs",
    "rdma_read_wrs",
    "rdma_write_wrs",
    "OutRdmaWrites",
    "OutRdmaReads",
    "OutRdmaSends",
    "rdma_sends",
    "rdma_recvs",
];

/// The fabric's management causes up to this much traffic.
const MANAGEMENT_BYTES: u64 = 4096;
const MANAGEMENT_PACKETS: u64 = 16;
