//! Hosts of a job: `node1:4,node2:4`.

use std::str::FromStr;

/// Hosts, each with its number of processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::commands::bench) struct Hosts(Vec<(String, u32)>);

impl FromStr for Hosts {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || "expected hosts with their number of GPUs, such as node1:4,node2:4".to_owned();
        let host = |word: &str| {
            let (name, count) = word.split_once(':').unwrap_or((word, "1"));
            let fits = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
            let named = !name.is_empty() && !name.starts_with('-') && name.chars().all(fits);
            let count = count.parse().ok().filter(|count| (1..=MAX_PROCESSES).contains(count));
            count.filter(|_| named).map(|count| (name.to_owned(), count)).ok_or_else(wrong)
        };
        text.split(',').map(|word| host(word.trim())).collect::<Result<_, _>>().map(Hosts)
    }
}

impl Hosts {
    /// Total number of processes.
    pub(super) fn ranks(&self) -> u32 {
        self.0.iter().map(|(_, count)| count).sum()
    }

    /// The value of Open MPI's `--host`.
    pub(super) fn slots(&self) -> String {
        let hosts = self.0.iter().map(|(name, count)| format!("{name}:{count}"));
        hosts.collect::<Vec<_>>().join(",")
    }

    /// The host of rank 0.
    pub(in crate::commands::bench) fn first(&self) -> &str {
        self.0.first().map_or("", |(name, _)| name)
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.0.iter().map(|(name, _)| name.clone()).collect()
    }
}

/// Maximum number of processes on a host.
const MAX_PROCESSES: u32 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_parsed() {
        let hosts: Hosts = "node1:4,10.0.0.2:2,node-3".parse().expect("hosts");
        assert_eq!((hosts.ranks(), hosts.slots().as_str()), (7, "node1:4,10.0.0.2:2,node-3:1"));
        for wrong in ["", "a:", "a:0", "a:x", ",a", "-x:1", "a b:1", "a;reboot:1", "a:5000"] {
            assert!(wrong.parse::<Hosts>().is_err(), "{wrong}");
        }
    }
}
