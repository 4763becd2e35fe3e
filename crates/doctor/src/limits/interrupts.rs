//! Interrupts of a device: on CPUs of its own NUMA node.

/// Whether an interrupt that may come to these CPUs comes only to those near the device; both as the kernel writes
/// them, `0-3,8`.
pub fn are_near(affinity: &str, local_cpus: &str) -> bool {
    let (Some(cpus), Some(local)) = (node::cpu_list(affinity), node::cpu_list(local_cpus)) else {
        return false;
    };
    !cpus.is_empty() && cpus.iter().all(|cpu| local.contains(cpu))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_compared_by_their_cpus() {
        assert!(are_near("1,3-4", "0-7"));
        assert!(are_near("0-7", "0-3,4-7"));
        assert!(!are_near("0-8", "0-7"));
        assert!(!are_near("", "0-7"));
        assert!(are_near("32", "0-15,32-47"));
    }
}
