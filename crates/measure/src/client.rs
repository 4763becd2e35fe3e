//! The client: requests measurements and runs them.

use std::net::SocketAddr;
use std::time::Duration;

use fabric::Side;
use fabric::session::{self, Credentials};

use crate::control_connection::{ControlConnection, STEP_TIMEOUT, unexpected};
use crate::end::End;
use crate::latency_recorder::LatencyRecorder;
use crate::message::{Hello, Message};
use crate::server::{CounterReader, counter_changes};
use crate::transports::{self, PortPair, TcpSetup, Transports};
use crate::{Error, cpu, pingpong, stream};
use report::{Latency, Operation, Plan, Test, Transport};
use report::{Outcome, Rail};

/// A connection to a server, for one measurement after the other.
pub struct Client {
    control: ControlConnection,
    hello: Hello,
    server: SocketAddr,
    transports: Transports,
    read_counters: CounterReader,
}

/// The progress of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Finished operations.
    pub operations: u64,
}

impl Client {
    /// Connects to a server and authenticates.
    pub fn connect(
        server: SocketAddr,
        credentials: &Credentials,
        transports: Transports,
        read_counters: CounterReader,
        limit: Duration,
    ) -> Result<Client, Error> {
        let ours = serde_json::to_vec(&Hello::new(false, serde_json::Value::Null))
            .map_err(|error| Error::misuse(error.to_string()))?;
        let session =
            session::connect(server, credentials, &ours, &session::Config::default(), limit)?;
        let hello = Hello::parse(session.hello()).map_err(Error::refused)?;
        Ok(Client {
            control: ControlConnection::new(session),
            hello,
            server,
            transports,
            read_counters,
        })
    }

    /// What the server reports about its host.
    pub fn about(&self) -> &serde_json::Value {
        &self.hello.about
    }

    /// Whether both ends are on one host.
    pub fn is_same_host(&self) -> bool {
        !self.hello.boot.is_empty()
            && self.hello.boot == Hello::new(false, serde_json::Value::Null).boot
    }

    /// The best transport that both ends have, and why.
    pub fn choose(&self) -> (Transport, String) {
        if self.is_same_host() {
            return (Transport::Shm, "both ends are on one host".to_owned());
        }
        let why = match (self.transports.why_no_rdma(), self.hello.rdma) {
            (None, true) => return (Transport::Verbs, "both ends have RDMA".to_owned()),
            (None, false) => "the other end has no usable RDMA port".to_owned(),
            (Some(why), _) => format!("no RDMA on this host: {why}"),
        };
        (Transport::Tcp, why)
    }

    /// Every pair of RDMA ports that reach each other; only of these devices, if given.
    pub fn pairs(
        &mut self,
        device: Option<&String>,
        peer_device: Option<&String>,
    ) -> Result<Vec<PortPair>, Error> {
        let ours = self.transports.rdma_ports(device)?;
        self.control.send(&Message::ListPorts { device: peer_device.cloned() })?;
        match self.control.receive(STEP_TIMEOUT)? {
            Message::Ports(theirs) => transports::pairs(&ours, &theirs),
            other => Err(unexpected(&other)),
        }
    }

    /// Lets the server measure to a third end, which must accept our credentials too, and returns the result. `choose`: with the best
    /// transport that those two have.
    pub fn relay(&mut self, to: &str, plan: &Plan, choose: bool) -> Result<Outcome, Error> {
        plan.check(u64::MAX)?;
        let ask = Message::Relay { to: to.to_owned(), plan: Box::new(plan.clone()), choose };
        self.control.send(&ask)?;
        let limit = plan.limit.time() + plan.warm_up.time() + 4 * STEP_TIMEOUT;
        match self.control.receive(limit)? {
            Message::RelayResult(outcome) => Ok(*outcome),
            other => Err(unexpected(&other)),
        }
    }

