//! The end that asks for a measurement.

use std::net::SocketAddr;
use std::time::Duration;

use fabric::Side;
use fabric::session::{self, Credentials};

use crate::control_channel::{ControlChannel, PATIENCE, out_of_turn};
use crate::end::End;
use crate::latency_recorder::Clock;
use crate::message::{Hello, Message};
use crate::server::{Facts, moved};
use crate::transports::{self, PortPair, Tcp, Transports};
use crate::{Error, cpu, pingpong, stream};
use report::{Latency, Operation, Plan, Test, Transport};
use report::{Outcome, Rail};

/// Connected to a server, of which it asks one measurement after the other.
pub struct Client {
    talk: ControlChannel,
    card: Hello,
    server: SocketAddr,
    transports: Transports,
    facts: Facts,
}

/// How far a measurement has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Operations that are over.
    pub operations: u64,
}

impl Client {
    /// Finds a server and is let in.
    pub fn connect(
        server: SocketAddr,
        credentials: &Credentials,
        transports: Transports,
        facts: Facts,
        limit: Duration,
    ) -> Result<Client, Error> {
        let ours = serde_json::to_vec(&Hello::new(false, serde_json::Value::Null))
            .map_err(|error| Error::misuse(error.to_string()))?;
        let session =
            session::dial(server, credentials, &ours, &session::Config::default(), limit)?;
        let card = Hello::parse(session.hello()).map_err(Error::refused)?;
        Ok(Client { talk: ControlChannel::new(session), card, server, transports, facts })
    }

    /// What the server says of its host.
    pub fn about(&self) -> &serde_json::Value {
        &self.card.about
    }

    /// Whether both ends are on one host.
    pub fn is_same_host(&self) -> bool {
        !self.card.boot.is_empty()
            && self.card.boot == Hello::new(false, serde_json::Value::Null).boot
    }

    /// The best transport that both ends should have, and why.
    pub fn choose(&self) -> (Transport, String) {
        if self.is_same_host() {
            return (Transport::Shm, "both ends are on one host".to_owned());
        }
        let why = match (self.transports.why_no_rdma(), self.card.rdma) {
            (None, true) => return (Transport::Verbs, "both ends have RDMA".to_owned()),
            (None, false) => "the other end has no RDMA port that can be used".to_owned(),
            (Some(why), _) => format!("no RDMA here: {why}"),
        };
        (Transport::Tcp, why)
    }

    /// Every pair of RDMA ports by which the two ends reach each other; of these devices alone where they are named.
    pub fn pairs(
        &mut self,
        device: Option<&String>,
        peer_device: Option<&String>,
    ) -> Result<Vec<PortPair>, Error> {
        let ours = self.transports.rdma_ports(device)?;
        self.talk.say(&Message::Show { device: peer_device.cloned() })?;
        match self.talk.hear(PATIENCE)? {
            Message::Shown(theirs) => transports::pairs(&ours, &theirs),
            other => Err(out_of_turn(&other)),
        }
    }

    /// Has the server measure towards a third end, which knows us as it does, and says what came of it. `choose`: by the best
    /// transport that those two have.
    pub fn relay(&mut self, to: &str, plan: &Plan, choose: bool) -> Result<Outcome, Error> {
        plan.check(u64::MAX)?;
        let ask = Message::Relay { to: to.to_owned(), plan: Box::new(plan.clone()), choose };
        self.talk.say(&ask)?;
        let limit = plan.limit.time() + plan.warm_up.time() + 4 * PATIENCE;
        match self.talk.hear(limit)? {
            Message::Relayed(outcome) => Ok(*outcome),
            other => Err(out_of_turn(&other)),
        }
    }

