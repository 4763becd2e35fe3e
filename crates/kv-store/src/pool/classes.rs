//! Size classes: the lengths that slots have.

use super::UNIT;

/// The longest value that lies in a slot.
pub(super) const LONGEST: u64 = 32 << 10;

/// Multiples of 8 up to 128, then eight classes to each doubling: at most an eighth is wasted.
pub(super) const COUNT: usize = 80;

/// The class for a value of this length, which is 1 to [`LONGEST`].
pub(super) fn class_of(length: u16) -> usize {
    let last = u32::from(length) - 1;
    if last < 128 {
        return last as usize / 8;
    }
    let doubling = last.ilog2();
    FINE + (doubling as usize - 7) * 8 + (last >> (doubling - 3) & 7) as usize
}

/// Bytes of each slot of a class.
pub(super) fn slot_bytes(class: usize) -> u32 {
    if class < FINE {
        return (class as u32 + 1) * 8;
    }
    let (doubling, step) = ((class - FINE) / 8, (class - FINE) % 8);
    (step as u32 + 9) << (doubling + 4)
}

/// Units for the next slab of a class that has `held` units already: as many again, so that a class
/// with few values takes little, up to what is at least 64 KiB and wastes less than 3 % at its end.
pub(super) fn slab_units(class: usize, held: u32) -> u32 {
    let slot = u64::from(slot_bytes(class));
    let wasteful = |units: &u32, percent| {
        u64::from(*units) * UNIT % slot * 100 > u64::from(*units) * UNIT * percent
    };
    let first = (slot.div_ceil(UNIT) as u32..).find(|units| !wasteful(units, 10));
    let full = (USUAL..).find(|units| !wasteful(units, 3));
    held.clamp(first.unwrap_or(1), full.unwrap_or(USUAL))
}

/// Units of most slabs once a class is in use.
const USUAL: u32 = ((64 << 10) / UNIT) as u32;

/// Classes that are multiples of 8.
const FINE: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_an_eighth_of_a_slot_is_wasted() {
        for length in 1..=LONGEST as u16 {
            let class = class_of(length);
            let slot = slot_bytes(class);
            let waste = slot - u32::from(length);
            assert!(class < COUNT && slot.is_multiple_of(8));
            assert!(waste < 8 || waste * 8 <= slot, "{length} in {slot}");
            assert!(class == 0 || slot_bytes(class - 1) < u32::from(length));
        }
        assert_eq!(u64::from(slot_bytes(COUNT - 1)), LONGEST);
    }

    #[test]
    fn slabs_waste_little_and_grow_with_their_class() {
        for class in 0..COUNT {
            for (held, percent, most) in [(0, 10, 32 << 10), (1000, 3, 256 << 10)] {
                let bytes = u64::from(slab_units(class, held)) * UNIT;
                let tail = bytes % u64::from(slot_bytes(class));
                assert!(tail * 100 <= bytes * percent, "class {class}: {tail} of {bytes}");
                assert!(bytes <= most && tail < bytes, "class {class}: {bytes}");
            }
        }
        assert_eq!((slab_units(12, 0), slab_units(12, 5), slab_units(12, 99)), (1, 5, 16));
    }
}
