//! Interrupts of a device: on CPUs of its own NUMA node.

/// Whether all CPUs of an interrupt's affinity are local to the device; both are lists as the kernel writes them, `0-3,8`.
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
    fn cpu_lists_are_compared_as_sets() {
        assert!(are_near("1,3-4", "0-7"));
        assert!(are_near("0-7", "0-3,4-7"));
        assert!(!are_near("0-8", "0-7"));
        assert!(!are_near("", "0-7"));
        assert!(are_near("32", "0-15,32-47"));
    }
}
