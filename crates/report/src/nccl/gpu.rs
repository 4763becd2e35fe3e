//! A rank, its host and its GPU.

/// One rank and its GPU.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gpu {
    /// The rank, from 0.
    pub rank: u32,
    /// The communicator, if the program split them.
    pub group: u32,
    /// The host's name.
    pub host: String,
    /// The GPU's index there.
    pub device: u32,
    /// Its PCI address, or the bus alone (`0x1b`), as printed.
    pub pci: Option<String>,
    /// Its model name.
    pub name: String,
}

impl Gpu {
    /// Parses a line such as `#  Rank  0 Group  0 Pid    723 on         vm device  0 [0000:00:06] NVIDIA H200`. Older
    /// versions have no group, PID or address.
    pub(super) fn parse(line: &str) -> Option<Gpu> {
        let mut words = line.strip_prefix('#')?.split_whitespace().peekable();
        (words.next()? == "Rank").then_some(())?;
        let mut gpu = Gpu { rank: words.next()?.parse().ok()?, ..Gpu::default() };
        loop {
            match words.next()? {
                "Group" => gpu.group = words.next()?.parse().ok()?,
                "Pid" => drop(words.next()?),
                "on" => gpu.host = words.next()?.to_owned(),
                "device" => break,
                _ => return None,
            }
        }
        gpu.device = words.next()?.parse().ok()?;
        let pci = words.next_if(|word| word.starts_with('[') && word.ends_with(']'));
        gpu.pci = pci.map(|word| word.trim_matches(['[', ']']).to_owned());
        gpu.name = words.collect::<Vec<_>>().join(" ");
        (!gpu.host.is_empty()).then_some(gpu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_all_versions_are_read() {
        let lines = [
            "#   Rank  3 on      node2 device  1 [0x82] Tesla P100-SXM2-16GB",
            "#   Rank  3 Pid  12345 on      node2 device  1 [0x82] Tesla P100-SXM2-16GB",
            "#  Rank  3 Group  0 Pid  12345 on      node2 device  1 [0x82] Tesla P100-SXM2-16GB",
            "#  Rank  3 Group  0 Pid  12345 on      node2 device  1 [0000:82:00] Tesla P100-SXM2-16GB",
            "#  Rank  3 Pid  12345 on      node2 device  1 Tesla P100-SXM2-16GB",
        ];
        for line in lines {
            let gpu = Gpu::parse(line).expect(line);
            assert_eq!((gpu.rank, gpu.host.as_str(), gpu.device), (3, "node2", 1), "{line}");
            assert_eq!(gpu.name, "Tesla P100-SXM2-16GB");
            assert_eq!(gpu.pci.is_some(), line.contains('['));
        }
        for line in ["#  Rank", "#  Rank x on y", "# Rank 1 device 0", "Rank 0 on a device 0 b"] {
            assert_eq!(Gpu::parse(line), None, "{line}");
        }
    }
}
