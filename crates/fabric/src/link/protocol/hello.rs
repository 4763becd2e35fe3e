//! The hello of each end in the handshake: its process and host, its policy, and the ports by which it can be reached.

use super::bytes::{Reader, put_bytes, put_text};
use super::control::Transport;
use crate::link::config::Policy;
use crate::ofi;
use crate::verbs::UsablePort;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::link) struct Hello {
    /// Identifies the process: regions of an earlier one are refused.
    pub(in crate::link) epoch: u64,
    /// The boot id of the kernel: the same for all processes of a host.
    pub(in crate::link) boot_id: [u8; 16],
    /// The host name, for display.
    pub(in crate::link) host: String,
    pub(in crate::link) policy: Policy,
    /// The enabled transports.
    pub(in crate::link) transports: Vec<Transport>,
    /// Whether TCP lanes must be encrypted.
    pub(in crate::link) encrypt: bool,
    /// The maximum payload of a message on a lane that it receives, in bytes.
    pub(in crate::link) max_payload: u32,
    /// The maximum number of regions that may be granted to it.
    pub(in crate::link) max_regions: u32,
    /// Its RDMA ports.
    pub(in crate::link) ports: Vec<UsablePort>,
    /// Why it has no RDMA, if it has none.
    pub(in crate::link) no_rdma: String,
    /// Its libfabric providers, the best first.
    pub(in crate::link) ofi: Vec<ofi::UsableProvider>,
    /// Why it has none, if it has none.
    pub(in crate::link) no_ofi: String,
}

impl Hello {
    /// The format of an end without libfabric, or where it is not enabled.
    const PLAIN: u8 = 3;
    /// The same, followed by the libfabric fields.
    const WITH_OFI: u8 = 4;

    pub(in crate::link) fn to_bytes(&self) -> Vec<u8> {
        let with_ofi = self.transports.contains(&Transport::Ofi);
        let mut bytes = vec![if with_ofi { Self::WITH_OFI } else { Self::PLAIN }];
        bytes.extend(self.epoch.to_le_bytes());
        bytes.extend(self.boot_id);
        put_text(&mut bytes, &self.host, MAX_HOST);
        bytes.push(self.policy as u8);
        bytes.push(self.transports.iter().fold(0, |bits, transport| bits | 1 << transport.code()));
        bytes.push(u8::from(self.encrypt));
        bytes.extend(self.max_payload.to_le_bytes());
        bytes.extend(self.max_regions.to_le_bytes());
        let ports = &self.ports[..self.ports.len().min(MAX_PORTS)];
        bytes.push(ports.len() as u8);
        for port in ports {
            put_bytes(&mut bytes, &port.to_bytes());
        }
        put_text(&mut bytes, &self.no_rdma, MAX_TEXT);
        if with_ofi {
            let providers = &self.ofi[..self.ofi.len().min(MAX_PORTS)];
            bytes.push(providers.len() as u8);
            for usable in providers {
                for text in [&usable.provider, &usable.network, &usable.interface] {
                    put_text(&mut bytes, text, MAX_NAME);
                }
            }
            put_text(&mut bytes, &self.no_ofi, MAX_TEXT);
        }
        bytes
    }

    /// `None`: not a valid hello.
    pub(in crate::link) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let with_ofi = match reader.u8()? {
            Self::PLAIN => false,
            Self::WITH_OFI => true,
            _ => return None,
        };
        let (epoch, boot_id) = (reader.u64()?, reader.array()?);
        let host = reader.text(MAX_HOST)?;
        let policy = *Policy::ALL.get(usize::from(reader.u8()?))?;
        let bits = reader.u8()?;
        let has = |transport: &Transport| bits & 1 << transport.code() != 0;
        let transports: Vec<Transport> = Transport::ALL.into_iter().filter(has).collect();
        if transports.contains(&Transport::Ofi) != with_ofi {
            return None;
        }
        let encrypt = match reader.u8()? {
            0 => false,
            1 => true,
            _ => return None,
        };
        let (max_payload, max_regions) = (reader.u32()?, reader.u32()?);
        let count = usize::from(reader.u8()?);
        if count > MAX_PORTS || !(MIN_PAYLOAD..=MAX_PAYLOAD).contains(&max_payload) {
            return None;
        }
        let port = |_| UsablePort::from_bytes(reader.bytes(UsablePort::MAX_BYTES)?).ok();
        let ports = (0..count).map(port).collect::<Option<Vec<UsablePort>>>()?;
        let no_rdma = reader.text(MAX_TEXT)?;
        let (ofi, no_ofi) = if with_ofi { read_ofi(&mut reader)? } else { Default::default() };
        reader.end()?;
        Some(Hello {
            epoch,
            boot_id,
            host,
            policy,
            transports,
            encrypt,
            max_payload,
            max_regions,
            ports,
            no_rdma,
            ofi,
            no_ofi,
        })
    }
}

