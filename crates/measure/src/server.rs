//! The end that serves: it takes each plan from the client that connects.

use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use fabric::session::{Acceptor, AcceptorConfig, Credentials, Keyring, Refusal, Session};
use fabric::{Side, tcp};

use crate::control_channel::{ControlChannel, PATIENCE, out_of_turn};
use crate::end::End;
use crate::latency_recorder::Clock;
use crate::message::{Hello, Message};
use crate::transports::{self, Tcp, Transports};
use crate::{Client, Error, Kind, cpu, pingpong, stream, wait};
use report::{Operation, Outcome, Plan};

/// Counters of RDMA devices, by name, as the program reads them; those of devices that nobody names are none.
pub type Facts = Arc<dyn Fn(&[String]) -> BTreeMap<String, u64> + Send + Sync>;

/// Credentials by the name of who showed them.
pub type Onward = Arc<dyn Fn(&str) -> Credentials + Send + Sync>;

/// How it serves.
#[derive(Clone)]
pub struct ServerSettings {
    /// Where it listens; port 0 is one that the system chooses.
    pub address: SocketAddr,
    /// Whom it knows.
    pub keyring: Keyring,
    /// Whether it serves only those.
    pub require_authentication: bool,
    /// How many measure at once.
    pub max_clients: usize,
    /// How much memory one measurement may take.
    pub max_memory: u64,
    /// What this host has.
    pub ways: Transports,
    /// Whether RDMA can be used, as it is said to those who come.
    pub has_rdma: bool,
    /// What it says of this host to those who come.
    pub about: serde_json::Value,
    /// Counters before and after.
    pub facts: Facts,
    /// As whom it calls a third end for somebody of a name: with what that one has shown, and no more.
    pub onward: Onward,
}

/// A server, listening.
pub struct Server {
    acceptor: Acceptor,
    callers: tcp::ConnectionRouter,
    settings: Arc<ServerSettings>,
}

