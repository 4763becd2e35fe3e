//! The comparisons of the store, with their target ratios.

use serde_json::Value;

use super::super::pack::Pack;
use super::super::tools::{Cpus, perf, perftest};
use super::comparison::{Better, Candidate, Comparison, OURS, Peer};
use super::disk::{self, Data};
use super::generator::Dialect;
use super::load::{Load, benchmark_name, checked_name};
use super::mooncake_store::MooncakeStore;
use super::server::Server;
use super::wirelane::{self, Bench};
use super::{KvArgs, busy, copy, idle, memcached, memory, mooncake, redis};
use crate::Failure;

#[derive(Clone, Copy)]
pub(super) enum Plan {
    SameHost {
        size: usize,
        depth: usize,
    },
    Tcp {
        depth: usize,
    },
    /// Values that together exceed every cache.
    Gigabyte {
        transport: &'static str,
    },
    ManyClients {
        transport: &'static str,
    },
    /// Beside Mooncake Store, which is not in an archive: its packages are too large.
    Mooncake {
        size: usize,
    },
    Tail,
    Busy,
    Memory,
    Idle,
    Durable {
        clients: usize,
    },
    Restart,
    Cold,
    Verbs,
}

pub(super) fn on_the_host() -> Vec<Plan> {
    let sizes = [64, 4 << 10, 64 << 10, 1 << 20];
    let same_host =
        sizes.iter().flat_map(|&size| [1, 16].map(|depth| Plan::SameHost { size, depth }));
    let tcp = [1, 16].map(|depth| Plan::Tcp { depth });
    let transports = ["shm", "tcp"];
    let large = transports.map(|transport| Plan::Gigabyte { transport });
    let many = transports.map(|transport| Plan::ManyClients { transport });
    let sizes = if Pack::current().is_some() { &[][..] } else { &[4 << 10, 64 << 10, 1 << 20] };
    let mooncake = sizes.iter().map(|&size| Plan::Mooncake { size });
    let others = [Plan::Tail, Plan::Busy, Plan::Memory, Plan::Idle];
    let durable = [1, 8].map(|clients| Plan::Durable { clients });
    let on_disk = [Plan::Restart, Plan::Cold];
    let in_memory = same_host.chain(tcp).chain(large).chain(many).chain(mooncake).chain(others);
    in_memory.chain(durable).chain(on_disk).collect()
}

/// Soft-RoCE in an emulated machine: only the ratio is meaningful.
pub(super) const IN_THE_LAB: [Plan; 1] = [Plan::Verbs];

impl Plan {
    pub(super) fn matches(self, only: &str) -> bool {
        self.rows().any(|name| name.contains(only))
    }

    /// The names of its rows.
    pub(super) fn rows(self) -> impl Iterator<Item = String> {
        self.measures().iter().map(move |measure| format!("{measure} {}", self.name()))
    }

    pub(super) fn run(self, args: &KvArgs) -> Result<Vec<Value>, Failure> {
        match self {
            Plan::SameHost { size, depth } => self.same_host(size, depth, args),
            Plan::Tcp { depth } => self.tcp(depth, args),
            Plan::Gigabyte { transport } => self.gigabyte(transport, args),
            Plan::ManyClients { transport } => self.many_clients(transport, args),
            Plan::Mooncake { size } => self.mooncake(size, args),
            Plan::Tail => self.tail(args),
            Plan::Busy => self.busy(args),
            Plan::Memory => self.memory(args),
            Plan::Idle => self.idle(args),
            Plan::Durable { clients } => self.durable(clients, args),
            Plan::Restart => self.restart(args),
            Plan::Cold => self.cold(args),
            Plan::Verbs => self.verbs(args),
        }
    }

