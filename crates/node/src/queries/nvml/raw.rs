//! NVML calls that its wrapper does not offer: fields of one NVLink, and the identity of a GPU without a query.
//!
//! Unsafe here: NVML's function for fields writes into an array of the given length, and each number is in a
//! union. The wrapper keeps the library and the device's handle valid as long as its `Device` lives.
#![allow(
    unsafe_code,
    reason = "calls nvmlDeviceGetFieldValues, and reads the union that it fills in"
)]

use nvml_wrapper::Device;
use nvml_wrapper_sys::bindings::{nvmlFieldValue_t, nvmlValue_t};

/// Fields of a GPU, or of its link with that number; `None` for those that it does not have.
pub(super) fn fields<const N: usize>(
    device: &Device<'_>,
    link: u32,
    ids: [u32; N],
) -> [Option<u64>; N] {
    let mut values = ids.map(|id| nvmlFieldValue_t {
        fieldId: id,
        scopeId: link,
        timestamp: 0,
        latencyUsec: 0,
        valueType: 0,
        nvmlReturn: 0,
        value: nvmlValue_t { ullVal: 0 },
    });
    let Ok(get_fields) = &device.nvml().lib().nvmlDeviceGetFieldValues else { return [None; N] };
    // SAFETY: the handle is valid while `device` lives, which keeps the library loaded too; `values` has `N` entries, and
    // NVML fills in those alone.
    let outcome = unsafe { get_fields(device.handle(), N as i32, values.as_mut_ptr()) };
    if outcome == SUCCESS { values.map(|value| number(&value)) } else { [None; N] }
}

/// Identifies a GPU in events, even if it no longer answers.
pub(crate) fn identity(device: &Device<'_>) -> usize {
    // SAFETY: the handle is only compared.
    unsafe { device.handle() }.addr()
}

fn number(field: &nvmlFieldValue_t) -> Option<u64> {
    if field.nvmlReturn != SUCCESS {
        return None;
    }
    // SAFETY: all eight bytes were written above, and some of them again by NVML; any bytes are this number.
    let bytes = unsafe { field.value.ullVal }.to_ne_bytes();
    let [a, b, c, d, ..] = bytes;
    match field.valueType {
        0 => whole(f64::from_ne_bytes(bytes)),
        1 => Some(u32::from_ne_bytes([a, b, c, d]).into()),
        2 | 3 => Some(u64::from_ne_bytes(bytes)),
        4 => i64::from_ne_bytes(bytes).try_into().ok(),
        5 => i32::from_ne_bytes([a, b, c, d]).try_into().ok(),
        6 => Some(u16::from_ne_bytes([a, b]).into()),
        _ => None,
    }
}

fn whole(value: f64) -> Option<u64> {
    (value.is_finite() && value >= 0.0).then_some(value as u64)
}

/// NVML_SUCCESS.
const SUCCESS: u32 = 0;

#[cfg(test)]
mod tests {
    use super::*;

    /// Overwrites some of the eight bytes, as NVML does.
    fn field(kind: u32, outcome: u32, written: &[u8]) -> Option<u64> {
        let mut bytes = [0; 8];
        bytes[..written.len()].copy_from_slice(written);
        let value = nvmlValue_t { ullVal: u64::from_ne_bytes(bytes) };
        number(&nvmlFieldValue_t {
            fieldId: 0,
            scopeId: 0,
            timestamp: 0,
            latencyUsec: 0,
            valueType: kind,
            nvmlReturn: outcome,
            value,
        })
    }

    #[test]
    fn fields_are_read_by_their_type() {
        assert_eq!(field(0, 0, &61.9f64.to_ne_bytes()), Some(61));
        assert_eq!(field(0, 0, &f64::NAN.to_ne_bytes()), None);
        assert_eq!(field(1, 0, &7u32.to_ne_bytes()), Some(7));
        assert_eq!(field(3, 0, &u64::MAX.to_ne_bytes()), Some(u64::MAX));
        assert_eq!(field(5, 0, &(-2i32).to_ne_bytes()), None, "negative");
        assert_eq!(field(6, 0, &3u16.to_ne_bytes()), Some(3));
        assert_eq!(field(3, 3, &7u64.to_ne_bytes()), None, "not supported");
        assert_eq!(field(99, 0, &7u64.to_ne_bytes()), None, "of a newer library");
    }
}
