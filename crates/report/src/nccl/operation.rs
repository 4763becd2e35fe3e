//! Collective operations, and the share of the bus bandwidth that crosses a node's ports.

use std::fmt;
use std::str::FromStr;

/// A collective operation that nccl-tests has a program for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the usual names need no explanation")]
pub enum Operation {
    AllReduce,
    AllGather,
    ReduceScatter,
    Broadcast,
    Reduce,
    AllToAll,
    SendRecv,
    Gather,
    Scatter,
    Hypercube,
}

impl Operation {
    /// Its name in nccl-tests, without `_perf`.
    pub fn name(self) -> &'static str {
        match self {
            Operation::AllReduce => "all_reduce",
            Operation::AllGather => "all_gather",
            Operation::ReduceScatter => "reduce_scatter",
            Operation::Broadcast => "broadcast",
            Operation::Reduce => "reduce",
            Operation::AllToAll => "alltoall",
            Operation::SendRecv => "sendrecv",
            Operation::Gather => "gather",
            Operation::Scatter => "scatter",
            Operation::Hypercube => "hypercube",
        }
    }

    /// The program that measures it.
    pub fn program(self) -> String {
        format!("{}_perf", self.name())
    }

    /// The traffic of a node's ports as a share of the bus bandwidth, for `ranks` ranks, `here` of them on the node.
    /// `None` if that depends on the node or the algorithm.
    ///
    /// A ring crosses from node to node once, so the ports transfer the bus bandwidth once, whatever the number of
    /// GPUs. In an all-to-all each GPU sends its own data.
    pub fn port_share(self, ranks: u32, here: u32) -> Option<f64> {
        match self {
            Operation::AllReduce
            | Operation::AllGather
            | Operation::ReduceScatter
            | Operation::Broadcast
            | Operation::Reduce
            | Operation::SendRecv => Some(1.0),
            Operation::AllToAll if ranks > here && ranks > 1 => {
                Some(f64::from(here) * f64::from(ranks - here) / f64::from(ranks - 1))
            }
            _ => None,
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Operation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let name = text.trim_end_matches("_perf");
        let found = ALL.iter().find(|operation| operation.name() == name);
        found.copied().ok_or_else(|| {
            let names: Vec<&str> = ALL.iter().map(|operation| operation.name()).collect();
            format!("expected one of {}", names.join(", "))
        })
    }
}

/// All operations.
pub(super) const ALL: [Operation; 10] = [
    Operation::AllReduce,
    Operation::AllGather,
    Operation::ReduceScatter,
    Operation::Broadcast,
    Operation::Reduce,
    Operation::AllToAll,
    Operation::SendRecv,
    Operation::Gather,
    Operation::Scatter,
    Operation::Hypercube,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_crosses_the_ports_once_and_an_all_to_all_for_each_gpu() {
        assert_eq!(Operation::AllReduce.port_share(16, 8), Some(1.0));
        let each = Operation::AllToAll.port_share(16, 8).expect("two nodes");
        assert!((each - 64.0 / 15.0).abs() < 1e-9);
        assert_eq!(Operation::AllToAll.port_share(8, 8), None);
        assert_eq!("all_gather_perf".parse(), Ok(Operation::AllGather));
        assert!("all".parse::<Operation>().is_err());
    }
}