    /// Measures. After an error the client is of no more use: connect anew.
    pub fn measure(
        &mut self,
        plan: &Plan,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Outcome, Error> {
        plan.check(u64::MAX)?;
        let ours = self.transports.ports(plan, plan.device.as_ref())?;
        self.talk.say(&Message::Ask {
            plan: Box::new(plan.clone()),
            ways: transports::to_bytes(&ours),
        })?;
        let theirs = match self.talk.hear(PATIENCE)? {
            Message::Agreed { ways } => transports::from_bytes(&ways)?,
            other => return Err(out_of_turn(&other)),
        };
        let (fabrics, rails) = self.transports.open(plan, &ours, &theirs, Tcp::To(self.server))?;
        let mut end = End::connect(&mut self.talk, &fabrics, plan, Side::Dial)?;
        match self.talk.hear(PATIENCE)? {
            Message::Ready => {}
            other => return Err(out_of_turn(&other)),
        }
        let devices: Vec<String> = rails.iter().map(|rail| rail.here.clone()).collect();
        let before = (self.facts)(&devices);
        let seen = self.run(plan, &mut end, progress)?;
        let outcome = self.conclude(plan, &end, rails, seen)?;
        Ok(Outcome { counters: moved(&before, &(self.facts)(&devices)), ..outcome })
    }

    /// This end's part.
    fn run(
        &mut self,
        plan: &Plan,
        end: &mut End,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Seen, Error> {
        let mut clock = Clock::new();
        if plan.both_ways && plan.operation == Operation::Send {
            end.tracks.iter_mut().for_each(|track| track.receive(plan));
        }
        let talk = &mut self.talk;
        if plan.test == Test::Latency {
            talk.say(&Message::Ready)?;
            let tend = |operations| {
                // While it waits it does not know how many there were.
                if operations > 0 {
                    progress(Progress { operations });
                }
                talk.overhear().map(drop)
            };
            let exchanged = pingpong::lead_on(&mut end.tracks[0], plan, &mut clock, tend)?;
            return Ok(Seen {
                operations: exchanged.operations,
                seconds: exchanged.took.as_secs_f64(),
                lost: plan.datagrams.then_some(exchanged.lost),
                cpu_seconds: exchanged.cpu_seconds,
                latency: clock.latency(),
                warmed: 0,
            });
        }
        // The other end counts everything that comes, also of the warm-up; of a test in both directions it streams as soon as it may.
        let mut warmed = 0;
        if !plan.both_ways {
            talk.say(&Message::Ready)?;
            let tend = |_| talk.overhear().map(drop);
            warmed = stream::run(&mut end.tracks, plan, plan.warm_up, &mut Clock::new(), tend)?
                .operations;
        }
        let cpu = cpu::seconds();
        if plan.both_ways {
            talk.say(&Message::Ready)?;
        }
        let mut theirs = None;
        let streamed = stream::run(&mut end.tracks, plan, plan.limit, &mut clock, |operations| {
            progress(Progress { operations });
            match talk.overhear()? {
                Some(Message::Streamed { operations, seconds }) => {
                    theirs = Some((operations, seconds))
                }
                Some(other) => return Err(out_of_turn(&other)),
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
        Ok(Seen { operations, seconds, lost: None, cpu_seconds, latency: clock.latency(), warmed })
    }

    /// The other end may still stream when this one has done.
    fn until_streamed(&mut self, end: &mut End) -> Result<(u64, f64), Error> {
        let mut idle = Duration::ZERO;
        let begun = std::time::Instant::now();
        loop {
            match self.talk.overhear()? {
                Some(Message::Streamed { operations, seconds }) => {
                    return Ok((operations, seconds));
                }
                Some(other) => return Err(out_of_turn(&other)),
                None if begun.elapsed() > PATIENCE => {
                    return Err(Error::gone(
                        "the other end does not come to an end with its stream",
                    ));
                }
                None => {}
            }
            let mut some = false;
            for track in &mut end.tracks {
                let mut again = std::collections::VecDeque::new();
                for completion in track.poll()?.drain(..) {
                    some = true;
                    again.push_back(fabric::Op { token: completion.token, work: completion.work });
                }
                track.lane.post(&mut again);
            }
            idle = if some { Duration::ZERO } else { idle + Duration::from_micros(10) };
            crate::wait::rest(&mut end.tracks, idle, Some(&self.talk));
        }
    }

    /// Says that it is over, and receives what the other end counted.
    fn conclude(
        &mut self,
        plan: &Plan,
        end: &End,
        rails: Vec<Rail>,
        seen: Seen,
    ) -> Result<Outcome, Error> {
        let touched = usize::try_from(seen.operations + seen.warmed).unwrap_or(usize::MAX);
        if plan.datagrams {
            // What is in flight still arrives, or never will.
            std::thread::sleep(SETTLE);
        }
        self.talk.say(&Message::Over { touched })?;
        let Message::Totals { received, cpu_seconds, verified, counters, latency } =
            self.talk.hear(PATIENCE)?
        else {
            return Err(Error::gone(
                "the other end does not say what it saw: run the same version at both ends",
            ));
        };
        let sent = seen.operations + seen.warmed;
        let unheard =
            (plan.datagrams && plan.test != Test::Latency).then(|| sent.saturating_sub(received));
        let here = plan.operation == Operation::Read;
        let verified =
            if plan.verify && here { Some(end.is_right(plan, touched)) } else { verified };
        Ok(Outcome {
            plan: plan.clone(),
            rails,
            seconds: seen.seconds,
            operations: seen.operations,
            bytes: seen.operations * plan.size,
            latency: both(seen.latency, latency),
            cpu_seconds: seen.cpu_seconds,
            peer_cpu_seconds: cpu_seconds,
            lost: seen.lost.or(unheard),
            verified,
            counters: Default::default(),
            peer_counters: counters,
        })
    }
}

/// What this end saw.
struct Seen {
    operations: u64,
    seconds: f64,
    lost: Option<u64>,
    cpu_seconds: f64,
    latency: Latency,
    /// Operations of the warm-up.
    warmed: u64,
}

/// Of a test in both directions the slower end counts: its users wait for it.
fn both(ours: Latency, theirs: Option<Latency>) -> Latency {
    match theirs {
        Some(theirs) if theirs.p50_ns > ours.p50_ns => theirs,
        _ => ours,
    }
}

const SETTLE: Duration = Duration::from_millis(100);
