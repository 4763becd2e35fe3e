//! Size classes: the lengths of slots.

use super::UNIT_BYTES;

/// The longest value that is stored in a slot.
pub(crate) const MAX_SLOT_BYTES: u64 = 32 << 10;

/// Multiples of 8 up to 128, then eight classes to each doubling: at most an eighth is wasted.
pub(super) const COUNT: usize = 80;

/// The class for a value of this length, which is 1 to [`MAX_SLOT_BYTES`].
pub(super) fn class_of(length: u16) -> usize {
    let last = u32::from(length) - 1;
    if last < 128 {
        return last as usize / 8;
    }
    let doubling = last.ilog2();
    FINE_CLASSES + (doubling as usize - 7) * 8 + (last >> (doubling - 3) & 7) as usize
}

/// Bytes of each slot of a class.
pub(super) fn slot_bytes(class: usize) -> u32 {
    if class < FINE_CLASSES {
        return (class as u32 + 1) * 8;
    }
    let (doubling, step) = ((class - FINE_CLASSES) / 8, (class - FINE_CLASSES) % 8);
    (step as u32 + 9) << (doubling + 4)
}

/// Units for the next slab of a class that has `held` units: as many again, so that a class
/// with few values takes little memory, up to a size of at least 64 KiB that wastes less than 3 % at its end.
pub(super) fn slab_units(class: usize, held: u32) -> u32 {
    let slot = u64::from(slot_bytes(class));
    let wasteful = |units: &u32, percent| {
        u64::from(*units) * UNIT_BYTES % slot * 100 > u64::from(*units) * UNIT_BYTES * percent
    };
    let first = (slot.div_ceil(UNIT_BYTES) as u32..).find(|units| !wasteful(units, 10));
    let full = (USUAL_SLAB_UNITS..).find(|units| !wasteful(units, 3));
    held.clamp(first.unwrap_or(1), full.unwrap_or(USUAL_SLAB_UNITS))
}

/// The minimum size of slabs of a class in regular use.
const USUAL_SLAB_UNITS: u32 = ((64 << 10) / UNIT_BYTES) as u32;

/// Classes that are multiples of 8.
const FINE_CLASSES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_an_eighth_of_a_slot_is_wasted() {
        for length in 1..=MAX_SLOT_BYTES as u16 {
            let class = class_of(length);
            let slot = slot_bytes(class);
            let waste = slot - u32::from(length);
            assert!(class < COUNT && slot.is_multiple_of(8));
            assert!(waste < 8 || waste * 8 <= slot, "{length} in {slot}");
            assert!(class == 0 || slot_bytes(class - 1) < u32::from(length));
        }
        assert_eq!(u64::from(slot_bytes(COUNT - 1)), MAX_SLOT_BYTES);
    }

    #[test]
    fn slabs_waste_little_and_grow_with_their_class() {
        for class in 0..COUNT {
            for (held, percent, max) in [(0, 10, 32 << 10), (1000, 3, 256 << 10)] {
                let bytes = u64::from(slab_units(class, held)) * UNIT_BYTES;
                let tail = bytes % u64::from(slot_bytes(class));
                assert!(tail * 100 <= bytes * percent, "class {class}: {tail} of {bytes}");
                assert!(bytes <= max && tail < bytes, "class {class}: {bytes}");
            }
        }
        assert_eq!((slab_units(12, 0), slab_units(12, 5), slab_units(12, 99)), (1, 5, 16));
    }
}
