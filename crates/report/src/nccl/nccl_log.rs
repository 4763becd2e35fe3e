//! NCCL's own log lines about its transports (NCCL_DEBUG=INFO).

use std::collections::BTreeSet;

/// Facts from NCCL's log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NcclLog {
    /// Its version.
    pub version: Option<String>,
    /// The transport between nodes: `IB`, `Socket`, a plugin's name.
    pub network: Option<String>,
    /// RDMA ports in use: `mlx5_0:1`.
    pub ports: BTreeSet<String>,
    /// Whether GPUDirect RDMA is enabled for any NIC in the log; false: disabled for all.
    pub gpu_direct_for_nics: Option<bool>,
    /// Number of channels per transport.
    pub channels: Channels,
    /// Whether switches of NVLink or the network reduce (NVLS, CollNet, SHARP).
    pub reduces_in_switches: bool,
}

/// Number of channels per transport.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Channels {
    /// GPU memory directly to the NIC.
    pub direct: u32,
    /// A NIC, through host memory.
    pub staged: u32,
    /// TCP.
    pub socket: u32,
    /// NVLink or PCIe within a node.
    pub peer: u32,
    /// NVLink between nodes.
    pub nvlink_between_nodes: u32,
    /// Host memory within a node.
    pub shared_memory: u32,
}

impl NcclLog {
    /// Whether GPUDirect RDMA is used: from the channels, else from the lines about NICs.
    pub fn gpu_direct(&self) -> Option<bool> {
        match self.channels {
            Channels { direct: 1.., .. } => Some(true),
            Channels { staged: 1.., .. } => Some(false),
            _ => self.gpu_direct_for_nics,
        }
    }

    /// Whether nodes communicate over TCP.
    pub fn is_tcp(&self) -> bool {
        let by_nic = self.channels.direct + self.channels.staged;
        match self.channels.socket {
            0 => by_nic == 0 && self.network.as_deref() == Some("Socket"),
            _ => by_nic == 0,
        }
    }

    /// Parses the next line of a log.
    pub(super) fn add(&mut self, line: &str) {
        if let Some((_, version)) = line.split_once("NCCL version ") {
            let version = version.split_whitespace().next();
            self.version = self.version.take().or(version.map(truncated));
        }
        let Some((_, text)) = line.split_once("NCCL INFO ") else { return };
        if let Some(network) = text.strip_prefix("Using network ") {
            self.network = Some(truncated(network.trim()));
        } else if let Some(ports) = text.strip_prefix("NET/IB : Using ") {
            self.add_ports(ports);
        } else if text.contains(" via ") {
            self.add_channel(text);
        } else if text.starts_with("NET/") && text.contains("GPU Direct RDMA ") {
            self.add_nic(text);
        }
        let reduces = ["Connected NVLS tree", "CollNet ", "Algo NVLS", "SHARP"];
        self.reduces_in_switches |= reduces.iter().any(|word| text.contains(word));
    }

    /// ` [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>`. Two ports as one: `{[0] mlx5_0:1/IB, [1] mlx5_1:1/IB}`.
    fn add_ports(&mut self, ports: &str) {
        let ports = ports.split_once("; OOB").map_or(ports, |(ports, _)| ports);
        for part in ports.split('/') {
            let word = part.rsplit([' ', ']', '{', '+', ',']).next().unwrap_or_default();
            let Some((device, port)) = word.split_once(':') else { continue };
            if port.parse::<u8>().is_ok() && !device.is_empty() && self.ports.len() < MAX_PORTS {
                self.ports.insert(truncated(word));
            }
        }
    }

    /// `Channel 00/0 : 0[0] -> 2[0] [send] via NET/IB/0/GDRDMA`
    fn add_channel(&mut self, text: &str) {
        let Some((_, transport)) = text.split_once(" via ") else { return };
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

    /// `NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'`; ignored for sockets, which never have it.
    fn add_nic(&mut self, text: &str) {
        if text.starts_with("NET/Socket") {
            return;
        }
        let text = text.to_ascii_lowercase();
        if text.contains(" enabled") {
            self.gpu_direct_for_nics = Some(true);
        } else if text.contains(" disabled") {
            self.gpu_direct_for_nics.get_or_insert(false);
        }
    }
}

/// Truncates a name.
fn truncated(word: &str) -> String {
    word.chars().take(64).collect()
}

/// NCCL uses at most 32 per host.
const MAX_PORTS: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn log(lines: &[&str]) -> NcclLog {
        let mut log = NcclLog::default();
        for line in lines {
            log.add(&format!("node1:42:43 [0] NCCL INFO {line}"));
        }
        log
    }

    #[test]
    fn ports_and_gpu_direct_channels_are_read() {
        let log = log(&[
            "NCCL version 2.28.3+cuda12.9",
            "NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>",
            "Using network IB",
            "NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'",
            "Channel 00/0 : 0[0] -> 2[0] [send] via NET/IB/0/GDRDMA",
            "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM",
        ]);
        assert_eq!(log.version.as_deref(), Some("2.28.3+cuda12.9"));
        assert_eq!(log.ports.iter().collect::<Vec<_>>(), ["mlx5_0:1", "mlx5_1:1"]);
        assert_eq!((log.gpu_direct(), log.is_tcp()), (Some(true), false));
    }

    #[test]
    fn bonded_ports_are_read() {
        let log =
            log(&["NET/IB : Using {[0] mlx5_0:1/IB, [1] mlx5_3:1/IB} [RO]; OOB ib0:10.0.0.1<0>"]);
        assert_eq!(log.ports.iter().collect::<Vec<_>>(), ["mlx5_0:1", "mlx5_3:1"]);
    }

    #[test]
    fn channels_override_the_lines_about_nics() {
        let staged = log(&[
            "NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'",
            "Channel 00/0 : 0[0] -> 2[0] [send] via NET/IB/0",
        ]);
        assert_eq!(staged.gpu_direct(), Some(false));
        let off = log(&["NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx4_0'"]);
        assert_eq!(off.gpu_direct(), Some(false));
    }

    #[test]
    fn tcp_is_distinguished_from_rdma() {
        let tcp = log(&[
            "NET/IB : No device found.",
            "NET/Socket : Using [0]eth0:10.0.0.1<0>",
            "Using network Socket",
            "NET/Socket : GPU Direct RDMA Disabled for HCA 0 'eth0'",
            "Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0",
        ]);
        assert_eq!((tcp.is_tcp(), tcp.gpu_direct()), (true, None));
        assert!(!log(&["Using network IB"]).is_tcp());
    }
}