fn read_ofi(reader: &mut Reader<'_>) -> Option<(Vec<ofi::UsableProvider>, String)> {
    let count = usize::from(reader.u8()?);
    if count > MAX_PORTS {
        return None;
    }
    let provider = |_| {
        Some(ofi::UsableProvider {
            provider: reader.text(MAX_NAME)?,
            network: reader.text(MAX_NAME)?,
            interface: reader.text(MAX_NAME)?,
        })
    };
    let providers = (0..count).map(provider).collect::<Option<Vec<_>>>()?;
    Some((providers, reader.text(MAX_TEXT)?))
}

/// The name of a port, as rails use it.
pub(in crate::link) fn port_name(port: &UsablePort) -> String {
    format!("{}/{}", port.device, port.port)
}

const MAX_HOST: usize = 255;
const MAX_TEXT: usize = 1024;
const MAX_PORTS: usize = 64;
/// For names of providers, networks and devices.
const MAX_NAME: usize = 64;
const MIN_PAYLOAD: u32 = 64;
const MAX_PAYLOAD: u32 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Hello {
        Hello {
            epoch: 7,
            boot_id: [9; 16],
            host: "node17".to_owned(),
            policy: Policy::Off,
            transports: vec![Transport::Shm, Transport::Tcp],
            encrypt: false,
            max_payload: 4096,
            max_regions: 16,
            ports: Vec::new(),
            no_rdma: "there is no RDMA device".to_owned(),
            ofi: Vec::new(),
            no_ofi: String::new(),
        }
    }

    fn with_ofi() -> Hello {
        let provider = ofi::UsableProvider {
            provider: "tcp;ofi_rxm".to_owned(),
            network: "127.0.0.0/8".to_owned(),
            interface: "lo".to_owned(),
        };
        let transports = vec![Transport::Shm, Transport::Ofi, Transport::Tcp];
        Hello { transports, ofi: vec![provider], no_ofi: "and why not".to_owned(), ..example() }
    }

    #[test]
    fn hellos_survive_encoding() {
        for hello in [example(), with_ofi()] {
            assert_eq!(Hello::parse(&hello.to_bytes()), Some(hello));
        }
    }

    #[test]
    fn an_end_without_libfabric_sends_the_plain_format() {
        let bytes = example().to_bytes();
        assert_eq!((bytes[0], with_ofi().to_bytes()[0]), (Hello::PLAIN, Hello::WITH_OFI));
        let mut bad = with_ofi().to_bytes();
        bad[0] = Hello::PLAIN;
        assert_eq!(Hello::parse(&bad), None, "libfabric fields in the plain format");
    }

    #[test]
    fn invalid_bytes_are_refused() {
        for good in [example().to_bytes(), with_ofi().to_bytes()] {
            for end in 0..good.len() {
                assert_eq!(Hello::parse(&good[..end]), None, "cut at {end}");
            }
        }
        let good = example().to_bytes();
        assert_eq!(Hello::parse(&[&good[..], &[0]].concat()), None);
        assert_eq!(Hello::parse(&Hello { max_payload: 1, ..example() }.to_bytes()), None);
        let mut newer = good;
        newer[0] = Hello::WITH_OFI + 1;
        assert_eq!(Hello::parse(&newer), None);
    }
}
