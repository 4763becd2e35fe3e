//! The Slurm allocation that a process runs in.

use super::environment::{SLURM, slurm_hosts};

/// A Slurm allocation, from variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocation {
    /// The job ID.
    pub job: String,
    hosts: Vec<String>,
}

impl Allocation {
    /// The allocation that we run in, if any. `get` returns a variable's value.
    pub fn of(get: impl Fn(&str) -> Option<String>) -> Option<Allocation> {
        let job = get("SLURM_JOB_ID")?;
        let list = SLURM.iter().find_map(|name| get(name))?;
        let is_number = !job.is_empty() && job.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then_some(Allocation { job, hosts: slurm_hosts(&list).ok()? })
    }

    /// Whether it contains a host, by Slurm's name for it.
    pub fn has(&self, host: &str) -> bool {
        self.hosts.iter().any(|other| other == host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(job: &str, list: &str) -> Option<Allocation> {
        Allocation::of(|name| match name {
            "SLURM_JOB_ID" => Some(job.to_owned()),
            "SLURM_JOB_NODELIST" => Some(list.to_owned()),
            _ => None,
        })
    }

    #[test]
    fn it_contains_its_hosts_by_name() {
        let allocation = of("17", "gpu[001-003],login").expect("an allocation");
        assert!(allocation.has("gpu002") && allocation.has("login"));
        assert!(!allocation.has("gpu004") && !allocation.has("gpu[001-003]"));
        for (job, list) in [("", "a"), ("--help", "a"), ("17", "gpu[3-"), ("17", "n[1-99999999]")] {
            assert_eq!(of(job, list), None, "{job:?} {list:?}");
        }
        assert_eq!(Allocation::of(|_| None), None);
    }
}