    fn name(self) -> String {
        match self {
            Plan::SameHost { size, depth } => {
                format!("{}, same host, {}", size_text(size), in_flight(depth))
            }
            Plan::Tcp { depth } => format!("4 KiB, tcp, {}", in_flight(depth)),
            Plan::Gigabyte { transport } => {
                format!("1 MiB, {transport}, out of 1 GB, sixteen in flight")
            }
            Plan::ManyClients { transport } => {
                format!("4 KiB, {transport}, eight clients, sixteen in flight each, all CPUs")
            }
            Plan::Mooncake { size } => {
                format!("{}, tcp, sixteen in flight, all CPUs", size_text(size))
            }
            Plan::Tail => {
                "64 KiB, same host, eight clients, sixteen in flight each, all CPUs".to_owned()
            }
            Plan::Busy => "4 KiB, same host, one at a time, both CPUs busy".to_owned(),
            Plan::Memory => "of a million values of 100 bytes".to_owned(),
            Plan::Idle => "CPU time in 10 s".to_owned(),
            Plan::Durable { clients: 1 } => "4 KiB, durable, sixteen in flight".to_owned(),
            Plan::Durable { clients } => {
                format!("4 KiB, durable, {clients} clients, sixteen in flight each")
            }
            Plan::Restart => "a million keys, after a kill, to the first answer".to_owned(),
            Plan::Cold => "4 KiB, not in memory, one at a time".to_owned(),
            Plan::Verbs => "64 KiB, verbs, sixteen in flight".to_owned(),
        }
    }

