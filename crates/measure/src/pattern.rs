//! Test data that can be verified.

use fabric::Memory;

/// Fills every slot with the same pseudorandom bytes.
pub(crate) fn fill(memory: &Memory, size: usize, stride: usize, slots: usize) {
    let bytes = bytes(size);
    (0..slots).for_each(|slot| memory.write(slot * stride, &bytes));
}

/// Whether the first `used_slots` slots have these bytes.
pub(crate) fn is_present(memory: &Memory, size: usize, stride: usize, used_slots: usize) -> bool {
    let expected = crc32c::crc32c(&bytes(size));
    let mut found = vec![0; size];
    (0..used_slots).all(|slot| {
        memory.read(slot * stride, &mut found);
        crc32c::crc32c(&found) == expected
    })
}

fn bytes(size: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(size + 8);
    while bytes.len() < size {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_le_bytes());
    }
    bytes.truncate(size);
    bytes
}
