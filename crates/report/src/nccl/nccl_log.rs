//! What NCCL's own lines say about its transports (NCCL_DEBUG=INFO).

use std::collections::BTreeSet;

/// What NCCL said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NcclLog {
    /// Its version.
    pub version: Option<String>,
    /// What it moves bytes between nodes by: `IB`, `Socket`, a plugin's name.
    pub network: Option<String>,
    /// RDMA ports that it uses: `mlx5_0:1`.
    pub ports: BTreeSet<String>,
    /// Whether it says of a NIC that GPUDirect RDMA is on; false: of all that it speaks of it is off.
    pub gpu_direct_for_nics: Option<bool>,
    /// How many channels use which transport.
    pub channels: Channels,
    /// The switches of NVLink or of the network reduce by themselves (NVLS, CollNet, SHARP).
    pub reduces_in_switches: bool,
}

/// How many channels use which transport.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Channels {
    /// From GPU memory straight to the NIC.
    pub direct: u32,
    /// By a NIC, through the host's memory.
    pub staged: u32,
    /// By TCP.
    pub socket: u32,
    /// By NVLink or PCIe within a node.
    pub peer: u32,
    /// By NVLink between nodes.
    pub nvlink_between_nodes: u32,
    /// By the host's memory, within a node.
    pub shared_memory: u32,
}

impl NcclLog {
    /// Whether GPU memory goes straight to NICs: by what channels do, else by what is said of NICs.
    pub fn gpu_direct(&self) -> Option<bool> {
        match self.channels {
            Channels { direct: 1.., .. } => Some(true),
            Channels { staged: 1.., .. } => Some(false),
            _ => self.gpu_direct_for_nics,
        }
    }

    /// Whether bytes between nodes go by TCP.
    pub fn is_tcp(&self) -> bool {
        let by_nic = self.channels.direct + self.channels.staged;
        match self.channels.socket {
            0 => by_nic == 0 && self.network.as_deref() == Some("Socket"),
            _ => by_nic == 0,
        }
    }

    /// The next line of a log.
    pub(super) fn add(&mut self, line: &str) {
        if let Some((_, version)) = line.split_once("NCCL version ") {
            let version = version.split_whitespace().next();
            self.version = self.version.take().or(version.map(brief));
        }
        let Some((_, said)) = line.split_once("NCCL INFO ") else { return };
        if let Some(network) = said.strip_prefix("Using network ") {
            self.network = Some(brief(network.trim()));
        } else if let Some(ports) = said.strip_prefix("NET/IB : Using ") {
            self.add_ports(ports);
        } else if said.contains(" via ") {
            self.add_channel(said);
        } else if said.starts_with("NET/") && said.contains("GPU Direct RDMA ") {
            self.add_nic(said);
        }
        let reduces = ["Connected NVLS tree", "CollNet ", "Algo NVLS", "SHARP"];
        self.reduces_in_switches |= reduces.iter().any(|word| said.contains(word));
    }

    /// ` [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>`. Two ports as one: `{[0] mlx5_0:1/IB, [1] mlx5_1:1/IB}`.
    fn add_ports(&mut self, ports: &str) {
        let ports = ports.split_once("; OOB").map_or(ports, |(ports, _)| ports);
        for part in ports.split('/') {
            let word = part.rsplit([' ', ']', '{', '+', ',']).next().unwrap_or_default();
            let Some((device, port)) = word.split_once(':') else { continue };
            if port.parse::<u8>().is_ok() && !device.is_empty() && self.ports.len() < MAX_PORTS {
                self.ports.insert(brief(word));
            }
        }
    }

    /// `Channel 00/0 : 0[0] -> 2[0] [send] via NET/IB/0/GDRDMA`
    fn add_channel(&mut self, said: &str) {
        let Some((_, transport)) = said.split_once(" via ") else { return };
        let channels = &mut self.channels;
        let kind = match transport {
            _ if transport.starts_with("NET/Socket") => &mut channels.socket,
            _ if transport.starts_with("NET/") && transport.contains("GDRDMA") => {
                &mut channels.direct
            }
            _ if transport.starts_with("NET/") => &mut channels.staged,
            _ if transport.starts_with("P2P/MNNVL") => &mut channels.nvlink_between_nodes,
            _ if transport.starts_with("P2P/") => &mut channels.peer,
            _ if transport.starts_with("SHM") || transport.starts_with("direct shared memory") => {
                &mut channels.shared_memory
            }
            _ => return,
        };
        *kind = kind.saturating_add(1);
    }

    /// `NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'`; sockets have none, which says nothing.
    fn add_nic(&mut self, said: &str) {
        if said.starts_with("NET/Socket") {
            return;
        }
        let said = said.to_ascii_lowercase();
        if said.contains(" enabled") {
            self.gpu_direct_for_nics = Some(true);
        } else if said.contains(" disabled") {
            self.gpu_direct_for_nics.get_or_insert(false);
        }
    }
}

/// A name of any length is not kept.
fn brief(word: &str) -> String {
    word.chars().take(64).collect()
}

/// NCCL uses 32 at most, of each host.
const MAX_PORTS: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(lines: &[&str]) -> NcclLog {
        let mut heard = NcclLog::default();
        for line in lines {
            heard.add(&format!("node1:42:43 [0] NCCL INFO {line}"));
        }
        heard
    }

    #[test]
    fn ports_and_direct_channels() {
        let heard = heard(&[
            "NCCL version 2.28.3+cuda12.9",
            "NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>",
            "Using network IB",
            "NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'",
            "Channel 00/0 : 0[0] -> 2[0] [send] via NET/IB/0/GDRDMA",
            "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM",
        ]);
        assert_eq!(heard.version.as_deref(), Some("2.28.3+cuda12.9"));
        assert_eq!(heard.ports.iter().collect::<Vec<_>>(), ["mlx5_0:1", "mlx5_1:1"]);
        assert_eq!((heard.gpu_direct(), heard.is_tcp()), (Some(true), false));
    }

    #[test]
    fn two_ports_that_are_one() {
        let heard =
            heard(&["NET/IB : Using {[0] mlx5_0:1/IB, [1] mlx5_3:1/IB} [RO]; OOB ib0:10.0.0.1<0>"]);
        assert_eq!(heard.ports.iter().collect::<Vec<_>>(), ["mlx5_0:1", "mlx5_3:1"]);
    }

    #[test]
    fn channels_say_more_than_what_nics_could() {
        let staged = heard(&[
            "NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'",
            "Channel 00/0 : 0[0] -> 2[0] [send] via NET/IB/0",
        ]);
        assert_eq!(staged.gpu_direct(), Some(false));
        let off = heard(&["NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx4_0'"]);
        assert_eq!(off.gpu_direct(), Some(false));
    }

    #[test]
    fn tcp_is_told_from_rdma() {
        let tcp = heard(&[
            "NET/IB : No device found.",
            "NET/Socket : Using [0]eth0:10.0.0.1<0>",
            "Using network Socket",
            "NET/Socket : GPU Direct RDMA Disabled for HCA 0 'eth0'",
            "Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0",
        ]);
        assert_eq!((tcp.is_tcp(), tcp.gpu_direct()), (true, None));
        assert!(!heard(&["Using network IB"]).is_tcp());
    }
}