    fn measures(self) -> &'static [&'static str] {
        match self {
            Plan::SameHost { .. } | Plan::Tcp { .. } | Plan::ManyClients { .. } => &["GET", "PUT"],
            Plan::Gigabyte { .. }
            | Plan::Mooncake { .. }
            | Plan::Busy
            | Plan::Verbs
            | Plan::Cold => &["GET"],
            Plan::Tail => &["p99 of GET"],
            Plan::Durable { .. } => &["PUT"],
            Plan::Restart => &["start"],
            Plan::Memory => &["memory"],
            Plan::Idle => &["idle"],
        }
    }

    fn same_host(self, size: usize, depth: usize, args: &KvArgs) -> Result<Vec<Value>, Failure> {
        let (redis, memcached) = (redis::start()?, memcached::start()?);
        let ours = ours(args, wirelane::MEMORY)?;
        let load = Load { size, depth };
        let mut comparison = self.comparison("1/s", Better::More);
        // More operations for ours, so that a run is not too short.
        let bench =
            Bench { transport: "shm", size, depth, ops: load.ops() * 10, device: None, clients: 1 };
        comparison.candidates.extend(ours.iter().map(|ours| bench.candidate(ours)));
        comparison.candidates.extend(load.redis(&redis));
        comparison.candidates.push(load.checked("memcached", Dialect::Memcached, &memcached));
        if depth > 1 {
            comparison.candidates.push(load.redis_benchmark(&redis, depth));
            let programs = vec![benchmark_name(depth, depth)];
            comparison.peers.push(Peer { name: "Redis with 16 clients", programs, aim: None });
        }
        let aim = match (size, depth) {
            (4096, 1) => Some(20.0),
            (4096, 16) => Some(10.0),
            _ => None,
        };
        comparison.peers.insert(0, load.redis_peer(aim));
        let programs = vec![checked_name("memcached")];
        comparison.peers.push(Peer { name: "memcached", programs, aim: None });
        comparison.run(args.runs)
    }

    fn tcp(self, depth: usize, args: &KvArgs) -> Result<Vec<Value>, Failure> {
        let redis = redis::start()?;
        let ours = ours(args, wirelane::MEMORY)?;
        let load = Load { size: 4096, depth };
        let mut comparison = self.comparison("1/s", Better::More);
        let ops = load.ops() * 3;
        let bench = Bench { transport: "tcp", size: 4096, depth, ops, device: None, clients: 1 };
        comparison.candidates.extend(ours.iter().map(|ours| bench.candidate(ours)));
        comparison.candidates.extend(load.redis(&redis));
        let aim = if depth == 1 { 2.5 } else { 3.0 };
        comparison.peers.push(load.redis_peer(Some(aim)));
        comparison.run(args.runs)
    }

    /// Our bench reads a thousand keys. What it reads over shared memory is copied once. Nothing that is compared with it looks at
    /// the bytes, so our bench compares only the ends of each value; a second row has the rate at which it compares all.
    fn gigabyte(self, transport: &'static str, args: &KvArgs) -> Result<Vec<Value>, Failure> {
        let ours = ours(args, wirelane::MEMORY)?;
        let mut comparison = self.comparison("MB/s", Better::More);
        let (size, depth, ops) = (1 << 20, 16, 8000);
        let bench = Bench { transport, size, depth, ops, device: None, clients: 1 };
        comparison.candidates.extend(
            ours.iter().map(|ours| Candidate::new(OURS, move || bench.get_bandwidth_unread(ours))),
        );
        comparison.candidates.extend(ours.iter().map(|ours| {
            Candidate::new("wirelane, its client compares all bytes", move || {
                bench.get_bandwidth(ours)
            })
        }));
        if transport == "shm" {
            let copy = move || copy::measure(1 << 30, size, ops);
            comparison.add_peer("one core's copy", "copy", copy, Some(0.9));
        } else {
            let lane = || Ok(vec![perf(&["tcp", "write_bw_1g", "1048576", "8000"])?]);
            comparison.add_peer("the bare lane", "the bare lane", lane, Some(0.85));
        }
        comparison.run(args.runs)
    }

    /// Neither servers nor clients are bound to a CPU.
    fn many_clients(self, transport: &'static str, args: &KvArgs) -> Result<Vec<Value>, Failure> {
        let (size, depth, clients) = (4096, 16, 8);
        let redis = redis::start_on(Cpus::All, clients)?;
        let start = || wirelane::start_on_all_cpus(wirelane::MEMORY);
        let ours = (!args.peers_only).then(start).transpose()?;
        let mut comparison = self.comparison("1/s", Better::More);
        let load = Load { size, depth };
        let one = Bench { transport, size, depth, ops: load.ops() * 5, device: None, clients: 1 };
        let all = Bench { ops: one.ops * clients, clients, ..one };
        comparison.candidates.extend(ours.iter().map(|ours| all.candidate(ours)));
        let eightfold = "wirelane, one client, times eight";
        comparison.candidates.extend(ours.iter().map(|ours| {
            Candidate::new(eightfold, move || {
                Ok(one.get_and_put(ours)?.iter().map(|rate| rate * clients as f64).collect())
            })
        }));
        let programs = vec![eightfold.to_owned()];
        comparison.peers.push(Peer { name: "one client, times eight", programs, aim: None });
        let (redis, ops) = (&redis, load.ops());
        let threads = move || redis::benchmark(redis, (clients, clients), depth, size, ops);
        let program = "redis-benchmark -c 8 -P 16 --threads 8, as many threads of the server";
        comparison.add_peer("Redis", program, threads, None);
        comparison.run(args.runs)
    }

    /// Of 64 MiB of values; both clients compare the ends of each.
    fn mooncake(self, size: usize, args: &KvArgs) -> Result<Vec<Value>, Failure> {
        let keys = ((64 << 20) / size).min(1000);
        let theirs = MooncakeStore::start()?;
        let start = || wirelane::start_on_all_cpus(wirelane::MEMORY);
        let ours = (!args.peers_only).then(start).transpose()?;
        let mut comparison = self.comparison("1/s", Better::More);
        let (depth, reads) = (16, ((4 << 30) / size).clamp(4000, 20_000));
        let ops = reads * 4;
        let bench = Bench { transport: "tcp", size, depth, ops, device: None, clients: 1 };
        comparison
            .candidates
            .extend(ours.iter().map(|ours| {
                Candidate::new(OURS, move || Ok(vec![bench.rate_unread(ours, keys)?]))
            }));
        let store = &theirs;
        let gets = move || store.gets(size, keys, reads);
        let aim = if size > 64 << 10 { 1.4 } else { 2.0 };
        comparison.add_peer("Mooncake Store", "Mooncake Store, batch_get_into", gets, Some(aim));
        comparison.run(args.runs)
    }

    fn tail(self, args: &KvArgs) -> Result<Vec<Value>, Failure> {
        let start = || wirelane::start_on_all_cpus(wirelane::MEMORY);
        let ours = (!args.peers_only).then(start).transpose()?;
        let mut comparison = self.comparison("ms", Better::Less);
        comparison.limit = Some(1.0);
        let (size, depth, clients) = (64 << 10, 16, 8);
        let bench = Bench { transport: "shm", size, depth, ops: 200_000, device: None, clients };
        let tail = |ours| Candidate::new(OURS, move || bench.get_tail(ours));
        comparison.candidates.extend(ours.iter().map(tail));
        comparison.run(args.runs)
    }

    /// Beside a loop on each of the two CPUs.
    fn busy(self, args: &KvArgs) -> Result<Vec<Value>, Failure> {
        let redis = redis::start()?;
        let ours = ours(args, wirelane::MEMORY)?;
        let _loops = busy::start()?;
        let load = Load { size: 4096, depth: 1 };
        let mut comparison = self.comparison("1/s", Better::More);
        let (size, depth, ops) = (load.size, load.depth, load.ops() * 5);
        let bench = Bench { transport: "shm", size, depth, ops, device: None, clients: 1 };
        comparison.candidates.extend(
            ours.iter().map(|ours| {
                Candidate::new(OURS, move || Ok(vec![bench.rate_of(ours, "1.0", 1000)?]))
            }),
        );
        comparison.candidates.push(load.redis_benchmark(&redis, 1));
        let programs = vec![benchmark_name(1, 1)];
        comparison.peers.push(Peer { name: "Redis", programs, aim: Some(5.0) });
        comparison.run(args.runs)
    }

    /// One round: the result does not vary.
    fn memory(self, args: &KvArgs) -> Result<Vec<Value>, Failure> {
        let mut comparison = self.comparison("MB", Better::Less);
        if !args.peers_only {
            comparison.candidates.push(Candidate::new(OURS, memory::wirelane));
        }
        let programs = ["redis-server, resident", "redis-server, used_memory"];
        let counts = [Server::resident, redis::used_memory];
        for (program, count) in programs.into_iter().zip(counts) {
            comparison.candidates.push(Candidate::new(program, move || memory::redis(count)));
        }
        let programs = programs.map(str::to_owned).to_vec();
        comparison.peers.push(Peer { name: "Redis", programs, aim: Some(1.0) });
        comparison.add_peer("memcached", "memcached, resident", memory::memcached, None);
        comparison.run(1)
    }

    /// One tick may belong to the time before, and is accepted.
    fn idle(self, args: &KvArgs) -> Result<Vec<Value>, Failure> {
        let mut comparison = self.comparison("ticks of 10 ms", Better::Less);
        comparison.limit = Some(1.0);
        if !args.peers_only {
            comparison.candidates.push(Candidate::new(OURS, idle::wirelane));
        }
        comparison.candidates.push(Candidate::new("redis-server", idle::redis));
        comparison.candidates.push(Candidate::new("memcached", idle::memcached));
        comparison.run(1)
    }

    /// Every write is synced before it is acknowledged.
    fn durable(self, clients: usize, args: &KvArgs) -> Result<Vec<Value>, Failure> {
        let data = Data::new()?;
        let servers = [data.redis()?, data.redis_without_rewrites()?];
        let ours = (!args.peers_only).then(|| data.wirelane("1GiB")).transpose()?;
        let mut comparison = self.comparison("1/s", Better::More);
        let (size, depth, keys) = (4096, 16, 20_000);
        // So many that the logs of both are compacted meanwhile, or rewritten.
        let ops = 200_000 * clients.clamp(1, 2);
        for (name, transport) in [(OURS, "shm"), ("wirelane, tcp", "tcp")] {
            let bench = Bench { transport, size, depth, ops, device: None, clients };
            comparison.candidates.extend(ours.iter().map(|ours| {
                Candidate::new(name, move || Ok(vec![bench.rate_of(ours, "0.0", keys)?]))
            }));
        }
        let aim = if clients == 1 { 1.3 } else { 1.1 };
        let peers = [("Redis", Some(aim)), ("Redis, its log never rewritten", None)];
        for ((name, aim), server) in peers.into_iter().zip(&servers) {
            let program = format!("{}, {name}", benchmark_name(clients, depth));
            comparison.candidates.push(Candidate::new(program.clone(), move || {
                redis::sets(server, clients, depth, size, (ops, keys))
            }));
            comparison.peers.push(Peer { name, programs: vec![program], aim });
        }
        comparison.run(args.runs)
    }

    fn restart(self, args: &KvArgs) -> Result<Vec<Value>, Failure> {
        let data = Data::new()?;
        let mut comparison = self.comparison("s", Better::Less);
        comparison.limit = Some(2.0);
        if !args.peers_only {
            comparison.candidates.push(Candidate::new(OURS, || disk::restart(&data)));
        }
        comparison.run(args.runs)
    }

    /// The database and the files are in the page cache, and nothing is in our memory.
    fn cold(self, args: &KvArgs) -> Result<Vec<Value>, Failure> {
        let data = Data::new()?;
        let ours = (!args.peers_only).then(|| data.wirelane(disk::SMALL_MEMORY)).transpose()?;
        let mut comparison = self.comparison("1/s", Better::More);
        let gets = |ours| Candidate::new(OURS, move || disk::cold_gets(ours));
        comparison.candidates.extend(ours.iter().map(gets));
        comparison.add_peer("files", "open, pread, close", || disk::file_reads(&data), Some(0.4));
        comparison.run(args.runs)
    }

    fn verbs(self, args: &KvArgs) -> Result<Vec<Value>, Failure> {
        let ours = match args.peers_only {
            true => None,
            false => Some(wirelane::start_on("256MiB", Some("rxe1"))?),
        };
        let mooncake = args.inside.as_deref().ok_or("verbs run only in the lab")?;
        let mut comparison = self.comparison("MB/s", Better::More);
        let bench = Bench {
            transport: "verbs",
            size: 64 << 10,
            depth: 16,
            ops: 1000,
            device: Some("rxe0"),
            clients: 1,
        };
        comparison.candidates.extend(ours.iter().map(|ours| bench.bandwidth_candidate(ours)));
        let perftest = || Ok(vec![perftest("ib_write_bw", 64 << 10, 1000)?]);
        comparison.add_peer("ib_write_bw", "ib_write_bw", perftest, Some(0.8));
        let operations = ["read", "write"];
        for operation in operations {
            let run = move || mooncake::bandwidth(mooncake, operation);
            comparison.candidates.push(Candidate::new(mooncake_name(operation), run));
        }
        let programs = operations.map(mooncake_name).to_vec();
        comparison.peers.push(Peer { name: "Mooncake", programs, aim: Some(2.0) });
        comparison.run(args.runs)
    }

    fn comparison<'a>(self, unit: &'static str, better: Better) -> Comparison<'a> {
        let (candidates, peers) = (Vec::new(), Vec::new());
        let (name, measures) = (self.name(), self.measures());
        Comparison { name, measures, unit, better, candidates, peers, limit: None }
    }
}

