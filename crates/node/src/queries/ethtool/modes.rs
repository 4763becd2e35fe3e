//! Speeds of the kernel's link modes.

/// The speeds in Mb/s of the modes whose bits are set, ascending, without duplicates.
pub(super) fn speeds(mask: &[u32]) -> Vec<u32> {
    let bits = (0..mask.len() * 32).filter(|bit| mask[bit / 32] >> (bit % 32) & 1 == 1);
    let mut speeds: Vec<u32> = bits.filter_map(speed).collect();
    speeds.sort_unstable();
    speeds.dedup();
    speeds
}

/// Bits without a speed (autonegotiation, port types, FEC) are in no row.
fn speed(bit: usize) -> Option<u32> {
    let row = SPEEDS.iter().find(|(first, last, _)| (*first..=*last).contains(&bit));
    row.map(|(_, _, mbps)| *mbps)
}

/// First bit, last bit, Mb/s: `enum ethtool_link_mode_bit_indices` of linux/ethtool.h.
const SPEEDS: &[(usize, usize, u32)] = &[
    (0, 1, 10),
    (2, 3, 100),
    (4, 5, 1000),
    (12, 12, 10_000),
    (15, 15, 2500),
    (17, 17, 1000),
    (18, 20, 10_000),
    (21, 22, 20_000),
    (23, 26, 40_000),
    (27, 30, 56_000),
    (31, 33, 25_000),
    (34, 35, 50_000),
    (36, 39, 100_000),
    (40, 40, 50_000),
    (41, 41, 1000),
    (42, 46, 10_000),
    (47, 47, 2500),
    (48, 48, 5000),
    (52, 56, 50_000),
    (57, 61, 100_000),
    (62, 66, 200_000),
    (67, 67, 100),
    (68, 68, 1000),
    (69, 73, 400_000),
    (75, 79, 100_000),
    (80, 84, 200_000),
    (85, 89, 400_000),
    (90, 91, 100),
    (92, 92, 10),
    (93, 98, 800_000),
    (99, 102, 10),
    (103, 108, 200_000),
    (109, 114, 400_000),
    (115, 120, 800_000),
    (121, 124, 1_600_000),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_of_40_and_56_gigabit() {
        // 10000baseKR, 40000baseCR4 and 40000baseSR4, 56000baseCR4, and what is no speed.
        let mask = 1 << 19 | 1 << 24 | 1 << 25 | 1 << 28 | 1 << 6 | 1 << 13 | 1 << 10;
        assert_eq!(speeds(&[mask]), [10_000, 40_000, 56_000]);
        assert_eq!(speeds(&[0, 0, 1 << (85 - 64)]), [400_000]);
        assert_eq!(speeds(&[]), [0; 0]);
        assert_eq!(speeds(&[u32::MAX; 127]).last(), Some(&1_600_000));
    }
}
