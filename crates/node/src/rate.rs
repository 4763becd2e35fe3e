//! A port's rate, as in sysfs: `100 Gb/sec (4X EDR)`.

use serde::{Serialize, Serializer};

/// The rate of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Rate {
    /// In Mb/s, so that 2.5 Gb/s is a whole number.
    pub mbps: u64,
    /// The number of lanes as reported by the kernel; on Ethernet without meaning.
    pub width: u32,
    /// The InfiniBand speed of one lane; old kernels do not report it.
    pub speed: Option<LaneSpeed>,
}

/// The speed of one lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names of the specification")]
pub enum LaneSpeed {
    Sdr,
    Ddr,
    Qdr,
    Fdr10,
    Fdr,
    Edr,
    Hdr,
    Ndr,
    Xdr,
}

impl Rate {
    /// In Gb/s.
    pub fn gbps(self) -> f64 {
        self.mbps as f64 / 1000.0
    }

    /// Parses `%d[.5] Gb/sec (%dX[ SPEED])`.
    pub fn parse(text: &str) -> Option<Self> {
        let (number, rest) = text.split_once(" Gb/sec (")?;
        let (width, speed) = rest.strip_suffix(')')?.split_once('X')?;
        let (whole, half) = match number.split_once('.') {
            Some((whole, "5")) => (whole, 500),
            Some(_) => return None,
            None => (number, 0),
        };
        let whole: u32 = whole.parse().ok()?;
        let speed = match speed.trim() {
            "" => None,
            name => Some(LaneSpeed::ALL.into_iter().find(|speed| speed.name() == name)?),
        };
        Some(Rate { mbps: u64::from(whole) * 1000 + half, width: width.parse().ok()?, speed })
    }
}

impl std::fmt::Display for Rate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} Gb/s ({}X", self.gbps(), self.width)?;
        if let Some(speed) = self.speed {
            write!(f, " {}", speed.name())?;
        }
        f.write_str(")")
    }
}

impl LaneSpeed {
    const ALL: [LaneSpeed; 9] = [
        LaneSpeed::Sdr,
        LaneSpeed::Ddr,
        LaneSpeed::Qdr,
        LaneSpeed::Fdr10,
        LaneSpeed::Fdr,
        LaneSpeed::Edr,
        LaneSpeed::Hdr,
        LaneSpeed::Ndr,
        LaneSpeed::Xdr,
    ];

    /// The kernel's name.
    pub fn name(self) -> &'static str {
        match self {
            LaneSpeed::Sdr => "SDR",
            LaneSpeed::Ddr => "DDR",
            LaneSpeed::Qdr => "QDR",
            LaneSpeed::Fdr10 => "FDR10",
            LaneSpeed::Fdr => "FDR",
            LaneSpeed::Edr => "EDR",
            LaneSpeed::Hdr => "HDR",
            LaneSpeed::Ndr => "NDR",
            LaneSpeed::Xdr => "XDR",
        }
    }
}

impl Serialize for LaneSpeed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_parsed() {
        let rate = |text| Rate::parse(text).map(|rate| (rate.mbps, rate.width, rate.speed));
        assert_eq!(rate("100 Gb/sec (4X EDR)"), Some((100_000, 4, Some(LaneSpeed::Edr))));
        assert_eq!(rate("2.5 Gb/sec (1X SDR)"), Some((2500, 1, Some(LaneSpeed::Sdr))));
        assert_eq!(rate("10 Gb/sec (4X)"), Some((10_000, 4, None)));
        for wrong in
            ["", "Gb/sec", "100 Gb/sec", "-1 Gb/sec (4X)", "9.7 Gb/sec (4X)", "1 Gb/sec (4X ABC)"]
        {
            assert_eq!(rate(wrong), None, "{wrong}");
        }
    }
}
