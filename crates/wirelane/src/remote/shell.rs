//! Where commands run: on another host by ssh, or on this one.

use std::process::Command;

use crate::exit::Failure;

/// A shell on a host, not started yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shell {
    host: String,
    is_here: bool,
}

impl Shell {
    /// By a name that ssh knows: of a host, of its configuration, or `USER@HOST`. This machine itself needs no ssh.
    pub(crate) fn on(host: &str) -> Result<Self, Failure> {
        // Not an option of ssh, and nothing that a shell would read.
        let odd = |letter: char| letter.is_whitespace() || letter.is_control();
        if host.is_empty() || host.starts_with('-') || host.contains(odd) {
            return Err(Failure::usage(format!("{host:?} is no host's name")));
        }
        let own = rustix::system::uname();
        let is_own = own.nodename().to_str().is_ok_and(|own| own == host);
        let is_here = is_own || ["localhost", "127.0.0.1", "::1"].contains(&host);
        Ok(Shell { host: host.to_owned(), is_here })
    }

    /// The host, as it was named.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Whether it is this machine.
    pub(crate) fn is_here(&self) -> bool {
        self.is_here
    }

    /// What runs a script there. `options` are for ssh, each as `-o` takes it.
    pub(crate) fn command(&self, options: &[&str], script: &str) -> Command {
        if self.is_here {
            let mut shell = Command::new("sh");
            shell.args(["-c", script]);
            return shell;
        }
        let mut ssh = Command::new("ssh");
        for option in ["BatchMode=yes", "ConnectTimeout=5"].iter().chain(options) {
            ssh.args(["-o", option]);
        }
        ssh.args(["--", &self.host, script]);
        ssh
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_name_never_reaches_ssh() {
        for odd in ["", "-oProxyCommand=x", "a b", "a\nb", "\u{7}"] {
            assert!(Shell::on(odd).is_err(), "{odd:?}");
        }
    }

    #[test]
    fn this_machine_needs_no_ssh() {
        assert!(Shell::on("localhost").is_ok_and(|shell| shell.is_here()));
        let there = Shell::on("me@node2").expect("a name");
        let command = there.command(&["ServerAliveInterval=5"], "true");
        let words: Vec<_> = command.get_args().filter_map(|word| word.to_str()).collect();
        let expected =
            "-o BatchMode=yes -o ConnectTimeout=5 -o ServerAliveInterval=5 -- me@node2 true";
        assert_eq!((there.is_here(), words.join(" ").as_str()), (false, expected));
    }
}
