//! Hosts from the variables of a scheduler.

use super::range::{expand, words};
use super::{Host, Inventory, InventoryError, number, within_limit};

/// Where a scheduler lists the hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostSource {
    /// In the variables themselves.
    Hosts {
        /// The variable.
        variable: &'static str,
        /// The hosts.
        inventory: Inventory,
    },
    /// In a host file, whose path a variable has.
    File {
        /// The variable.
        variable: &'static str,
        /// The host file.
        path: String,
    },
}

/// The hosts of a scheduler's variables, if any are set. `get` returns a variable's value.
///
/// An indexed Kubernetes Job sets only the index of a pod (`JOB_COMPLETION_INDEX`), not the number of pods:
/// it has to set `WIRELANE_HOSTS`.
pub fn environment(
    get: impl Fn(&str) -> Option<String>,
) -> Result<Option<HostSource>, InventoryError> {
    let get = |name: &str| get(name).filter(|value| !value.trim().is_empty());
    if let Some(list) = get(OWN) {
        let inventory = Inventory::from_list(&list)?;
        return Ok(Some(HostSource::Hosts { variable: OWN, inventory }));
    }
    for variable in SLURM {
        if let Some(list) = get(variable) {
            let inventory = slurm(&list, get("SLURM_TASKS_PER_NODE"), get("SLURM_GPUS_PER_NODE"))?;
            return Ok(Some(HostSource::Hosts { variable, inventory }));
        }
    }
    let file = |variable: &&'static str| Some(HostSource::File { variable, path: get(variable)? });
    Ok(FILES.iter().find_map(file))
}

fn slurm(
    list: &str,
    tasks: Option<String>,
    gpus: Option<String>,
) -> Result<Inventory, InventoryError> {
    let mut hosts: Vec<Host> = slurm_hosts(list)?.into_iter().map(Host::named).collect();
    if let Some(tasks) = tasks {
        let tasks = tasks_per_node(&tasks)?;
        // Within a step it is for the step's hosts, which may be fewer: then it is ignored.
        let tasks = if tasks.len() == hosts.len() { tasks } else { Vec::new() };
        for (host, tasks) in hosts.iter_mut().zip(tasks) {
            host.slots = Some(tasks);
        }
    }
    let gpus = gpus.and_then(|gpus| gpus_per_node(&gpus));
    hosts.iter_mut().for_each(|host| host.gpus = gpus);
    Inventory::new(hosts)
}

/// The names in `gpu[001-032],login`.
pub(super) fn slurm_hosts(list: &str) -> Result<Vec<String>, InventoryError> {
    let mut hosts = Vec::new();
    for word in words(list) {
        hosts.extend(expand(word.trim())?);
        within_limit(hosts.len())?;
    }
    Ok(hosts)
}

/// `4(x2),3` is 4, 4 and 3: one number per host.
fn tasks_per_node(text: &str) -> Result<Vec<u32>, InventoryError> {
    let mut tasks = Vec::new();
    for word in text.split(',') {
        let repeated = word.trim().strip_suffix(')').and_then(|word| word.split_once("(x"));
        let (count, times) = repeated.unwrap_or((word.trim(), "1"));
        let (Some(count), Some(times)) = (number(count), number(times)) else {
            return Err(InventoryError::new(format!(
                "has {text:?} for tasks, which is not of the form 4(x2),3"
            )));
        };
        within_limit(tasks.len().saturating_add(times as usize))?;
        tasks.extend(std::iter::repeat_n(count, times as usize));
    }
    Ok(tasks)
}

/// `4`, `a100:4` or `a100:2,v100:2`; `None` for other forms.
fn gpus_per_node(text: &str) -> Option<u32> {
    let count = |word: &str| number(word.rsplit(':').next()?.trim());
    text.split(',').map(count).try_fold(0_u32, |sum, count| sum.checked_add(count?))
}

/// Our own variable, for other ways to start jobs.
const OWN: &str = "WIRELANE_HOSTS";
/// Variables of an allocation; the second is for older versions.
pub(super) const SLURM: [&str; 2] = ["SLURM_JOB_NODELIST", "SLURM_NODELIST"];
/// Host files: the MPI operator of Kubernetes sets the first for Open MPI, the next two for Intel MPI and MPICH.
const FILES: [&str; 4] =
    ["OMPI_MCA_orte_default_hostfile", "I_MPI_HYDRA_HOST_FILE", "HYDRA_HOST_FILE", "PBS_NODEFILE"];

#[cfg(test)]
mod tests {
    use super::*;

    fn found(variables: &[(&str, &str)]) -> Result<Option<HostSource>, InventoryError> {
        environment(|name| {
            let (_, value) = variables.iter().find(|(other, _)| *other == name)?;
            Some((*value).to_owned())
        })
    }

    fn hosts(variables: &[(&str, &str)]) -> Vec<(String, Option<u32>, Option<u32>)> {
        let Ok(Some(HostSource::Hosts { inventory, .. })) = found(variables) else {
            panic!("no hosts in {variables:?}")
        };
        inventory.hosts.into_iter().map(|host| (host.name, host.slots, host.gpus)).collect()
    }

    #[test]
    fn inside_a_slurm_allocation() {
        let job = [
            ("SLURM_JOB_NODELIST", "gpu[001-002,040]"),
            ("SLURM_TASKS_PER_NODE", "4(x2),3"),
            ("SLURM_GPUS_PER_NODE", "a100:4"),
        ];
        let expected = [("gpu001", 4), ("gpu002", 4), ("gpu040", 3)];
        let expected = expected.map(|(name, tasks)| (name.to_owned(), Some(tasks), Some(4)));
        assert_eq!(hosts(&job), expected);
        assert_eq!(hosts(&[("SLURM_NODELIST", "n1,n2")]).len(), 2);
    }

    #[test]
    fn invalid_numbers_are_refused_and_those_of_a_step_are_ignored() {
        for tasks in ["4(x", "x", "4()", "-4", "4(x4294967295)", "0(x2)"] {
            let job = [("SLURM_JOB_NODELIST", "n[1-2]"), ("SLURM_TASKS_PER_NODE", tasks)];
            assert!(found(&job).is_err(), "{tasks}");
        }
        let step = [("SLURM_JOB_NODELIST", "n[1-2]"), ("SLURM_TASKS_PER_NODE", "4")];
        assert_eq!(hosts(&step)[0], ("n1".to_owned(), None, None));
        let job = [("SLURM_JOB_NODELIST", "n1"), ("SLURM_GPUS_PER_NODE", "4294967295,1")];
        assert_eq!(hosts(&job)[0].2, None);
    }

    #[test]
    fn the_mpi_operator_has_a_host_file() {
        let job = [("OMPI_MCA_orte_default_hostfile", "/etc/mpi/hostfile")];
        let Ok(Some(HostSource::File { variable, path })) = found(&job) else { panic!("no file") };
        let expected = ("OMPI_MCA_orte_default_hostfile", "/etc/mpi/hostfile");
        assert_eq!((variable, path.as_str()), expected);
    }

    #[test]
    fn our_own_variable_comes_first_and_no_variable_is_no_hosts() {
        let job = [("WIRELANE_HOSTS", "a:2"), ("SLURM_JOB_NODELIST", "n[1-2]")];
        assert_eq!(hosts(&job), [("a".to_owned(), Some(2), None)]);
        assert_eq!(found(&[]), Ok(None));
        assert_eq!(found(&[("SLURM_JOB_NODELIST", " "), ("JOB_COMPLETION_INDEX", "0")]), Ok(None));
    }
}
