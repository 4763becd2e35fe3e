//! What a device may be called.

/// Whether a name of a file or in one is a device's, and safe in a line of a terminal and in a path.
pub(crate) fn is_name(name: &str) -> bool {
    let odd = |letter: char| letter == '/' || letter.is_control() || letter.is_whitespace();
    !name.is_empty() && name.len() < LONGEST && name != "." && name != ".." && !name.contains(odd)
}

/// As long as the kernel lets an RDMA device's name be (IB_DEVICE_NAME_MAX).
const LONGEST: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_lead_elsewhere_are_none() {
        for name in ["mlx5_0", "rocep59s0f0", "enp1s0.100", "größe"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "..", "a/b", "eth 0", "\u{1b}[31m", &"x".repeat(64)] {
            assert!(!is_name(name), "{name:?}");
        }
    }
}
