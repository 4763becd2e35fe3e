//! A shell on a host: by ssh, by srun inside a Slurm allocation, or on this machine.

use std::process::Command;

use jobs::inventory::Allocation;

use super::error::Error;

/// A shell on a host, not started yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shell {
    host: String,
    runner: Runner,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Runner {
    /// This machine.
    Local,
    Ssh,
    /// A host of our own allocation, with this job id: ssh may be forbidden there, and its processes would
    /// not belong to the job.
    Srun(String),
}

impl Shell {
    /// For a name that ssh knows: a host, an entry of its configuration, or `USER@HOST`. This machine and
    /// hosts of our own allocation need no ssh.
    pub fn on(host: &str) -> Result<Self, Error> {
        Shell::within(host, Allocation::of(|name| std::env::var(name).ok()))
    }

    fn within(host: &str, allocation: Option<Allocation>) -> Result<Self, Error> {
        // Neither an option of ssh, nor special to a shell.
        let odd = |letter: char| letter.is_whitespace() || letter.is_control();
        if host.is_empty() || host.starts_with('-') || host.contains(odd) {
            return Err(Error::InvalidHost(host.to_owned()));
        }
        let own = rustix::system::uname();
        let is_own = own.nodename().to_str().is_ok_and(|own| own == host);
        let runner = match allocation.filter(|allocation| allocation.has(host)) {
            _ if is_own || ["localhost", "127.0.0.1", "::1"].contains(&host) => Runner::Local,
            Some(allocation) => Runner::Srun(allocation.job),
            None => Runner::Ssh,
        };
        Ok(Shell { host: host.to_owned(), runner })
    }

    /// The host's name, as it was given.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Whether the host is this machine.
    pub fn is_local(&self) -> bool {
        self.runner == Runner::Local
    }

    /// Whether ssh is used.
    pub fn is_ssh(&self) -> bool {
        self.runner == Runner::Ssh
    }

    /// The program that starts commands there.
    pub fn program(&self) -> &'static str {
        match self.runner {
            Runner::Local => "sh",
            Runner::Ssh => "ssh",
            Runner::Srun(_) => "srun",
        }
    }

    /// A command to test by hand whether commands run there.
    pub fn test_command(&self) -> String {
        match self.runner {
            Runner::Local => "sh -c true".to_owned(),
            Runner::Ssh => format!("ssh {} true", self.host),
            Runner::Srun(_) => format!("srun --overlap -N 1 -w {} true", self.host),
        }
    }

    /// The command that runs a script there. `options` are `-o` options for ssh.
    pub fn command(&self, options: &[&str], script: &str) -> Command {
        let mut command = Command::new(self.program());
        match &self.runner {
            Runner::Local => _ = command.args(["-c", script]),
            Runner::Ssh => {
                for option in ["BatchMode=yes", "ConnectTimeout=5"].iter().chain(options) {
                    command.args(["-o", option]);
                }
                command.args(["--", &self.host, script]);
            }
            Runner::Srun(job) => {
                command.args(SRUN);
                command.args([format!("--jobid={job}"), format!("--nodelist={}", self.host)]);
                command.args(["sh", "-c", script]);
            }
        }
        command
    }

    /// A script that replaces ssh for launchers that connect to hosts themselves, called with a host and a command. `None` if ssh
    /// can be used.
    pub fn ssh_replacement(&self) -> Option<String> {
        let Runner::Srun(job) = &self.runner else { return None };
        let options = SRUN.join(" ");
        Some(format!(
            "host=$1; shift\nexec srun {options} --jobid={job} --nodelist=\"$host\" sh -c \"$*\"\n"
        ))
    }
}

/// Shares the host with running steps, and gets all of the job's resources: the supervisor's children are the job.
const SRUN: [&str; 7] = [
    "--overlap",
    "--nodes=1",
    "--ntasks=1",
    "--cpu-bind=none",
    "--mpi=none",
    "--unbuffered",
    "--quiet",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn line(command: &Command) -> String {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        words.filter_map(|word| word.to_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn invalid_host_names_are_refused() {
        for odd in ["", "-oProxyCommand=x", "a b", "a\nb", "\u{7}"] {
            assert!(Shell::on(odd).is_err(), "{odd:?}");
        }
    }

    #[test]
    fn this_machine_needs_no_ssh() {
        assert!(Shell::on("localhost").is_ok_and(|shell| shell.is_local()));
        let there = Shell::within("me@node2", None).expect("a name");
        let command = there.command(&["ServerAliveInterval=5"], "true");
        let expected =
            "ssh -o BatchMode=yes -o ConnectTimeout=5 -o ServerAliveInterval=5 -- me@node2 true";
        assert_eq!((there.is_local(), line(&command).as_str()), (false, expected));
    }

    #[test]
    fn hosts_of_the_allocation_are_reached_by_srun() {
        let variables = [("SLURM_JOB_ID", "17"), ("SLURM_JOB_NODELIST", "gpu[001-002]")];
        let get = |name: &str| {
            let (_, value) = variables.iter().find(|(variable, _)| *variable == name)?;
            Some((*value).to_owned())
        };
        let on = |host| Shell::within(host, Allocation::of(get)).expect("a name");
        let inside = line(&on("gpu002").command(&["ServerAliveInterval=5"], "true"));
        assert!(inside.starts_with("srun --overlap"), "{inside}");
        assert!(inside.ends_with("--jobid=17 --nodelist=gpu002 sh -c true"), "{inside}");
        assert_eq!((on("gpu003").program(), on("gpu003").ssh_replacement()), ("ssh", None));
        let ssh_replacement = on("gpu002").ssh_replacement().expect("a script");
        assert!(
            ssh_replacement.ends_with("--jobid=17 --nodelist=\"$host\" sh -c \"$*\"\n"),
            "{ssh_replacement}"
        );
        assert_eq!(on("localhost").program(), "sh");
    }
}
