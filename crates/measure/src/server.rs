//! The server: runs the plans of its clients.

use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use fabric::session::{Credentials, Keyring, ListenerConfig, Refusal, Session, SessionListener};
use fabric::{Side, tcp};

use crate::control_connection::{ControlConnection, STEP_TIMEOUT, unexpected};
use crate::end::End;
use crate::latency_recorder::LatencyRecorder;
use crate::message::{Hello, Message};
use crate::transports::{self, TcpSetup, Transports};
use crate::{Client, Error, ErrorKind, cpu, pingpong, stream, wait};
use report::{Operation, Outcome, Plan};

/// Reads the counters of the given RDMA devices, by name.
pub type CounterReader = Arc<dyn Fn(&[String]) -> BTreeMap<String, u64> + Send + Sync>;

/// The credentials for relayed measurements, by the identity of the client.
pub type RelayCredentials = Arc<dyn Fn(&str) -> Credentials + Send + Sync>;

/// Settings of a server.
#[derive(Clone)]
pub struct ServerSettings {
    /// The address to listen on; port 0 lets the system choose.
    pub address: SocketAddr,
    /// The keys that it accepts.
    pub keyring: Keyring,
    /// Whether clients without a key are refused.
    pub require_authentication: bool,
    /// The maximum number of concurrent clients.
    pub max_clients: usize,
    /// The maximum memory of one measurement.
    pub max_memory: u64,
    /// The transports of this host.
    pub transports: Transports,
    /// Whether RDMA can be used, as reported to clients.
    pub has_rdma: bool,
    /// Facts about this host, as reported to clients.
    pub about: serde_json::Value,
    /// Reads counters before and after a measurement.
    pub read_counters: CounterReader,
    /// The credentials with which it connects to a third end for a client: only those of the client.
    pub relay_credentials: RelayCredentials,
}

/// A listening server.
pub struct Server {
    listener: SessionListener,
    router: tcp::ConnectionRouter,
    settings: Arc<ServerSettings>,
}

impl Server {
    /// Starts to listen.
    pub fn open(settings: ServerSettings) -> Result<Server, Error> {
        let hello = serde_json::to_vec(&Hello::new(settings.has_rdma, settings.about.clone()))
            .map_err(|error| Error::misuse(error.to_string()))?;
        let router = tcp::ConnectionRouter::default();
        let deliver = router.clone();
        let check_hello =
            move |_: &fabric::session::InitiatorInfo, bytes: &[u8]| match Hello::parse(bytes) {
                Ok(_) => Ok(hello.clone()),
                Err(text) => Err(Refusal { code: "not_bench", text }),
            };
        let config = ListenerConfig {
            keyring: settings.keyring.clone(),
            require_authentication: settings.require_authentication,
            max_sessions: settings.max_clients,
            on_lane: Some(Arc::new(move |header, socket| deliver.deliver(header, socket))),
            ..ListenerConfig::new(check_hello)
        };
        let listener = SessionListener::open(settings.address, config)?;
        Ok(Server { listener, router, settings: Arc::new(settings) })
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// Accepts the next client within `limit`, and serves it on its own thread. Calls `observer` with each measurement's result.
    pub fn accept(&self, limit: Duration, observer: &Observer) -> Result<bool, Error> {
        let Some(session) = self.listener.accept(limit) else { return Ok(false) };
        let (settings, router, observer) =
            (self.settings.clone(), self.router.clone(), observer.clone());
        let serve = move || ClientHandler { settings, router, observer }.serve(session);
        let thread = std::thread::Builder::new().name("bench-client".to_owned()).spawn(serve);
        thread.map(|_| true).map_err(|error| {
            Error::refused(format!("start a thread for a client: {error}; raise `ulimit -u`"))
        })
    }
}

/// Called with the client, the plan and the result of each measurement.
pub type Observer = Arc<dyn Fn(&str, &Plan, Result<(), &Error>) + Send + Sync>;

/// Serves until `until` returns false.
pub fn serve(server: &Server, observer: &Observer, until: impl Fn() -> bool) -> Result<(), Error> {
    while until() {
        server.accept(Duration::from_millis(200), observer)?;
    }
    Ok(())
}

/// Serves one client.
struct ClientHandler {
    settings: Arc<ServerSettings>,
    router: tcp::ConnectionRouter,
    observer: Observer,
}

impl ClientHandler {
    fn serve(&self, session: Session) {
        let client = format!("{} ({})", session.peer_address(), session.identity());
        let identity = session.identity().to_owned();
        let mut control = ControlConnection::new(session);
        // An idle client uses a thread and a descriptor; the number of clients is limited.
        while let Ok(message) = control.receive(IDLE_TIMEOUT) {
            let (plan, done) = match message {
                Message::Measure { plan, ports } => {
                    let done = self.measure(&mut control, &plan, &ports);
                    (plan, done)
                }
                Message::Relay { to, plan, choose } => {
                    let done = self.relay(&mut control, &identity, &to, &plan, choose);
                    (plan, done)
                }
                Message::ListPorts { device } => {
                    let ports =
                        self.settings.transports.rdma_ports(device.as_ref()).unwrap_or_default();
                    match control.send(&Message::Ports(transports::listed(&ports))) {
                        Ok(()) => continue,
                        Err(_) => return,
                    }
                }
                _ => return,
            };
            (self.observer)(&client, &plan, done.as_ref().copied());
            if let Err(error) = done {
                let no = Message::Refused {
                    misuse: error.kind == ErrorKind::Misuse,
                    why: error.to_string(),
                };
                // The state of the other end is unknown: it gets the error, and reconnects.
                let _ = control.send(&no);
                return;
            }
        }
    }

