//! The EEPROM of a cable or transceiver: SFF-8472 (SFP), SFF-8636 and SFF-8436 (QSFP), CMIS
//! (QSFP-DD, OSFP). Serial numbers are not read.

use super::PluggableModule;
use super::driver::text;

/// Parses any bytes. The first byte has the standard of the rest.
pub(crate) fn parse(memory: &[u8]) -> Option<PluggableModule> {
    let (form, layout) = match *memory.first()? {
        0x03 => ("SFP", Layout::Sfp),
        0x0c => ("QSFP", Layout::Qsfp),
        0x0d => ("QSFP+", Layout::Qsfp),
        0x11 => ("QSFP28", Layout::Qsfp),
        0x18 => ("QSFP-DD", Layout::Cmis),
        0x19 => ("OSFP", Layout::Cmis),
        0x1b => ("DSFP", Layout::Cmis),
        0x1e => ("QSFP-CMIS", Layout::Cmis),
        _ => return None,
    };
    let field = |from: usize| memory.get(from..from + 16).and_then(text);
    let (vendor, part) = match layout {
        Layout::Sfp => (20, 40),
        Layout::Qsfp => (148, 168),
        Layout::Cmis => (129, 148),
    };
    Some(PluggableModule {
        form: Some(form.to_owned()),
        vendor: field(vendor),
        part: field(part),
        length_m: layout.length(memory),
        nominal_mbps: layout.nominal(memory),
    })
}

enum Layout {
    Sfp,
    Qsfp,
    Cmis,
}

impl Layout {
    /// The length of a cable; for a transceiver the same byte is its range.
    fn length(&self, memory: &[u8]) -> Option<u32> {
        let byte = |at: usize| memory.get(at).copied();
        let metres = match self {
            // Bits 2 and 3: a passive or an active cable.
            Layout::Sfp if byte(8)? & 0x0c != 0 => u32::from(byte(18)?),
            Layout::Qsfp if is_cable(byte(130)?) => u32::from(byte(146)?),
            // Two bits for the unit (0.1 m, 1 m, 10 m, 100 m), six for the number.
            Layout::Cmis if is_cable(byte(203)?) => {
                let (unit, number) = (byte(202)? >> 6, u32::from(byte(202)? & 0x3f));
                number * 10u32.pow(unit.into()) / 10
            }
            _ => return None,
        };
        (metres > 0).then_some(metres)
    }

    /// The nominal rate of all lanes.
    fn nominal(&self, memory: &[u8]) -> Option<u32> {
        let byte = |at: usize| memory.get(at).map(|byte| u32::from(*byte));
        // In units of 100 Mb/s; 255 means that another byte has it, in units of 250 Mb/s.
        let lane = |short: usize, long: usize| match byte(short)? {
            0xff => Some(byte(long)? * 250),
            rate => Some(rate * 100),
        };
        match self {
            Layout::Sfp => round(lane(12, 66)?),
            // PAM4 modules with four lanes report their symbol rate, which is half of it.
            Layout::Qsfp if is_200_gigabit(byte(192)?) => Some(200_000),
            Layout::Qsfp => round(lane(140, 222)? * 4),
            Layout::Cmis => None,
        }
    }
}

/// Connectors that cannot be separated: copper pigtail, no separable connector.
fn is_cable(connector: u8) -> bool {
    matches!(connector, 0x21 | 0x23)
}

/// Codes of SFF-8024, table 4-4, for 200 Gb/s in four lanes.
fn is_200_gigabit(code: u32) -> bool {
    matches!(code, 0x30..=0x33 | 0x40..=0x43 | 0x46)
}

/// The nominal speed for a signalling rate, which is up to a tenth higher.
fn round(mbps: u32) -> Option<u32> {
    let speeds = [1000, 10_000, 14_000, 25_000, 40_000, 50_000, 56_000, 100_000, 200_000, 400_000];
    speeds.into_iter().find(|speed| (*speed..=speed + speed / 10).contains(&mbps))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(identifier: u8, fields: &[(usize, &[u8])]) -> Vec<u8> {
        let mut memory = vec![0; 256];
        memory[0] = identifier;
        for (at, value) in fields {
            memory[*at..at + value.len()].copy_from_slice(value);
        }
        memory
    }

    #[test]
    fn a_copper_cable_of_100_gigabit() {
        let cable = memory(
            0x11,
            &[
                (148, b"Mellanox        "),
                (168, b"MCP1600-E003E26 "),
                (196, b"MT1234567890    "),
                (130, &[0x23]),
                (146, &[3]),
                (140, &[0xff]),
                (222, &[103]),
            ],
        );
        let module = parse(&cable).expect("a module");
        assert_eq!(module.vendor.as_deref(), Some("Mellanox"));
        assert_eq!(module.part.as_deref(), Some("MCP1600-E003E26"));
        assert_eq!((module.length_m, module.nominal_mbps), (Some(3), Some(100_000)));
        assert!(!format!("{module:?}").contains("MT1234567890"));
    }

    #[test]
    fn a_40_gigabit_cable_and_a_10_gigabit_transceiver() {
        let cable = memory(0x0d, &[(130, &[0x23]), (146, &[1]), (140, &[103])]);
        assert_eq!(parse(&cable).expect("a module").nominal_mbps, Some(40_000));
        let optics = memory(0x03, &[(12, &[103]), (18, &[30])]);
        let module = parse(&optics).expect("a module");
        assert_eq!((module.length_m, module.nominal_mbps), (None, Some(10_000)));
    }

    #[test]
    fn short_and_unknown_memory_is_accepted() {
        assert_eq!(parse(&[]), None);
        assert_eq!(parse(&[0xff; 256]), None);
        assert_eq!(parse(&[0x11]).expect("a module").vendor, None);
        let long = memory(0x18, &[(203, &[0x23]), (202, &[0b01_000101])]);
        assert_eq!(parse(&long).expect("a module").length_m, Some(5));
    }
}
