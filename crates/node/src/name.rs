//! Valid device names.

/// Whether a name is valid for a device, and safe in a terminal and in a path.
pub(crate) fn is_name(name: &str) -> bool {
    let invalid = |letter: char| letter == '/' || letter.is_control() || letter.is_whitespace();
    !name.is_empty()
        && name.len() < MAX_NAME_BYTES
        && name != "."
        && name != ".."
        && !name.contains(invalid)
}

/// The kernel's limit for names of RDMA devices (IB_DEVICE_NAME_MAX).
const MAX_NAME_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_names_are_refused() {
        for name in ["mlx5_0", "rocep59s0f0", "enp1s0.100", "größe"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "..", "a/b", "eth 0", "\u{1b}[31m", &"x".repeat(64)] {
            assert!(!is_name(name), "{name:?}");
        }
    }
}