    /// Measures to a third end, with the credentials of the client. Checks meanwhile that the client is still
    /// connected, and stops waiting if not.
    fn relay(
        &self,
        control: &mut ControlConnection,
        identity: &str,
        to: &str,
        plan: &Plan,
        choose: bool,
    ) -> Result<(), Error> {
        plan.check(self.settings.max_memory)?;
        let settings = self.settings.clone();
        let (credentials, to, plan) =
            ((settings.relay_credentials)(identity), to.to_owned(), plan.clone());
        let asked = move || relay_measurement(&settings, &credentials, &to, plan, choose);
        let thread = std::thread::Builder::new().name("bench-relay".to_owned()).spawn(asked);
        let thread = thread.map_err(|error| {
            Error::refused(format!("start a thread for a measurement: {error}; raise `ulimit -u`"))
        })?;
        while !thread.is_finished() {
            expect_no_message(control)?;
            std::thread::sleep(Duration::from_millis(10));
        }
        let outcome = thread.join().map_err(|_| Error::gone("the measuring thread panicked"))??;
        control.send(&Message::RelayResult(Box::new(outcome)))
    }

    fn measure(
        &self,
        control: &mut ControlConnection,
        plan: &Plan,
        theirs: &[crate::message::Bytes],
    ) -> Result<(), Error> {
        plan.check(self.settings.max_memory)?;
        let theirs = transports::from_bytes(theirs)?;
        let ours = self.settings.transports.ports(plan, plan.peer_device.as_ref())?;
        control.send(&Message::Agreed { ports: transports::to_bytes(&ours) })?;
        let by = TcpSetup::Accept(self.router.clone());
        let (fabrics, rails) = self.settings.transports.open(plan, &ours, &theirs, by)?;
        let mut end = End::connect(control, &fabrics, plan, Side::Accept)?;
        let devices: Vec<String> = rails.iter().map(|rail| rail.local.clone()).collect();
        let before = (self.settings.read_counters)(&devices);
        let totals = run(control, plan, &mut end)?;
        let counters = counter_changes(&before, &(self.settings.read_counters)(&devices));
        control.send(&match totals {
            Message::Totals { received, cpu_seconds, verified, latency, .. } => {
                Message::Totals { received, cpu_seconds, verified, latency, counters }
            }
            other => other,
        })
    }
}

/// This end's part of a measurement.
fn run(control: &mut ControlConnection, plan: &Plan, end: &mut End) -> Result<Message, Error> {
    if plan.operation == Operation::Send {
        end.test_lanes.iter_mut().for_each(|test_lane| test_lane.post_receives(plan));
    }
    control.send(&Message::Ready)?;
    match control.receive(STEP_TIMEOUT)? {
        Message::Ready => {}
        other => return Err(unexpected(&other)),
    }
    let cpu = cpu::seconds();
    let mut received = 0;
    let mut latency = None;
    if plan.is_ping_pong() {
        pingpong::run_follower(&mut end.test_lanes[0], plan, |_| expect_no_message(control))?;
    } else if plan.both_ways {
        let mut recorder = LatencyRecorder::new();
        let streamed = stream::run(&mut end.test_lanes, plan, plan.limit, &mut recorder, |_| {
            expect_no_message(control)
        })?;
        received += streamed.received;
        latency = Some(recorder.latency());
        let seconds = streamed.took.as_secs_f64();
        control.send(&Message::Streamed { operations: streamed.operations, seconds })?;
    }
    let used_slots = wait::serve_until_end(&mut end.test_lanes, plan, control, &mut received)?;
    let arrives_here = matches!(plan.operation, Operation::Write | Operation::Send);
    let verified = (plan.verify && arrives_here).then(|| end.is_verified(plan, used_slots));
    let cpu_seconds = cpu::seconds() - cpu;
    Ok(Message::Totals { received, cpu_seconds, verified, counters: BTreeMap::new(), latency })
}

/// Measures as a client of the third end, for a client of this one.
fn relay_measurement(
    settings: &ServerSettings,
    credentials: &Credentials,
    to: &str,
    plan: Plan,
    choose: bool,
) -> Result<Outcome, Error> {
    let addresses = to.to_socket_addrs().map_err(|error| {
        Error::refused(format!("look up {to}: {error} — check the name, or use an address"))
    })?;
    let mut last = Error::refused(format!("look up {to}: it has no address"));
    for address in addresses.take(MAX_ADDRESSES) {
        let (transports, read_counters) =
            (settings.transports.clone(), settings.read_counters.clone());
        match Client::connect(
            address,
            credentials,
            transports,
            read_counters,
            RELAY_CONNECT_TIMEOUT,
        ) {
            Ok(mut client) => {
                let transport = if choose { client.choose().0 } else { plan.transport };
                return client.measure(&Plan { transport, ..plan }, &mut |_| ());
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Checks that the other end is connected, and has sent no message.
fn expect_no_message(control: &mut ControlConnection) -> Result<(), Error> {
    match control.try_receive()? {
        None => Ok(()),
        Some(other) => Err(unexpected(&other)),
    }
}

/// The changes of counters; one that decreased is omitted.
pub(crate) fn counter_changes(
    before: &BTreeMap<String, u64>,
    after: &BTreeMap<String, u64>,
) -> BTreeMap<String, u64> {
    let moved = |(name, value): (&String, &u64)| {
        let by = value.checked_sub(*before.get(name)?)?;
        (by > 0).then(|| (name.clone(), by))
    };
    after.iter().filter_map(moved).collect()
}

/// The timeout to connect to a third end.
const RELAY_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_ADDRESSES: usize = 4;
/// How long a client may stay idle.
const IDLE_TIMEOUT: Duration = Duration::from_secs(600);
