//! Load clients, each a process, and their results.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::sample::Times;
use super::server::{Server, killed_with_us};
use crate::{Failure, shell};

/// Results of clients since the last call.
#[derive(Default)]
pub(super) struct Results {
    pub(super) times: Times,
    pub(super) verified: u64,
    pub(super) unknown: u64,
    pub(super) errors: u64,
    pub(super) first_error: Option<String>,
}

/// One client, killed on drop.
pub(super) struct Client {
    child: Child,
    done: Arc<Mutex<Results>>,
}

/// The undisturbed clients.
pub(super) struct LoadClients {
    clients: Vec<Client>,
    errors: Vec<String>,
}

impl Client {
    pub(super) fn start(server: &str, transport: &str, seed: u64) -> Result<Self, Failure> {
        Client::start_with(server, transport, seed, &[])
    }

    /// The same, with more arguments.
    pub(super) fn start_with(
        server: &str,
        transport: &str,
        seed: u64,
        more: &[&str],
    ) -> Result<Self, Failure> {
        let mut command = killed_with_us(shell::target().join("release/examples/load"));
        command.args([server, transport, &seed.to_string()]).args(more);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("start a client: {error}"))?;
        let done = Arc::new(Mutex::new(Results::default()));
        let (results, stdout) = (done.clone(), child.stdout.take().ok_or("no stdout of a client")?);
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                results.lock().unwrap_or_else(PoisonError::into_inner).add(&line);
            }
        });
        Ok(Client { child, done })
    }

    pub(super) fn take(&self) -> Results {
        std::mem::take(&mut *self.done.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A signal by its name, such as STOP.
    pub(super) fn signal(&self, name: &str) -> Result<(), Failure> {
        let pid = self.child.id().to_string();
        shell::run(Command::new("kill").args([&format!("-{name}"), &pid]))
    }

    /// Whether it exited, which is an error.
    fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl LoadClients {
    pub(super) fn start(server: &Server, count: usize) -> Result<Self, Failure> {
        let transport = |at: usize| ["shm", "tcp", "shm", "grpc"][at % 4];
        let start = |at| Client::start(&server.links, transport(at), at as u64 + 1);
        let clients = (0..count).map(start).collect::<Result<_, _>>()?;
        Ok(LoadClients { clients, errors: Vec::new() })
    }

    /// The results of all clients since the last call.
    pub(super) fn take(&mut self) -> Results {
        let mut all = Results::default();
        for (number, client) in self.clients.iter_mut().enumerate() {
            let done = client.take();
            self.errors
                .extend(done.first_error.clone().map(|why| format!("client {number}: {why}")));
            if client.has_ended() {
                self.errors.push(format!("client {number} exited"));
            }
            all.merge(done);
        }
        all
    }

    /// Kills all clients; returns their errors.
    pub(super) fn end(&mut self) -> Vec<String> {
        // For their last lines.
        std::thread::sleep(Duration::from_millis(100));
        let last = self.take();
        self.clients.clear();
        if last.unknown > 0 {
            self.errors.push("writes with an unknown outcome".to_owned());
        }
        std::mem::take(&mut self.errors)
    }
}

impl Results {
    /// Parses a client's line: verified values, unknown outcomes, errors, times, and the first error.
    fn add(&mut self, line: &str) {
        let mut words = line.splitn(5, ' ');
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
        let [verified, unknown, errors] = [number(), number(), number()];
        let times = words.next().map(Times::parse).unwrap_or_default();
        let why = words.next().filter(|why| !why.is_empty()).map(str::to_owned);
        self.merge(Results { times, verified, unknown, errors, first_error: why });
    }

    fn merge(&mut self, other: Results) {
        self.times.add(&other.times);
        self.verified += other.verified;
        self.unknown += other.unknown;
        self.errors += other.errors;
        self.first_error = self.first_error.take().or(other.first_error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_clients_add_up() {
        let mut done = Results::default();
        done.add("10 0 0 80:5,88:5 ");
        done.add("1 2 3 80:1 get \"k\": it is gone");
        assert_eq!((done.verified, done.unknown, done.errors), (11, 2, 3));
        assert_eq!(done.first_error.as_deref(), Some("get \"k\": it is gone"));
        assert_eq!(done.times.count(), 11);
    }
}
