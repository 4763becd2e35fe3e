//! Clients that work, each a process, and what they say of it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::sample::Times;
use super::server::{Server, bound};
use crate::{Failure, shell};

/// What clients have done since that was last asked.
#[derive(Default)]
pub(super) struct Results {
    pub(super) times: Times,
    pub(super) verified: u64,
    pub(super) unknown: u64,
    pub(super) errors: u64,
    pub(super) first_error: Option<String>,
}

/// One client; it ends with its owner.
pub(super) struct Client {
    child: Child,
    done: Arc<Mutex<Results>>,
}

/// Clients that nobody disturbs.
pub(super) struct LoadClients {
    clients: Vec<Client>,
    errors: Vec<String>,
}

impl Client {
    pub(super) fn start(server: &str, transport: &str, seed: u64) -> Result<Self, Failure> {
        Client::start_with(server, transport, seed, &[])
    }

    /// The same, told more.
    pub(super) fn start_with(
        server: &str,
        transport: &str,
        seed: u64,
        more: &[&str],
    ) -> Result<Self, Failure> {
        let mut command = bound(shell::target().join("release/examples/load"));
        command.args([server, transport, &seed.to_string()]).args(more);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("start a client: {error}"))?;
        let done = Arc::new(Mutex::new(Results::default()));
        let (told, said) = (done.clone(), child.stdout.take().ok_or("a client says nothing")?);
        std::thread::spawn(move || {
            for line in BufReader::new(said).lines().map_while(Result::ok) {
                told.lock().unwrap_or_else(PoisonError::into_inner).add(&line);
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

    /// Whether it ended by itself, which none should.
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

    /// What all of them did since the last time.
    pub(super) fn take(&mut self) -> Results {
        let mut all = Results::default();
        for (number, client) in self.clients.iter_mut().enumerate() {
            let done = client.take();
            self.errors
                .extend(done.first_error.clone().map(|why| format!("client {number}: {why}")));
            if client.has_ended() {
                self.errors.push(format!("client {number} ended by itself"));
            }
            all.merge(done);
        }
        all
    }

    /// Ends all of them; what went wrong with any.
    pub(super) fn end(&mut self) -> Vec<String> {
        // Their last lines.
        std::thread::sleep(Duration::from_millis(100));
        let last = self.take();
        self.clients.clear();
        if last.unknown > 0 {
            self.errors.push("writes of nobody knows what became of them".to_owned());
        }
        std::mem::take(&mut self.errors)
    }
}

impl Results {
    /// A line of a client's: values that were right, unknown outcomes, errors, times, and the first error.
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