    /// Runs a measurement. After an error the client cannot be used any more: reconnect.
    pub fn measure(
        &mut self,
        plan: &Plan,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Outcome, Error> {
        plan.check(u64::MAX)?;
        let ours = self.transports.ports(plan, plan.device.as_ref())?;
        self.control.send(&Message::Measure {
            plan: Box::new(plan.clone()),
            ports: transports::to_bytes(&ours),
        })?;
        let theirs = match self.control.receive(STEP_TIMEOUT)? {
            Message::Agreed { ports } => transports::from_bytes(&ports)?,
            other => return Err(unexpected(&other)),
        };
        let (fabrics, rails) =
            self.transports.open(plan, &ours, &theirs, TcpSetup::Dial(self.server))?;
        let mut end = End::connect(&mut self.control, &fabrics, plan, Side::Dial)?;
        match self.control.receive(STEP_TIMEOUT)? {
            Message::Ready => {}
            other => return Err(unexpected(&other)),
        }
        let devices: Vec<String> = rails.iter().map(|rail| rail.local.clone()).collect();
        let before = (self.read_counters)(&devices);
        let seen = self.run(plan, &mut end, progress)?;
        let outcome = self.conclude(plan, &end, rails, seen)?;
        Ok(Outcome {
            counters: counter_changes(&before, &(self.read_counters)(&devices)),
            ..outcome
        })
    }

    /// This end's part of the measurement.
    fn run(
        &mut self,
        plan: &Plan,
        end: &mut End,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<LocalResult, Error> {
        let mut recorder = LatencyRecorder::new();
        if plan.both_ways && plan.operation == Operation::Send {
            end.test_lanes.iter_mut().for_each(|test_lane| test_lane.post_receives(plan));
        }
        let control = &mut self.control;
        if plan.test == Test::Latency {
            control.send(&Message::Ready)?;
            let on_tick = |operations| {
                // During the warm-up and waits the number is zero.
                if operations > 0 {
                    progress(Progress { operations });
                }
                control.try_receive().map(drop)
            };
            let result =
                pingpong::run_leader(&mut end.test_lanes[0], plan, &mut recorder, on_tick)?;
            return Ok(LocalResult {
                operations: result.operations,
                seconds: result.took.as_secs_f64(),
                lost: plan.datagrams.then_some(result.lost),
                cpu_seconds: result.cpu_seconds,
                latency: recorder.latency(),
                warmed: 0,
            });
        }
        // The other end counts all messages, also those of the warm-up; in a test in both directions it streams immediately.
        let mut warmed = 0;
        if !plan.both_ways {
            control.send(&Message::Ready)?;
            let on_tick = |_| control.try_receive().map(drop);
            warmed = stream::run(
                &mut end.test_lanes,
                plan,
                plan.warm_up,
                &mut LatencyRecorder::new(),
                on_tick,
            )?
            .operations;
        }
        let cpu = cpu::seconds();
        if plan.both_ways {
            control.send(&Message::Ready)?;
        }
        let mut theirs = None;
        let streamed =
            stream::run(&mut end.test_lanes, plan, plan.limit, &mut recorder, |operations| {
                progress(Progress { operations });
                match control.try_receive()? {
                    Some(Message::Streamed { operations, seconds }) => {
                        theirs = Some((operations, seconds))
                    }
                    Some(other) => return Err(unexpected(&other)),
                    None => {}
                }
                Ok(())
            })?;
        let cpu_seconds = cpu::seconds() - cpu;
        let (mut operations, mut seconds) = (streamed.operations, streamed.took.as_secs_f64());
        if plan.both_ways {
            let (more, longer) = match theirs {
                Some(theirs) => theirs,
                None => self.until_streamed(end)?,
            };
            operations += more;
            seconds = seconds.max(longer);
        }
        Ok(LocalResult {
            operations,
            seconds,
            lost: None,
            cpu_seconds,
            latency: recorder.latency(),
            warmed,
        })
    }

    /// Serves the other end, which may still stream when this one has finished.
    fn until_streamed(&mut self, end: &mut End) -> Result<(u64, f64), Error> {
        let mut idle = Duration::ZERO;
        let started = std::time::Instant::now();
        loop {
            match self.control.try_receive()? {
                Some(Message::Streamed { operations, seconds }) => {
                    return Ok((operations, seconds));
                }
                Some(other) => return Err(unexpected(&other)),
                None if started.elapsed() > STEP_TIMEOUT => {
                    return Err(Error::gone("the other end did not finish its stream in time"));
                }
                None => {}
            }
            let mut some = false;
            for test_lane in &mut end.test_lanes {
                let mut again = std::collections::VecDeque::new();
                for completion in test_lane.poll()?.drain(..) {
                    some = true;
                    again.push_back(fabric::Op { op_id: completion.op_id, work: completion.work });
                }
                test_lane.lane.post(&mut again);
            }
            idle = if some { Duration::ZERO } else { idle + Duration::from_micros(10) };
            crate::wait::pause(&mut end.test_lanes, idle, Some(&self.control));
        }
    }

    /// Reports the end, and receives the other end's results.
    fn conclude(
        &mut self,
        plan: &Plan,
        end: &End,
        rails: Vec<Rail>,
        seen: LocalResult,
    ) -> Result<Outcome, Error> {
        let used_slots = usize::try_from(seen.operations + seen.warmed).unwrap_or(usize::MAX);
        if plan.datagrams {
            // Datagrams in flight arrive now, or are lost.
            std::thread::sleep(DATAGRAM_DRAIN_TIME);
        }
        self.control.send(&Message::Finished { used_slots })?;
        let Message::Totals { received, cpu_seconds, verified, counters, latency } =
            self.control.receive(STEP_TIMEOUT)?
        else {
            return Err(Error::gone(
                "the other end sent no results: run the same version at both ends",
            ));
        };
        let sent = seen.operations + seen.warmed;
        let not_received =
            (plan.datagrams && plan.test != Test::Latency).then(|| sent.saturating_sub(received));
        let here = plan.operation == Operation::Read;
        let verified =
            if plan.verify && here { Some(end.is_verified(plan, used_slots)) } else { verified };
        Ok(Outcome {
            plan: plan.clone(),
            rails,
            seconds: seen.seconds,
            operations: seen.operations,
            bytes: seen.operations * plan.size,
            latency: slower(seen.latency, latency),
            cpu_seconds: seen.cpu_seconds,
            peer_cpu_seconds: cpu_seconds,
            lost: seen.lost.or(not_received),
            verified,
            counters: Default::default(),
            peer_counters: counters,
        })
    }
}

/// The results of this end.
struct LocalResult {
    operations: u64,
    seconds: f64,
    lost: Option<u64>,
    cpu_seconds: f64,
    latency: Latency,
    /// Operations of the warm-up.
    warmed: u64,
}

/// The result of the slower end, in a test in both directions.
fn slower(ours: Latency, theirs: Option<Latency>) -> Latency {
    match theirs {
        Some(theirs) if theirs.p50_ns > ours.p50_ns => theirs,
        _ => ours,
    }
}

const DATAGRAM_DRAIN_TIME: Duration = Duration::from_millis(100);