impl<'a> Comparison<'a> {
    /// A peer with one program.
    fn add_peer(
        &mut self,
        name: &'static str,
        program: &str,
        run: impl Fn() -> Result<Vec<f64>, Failure> + 'a,
        aim: Option<f64>,
    ) {
        self.candidates.push(Candidate::new(program, run));
        self.peers.push(Peer { name, programs: vec![program.to_owned()], aim });
    }
}

impl Bench {
    fn candidate(self, server: &Server) -> Candidate<'_> {
        Candidate::new(OURS, move || self.get_and_put(server))
    }

    fn bandwidth_candidate(self, server: &Server) -> Candidate<'_> {
        Candidate::new(OURS, move || self.get_bandwidth(server))
    }
}

fn ours(args: &KvArgs, memory: &str) -> Result<Option<Server>, Failure> {
    (!args.peers_only).then(|| wirelane::start_with(memory, &[])).transpose()
}

fn mooncake_name(operation: &str) -> String {
    format!("transfer_engine_bench, {operation}")
}

fn in_flight(depth: usize) -> &'static str {
    if depth == 1 { "one at a time" } else { "sixteen in flight" }
}

fn size_text(size: usize) -> String {
    match size {
        ..1024 => format!("{size} B"),
        1024..1_048_576 => format!("{} KiB", size >> 10),
        _ => format!("{} MiB", size >> 20),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_selected_by_any_part_of_their_names() {
        let plan = Plan::SameHost { size: 4096, depth: 16 };
        assert!(plan.matches("GET 4 KiB, same host, sixteen in flight"));
        assert!(plan.matches("PUT 4"));
        assert!(plan.matches(""));
        assert!(!plan.matches("64 KiB"));
        assert!(Plan::Memory.matches("memory"));
    }
}