impl Server {
    /// Listens.
    pub fn open(settings: ServerSettings) -> Result<Server, Error> {
        let card = serde_json::to_vec(&Hello::new(settings.has_rdma, settings.about.clone()))
            .map_err(|error| Error::misuse(error.to_string()))?;
        let callers = tcp::ConnectionRouter::default();
        let deliver = callers.clone();
        let judge = move |_: &fabric::session::Caller, said: &[u8]| match Hello::parse(said) {
            Ok(_) => Ok(card.clone()),
            Err(text) => Err(Refusal { code: "not_bench", text }),
        };
        let config = AcceptorConfig {
            keyring: settings.keyring.clone(),
            require_authentication: settings.require_authentication,
            max_sessions: settings.max_clients,
            on_lane: Some(Arc::new(move |hello, socket| deliver.deliver(hello, socket))),
            ..AcceptorConfig::new(judge)
        };
        let acceptor = Acceptor::open(settings.address, config)?;
        Ok(Server { acceptor, callers, settings: Arc::new(settings) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.acceptor.address()
    }

    /// The next that comes, served on a thread of its own, if one comes in time. `told` is called with each measurement's result.
    pub fn accept(&self, limit: Duration, told: &Observer) -> Result<bool, Error> {
        let Some(session) = self.acceptor.accept(limit) else { return Ok(false) };
        let (settings, callers, told) = (self.settings.clone(), self.callers.clone(), told.clone());
        let serve = move || Attendance { settings, callers, told }.serve(session);
        let thread = std::thread::Builder::new().name("bench-client".to_owned()).spawn(serve);
        thread.map(|_| true).map_err(|error| {
            Error::refused(format!("start a thread for a client: {error}; raise `ulimit -u`"))
        })
    }
}

/// Hears what was measured, by whom, and whether it went well.
pub type Observer = Arc<dyn Fn(&str, &Plan, Result<(), &Error>) + Send + Sync>;

/// Serves until `until` says no.
pub fn serve(server: &Server, told: &Observer, until: impl Fn() -> bool) -> Result<(), Error> {
    while until() {
        server.accept(Duration::from_millis(200), told)?;
    }
    Ok(())
}

/// One client's.
struct Attendance {
    settings: Arc<ServerSettings>,
    callers: tcp::ConnectionRouter,
    told: Observer,
}

impl Attendance {
    fn serve(&self, session: Session) {
        let who = format!("{} ({})", session.peer_address(), session.identity());
        let identity = session.identity().to_owned();
        let mut talk = ControlChannel::new(session);
        // One that only stays costs a thread and a descriptor, of which there are so many as clients are let in.
        while let Ok(message) = talk.hear(IDLE) {
            let (plan, done) = match message {
                Message::Ask { plan, ways } => {
                    let done = self.measure(&mut talk, &plan, &ways);
                    (plan, done)
                }
                Message::Relay { to, plan, choose } => {
                    let done = self.relay(&mut talk, &identity, &to, &plan, choose);
                    (plan, done)
                }
                Message::Show { device } => {
                    let ports = self.settings.ways.rdma_ports(device.as_ref()).unwrap_or_default();
                    match talk.say(&Message::Shown(transports::shown(&ports))) {
                        Ok(()) => continue,
                        Err(_) => return,
                    }
                }
                _ => return,
            };
            (self.told)(&who, &plan, done.as_ref().copied());
            if let Err(error) = done {
                let no = Message::No { misuse: error.kind == Kind::Misuse, why: error.to_string() };
                // What the other end expects now is not known: it gets the error, and starts again.
                let _ = talk.say(&no);
                return;
            }
        }
    }

    /// Measures towards a third end, with the credentials of the client. The other end must not wait for longer than a measurement takes, so
    /// it is looked after meanwhile: when it is gone, nobody wants to know.
    fn relay(
        &self,
        talk: &mut ControlChannel,
        identity: &str,
        to: &str,
        plan: &Plan,
        choose: bool,
    ) -> Result<(), Error> {
        plan.check(self.settings.max_memory)?;
        let settings = self.settings.clone();
        let (credentials, to, plan) = ((settings.onward)(identity), to.to_owned(), plan.clone());
        let asked = move || onward(&settings, &credentials, &to, plan, choose);
        let thread = std::thread::Builder::new().name("bench-relay".to_owned()).spawn(asked);
        let thread = thread.map_err(|error| {
            Error::refused(format!("start a thread for a measurement: {error}; raise `ulimit -u`"))
        })?;
        while !thread.is_finished() {
            nothing_yet(talk)?;
            std::thread::sleep(Duration::from_millis(10));
        }
        let outcome = thread.join().map_err(|_| Error::gone("the measuring thread panicked"))??;
        talk.say(&Message::Relayed(Box::new(outcome)))
    }

    fn measure(
        &self,
        talk: &mut ControlChannel,
        plan: &Plan,
        theirs: &[crate::message::Bytes],
    ) -> Result<(), Error> {
        plan.check(self.settings.max_memory)?;
        let theirs = transports::from_bytes(theirs)?;
        let ours = self.settings.ways.ports(plan, plan.peer_device.as_ref())?;
        talk.say(&Message::Agreed { ways: transports::to_bytes(&ours) })?;
        let by = Tcp::From(self.callers.clone());
        let (fabrics, rails) = self.settings.ways.open(plan, &ours, &theirs, by)?;
        let mut end = End::connect(talk, &fabrics, plan, Side::Accept)?;
        let devices: Vec<String> = rails.iter().map(|rail| rail.here.clone()).collect();
        let before = (self.settings.facts)(&devices);
        let totals = run(talk, plan, &mut end)?;
        let counters = moved(&before, &(self.settings.facts)(&devices));
        talk.say(&match totals {
            Message::Totals { received, cpu_seconds, verified, latency, .. } => {
                Message::Totals { received, cpu_seconds, verified, latency, counters }
            }
            other => other,
        })
    }
}

/// This end's part of a measurement.
fn run(talk: &mut ControlChannel, plan: &Plan, end: &mut End) -> Result<Message, Error> {
    if plan.operation == Operation::Send {
        end.tracks.iter_mut().for_each(|track| track.receive(plan));
    }
    talk.say(&Message::Ready)?;
    match talk.hear(PATIENCE)? {
        Message::Ready => {}
        other => return Err(out_of_turn(&other)),
    }
    let cpu = cpu::seconds();
    let mut received = 0;
    let mut latency = None;
    if plan.is_conversation() {
        pingpong::follow(&mut end.tracks[0], plan, |_| nothing_yet(talk))?;
    } else if plan.both_ways {
        let mut clock = Clock::new();
        let streamed =
            stream::run(&mut end.tracks, plan, plan.limit, &mut clock, |_| nothing_yet(talk))?;
        received += streamed.received;
        latency = Some(clock.latency());
        let seconds = streamed.took.as_secs_f64();
        talk.say(&Message::Streamed { operations: streamed.operations, seconds })?;
    }
    let touched = wait::until_over(&mut end.tracks, plan, talk, &mut received)?;
    let arrives_here = matches!(plan.operation, Operation::Write | Operation::Send);
    let verified = (plan.verify && arrives_here).then(|| end.is_right(plan, touched));
    let cpu_seconds = cpu::seconds() - cpu;
    Ok(Message::Totals { received, cpu_seconds, verified, counters: BTreeMap::new(), latency })
}

/// Measures as a client.
fn onward(
    settings: &ServerSettings,
    credentials: &Credentials,
    to: &str,
    plan: Plan,
    choose: bool,
) -> Result<Outcome, Error> {
    let addresses = to.to_socket_addrs().map_err(|error| {
        Error::refused(format!("look up {to}: {error} — check the name, or give an address"))
    })?;
    let mut last = Error::refused(format!("look up {to}: it has no address"));
    for address in addresses.take(MAX_ADDRESSES) {
        let (ways, facts) = (settings.ways.clone(), settings.facts.clone());
        match Client::connect(address, credentials, ways, facts, REACH) {
            Ok(mut client) => {
                let transport = if choose { client.choose().0 } else { plan.transport };
                return client.measure(&Plan { transport, ..plan }, &mut |_| ());
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The other end is there, and has nothing to say yet.
fn nothing_yet(talk: &mut ControlChannel) -> Result<(), Error> {
    match talk.overhear()? {
        None => Ok(()),
        Some(other) => Err(out_of_turn(&other)),
    }
}

/// How far counters went; one that went back tells nothing.
pub(crate) fn moved(
    before: &BTreeMap<String, u64>,
    after: &BTreeMap<String, u64>,
) -> BTreeMap<String, u64> {
    let moved = |(name, value): (&String, &u64)| {
        let by = value.checked_sub(*before.get(name)?)?;
        (by > 0).then(|| (name.clone(), by))
    };
    after.iter().filter_map(moved).collect()
}

/// How long a third end may take to answer.
const REACH: Duration = Duration::from_secs(10);
const MAX_ADDRESSES: usize = 4;
/// How long a client may stay without asking for anything.
const IDLE: Duration = Duration::from_secs(600);
