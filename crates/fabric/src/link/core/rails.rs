//! How rails come up: prepared, offered, connected, probed each way. And what the peer says of them.

use std::time::Duration;

use super::Core;
use crate::error::{Error, Kind};
use crate::grants::random;
use crate::half::Side;
use crate::link::event::Happening;
use crate::link::operations::part::PartKind;
use crate::link::protocol::control::{Class, Control, Plan};
use crate::link::rails::connector::{ConnectorTask, Finished, Make, Product, Task};
use crate::link::rails::rail::{Ending, Key, Making, PROBE, Rail, RailConnection, State, index};
use crate::link::regions::Standing;
use crate::op::{Failure, Work};
use crate::region::Region;
use crate::registration::Registration;
use crate::remote::{LaneKind, Reach, RemoteRegion, Target, Window};

impl Core {
    /// Does everything that is not urgent: what the peer said, what is finished, what is due.
    pub(crate) fn attend(&mut self, now: Duration) {
        self.now = now;
        self.listen();
        while let Some(finished) = self.connector.finished() {
            self.finished(finished);
        }
        for (at, generation, id) in std::mem::take(&mut self.untold) {
            let current = self.rails[usize::from(at)].generation == generation;
            if let Some(region) = self.granted.get(id).filter(|_| current) {
                self.tell_key(at, id, &region);
            }
        }
        for region in self.granted.take_gone() {
            self.say(&Control::Gone { region });
        }
        for rail in 0..self.rails.len() {
            self.look_after(rail as u8);
        }
        if self.leads && self.ended.is_none() {
            self.try_rails();
        }
        self.look_at_time();
        self.settle_end();
        self.pump();
        self.ring();
    }

    /// What the peer said; not all at once, so that a talkative one does not keep us from our work.
    fn listen(&mut self) {
        for _ in 0..MAX_RECEIVED {
            if self.ended.is_some() {
                return self.control.ignore_rest();
            }
            match self.control.receive(self.now) {
                Ok(None) => return,
                Ok(Some(message)) => self.hear(message),
                Err((failure, why)) => self.fail_link(failure, &why),
            }
        }
    }

    fn hear(&mut self, message: Control) {
        match message {
            Control::Open { rail, generation, plan, offer } => {
                self.hear_open(rail, generation, plan, offer);
            }
            Control::Opened { rail, generation, offer } => {
                if let Some(making) = self.making(rail, generation).filter(|m| m.half.is_some()) {
                    making.offer = Some(offer);
                    self.connect(rail);
                }
            }
            Control::Connected { rail, generation, slots, probe } => {
                if let Some(making) = self.making(rail, generation) {
                    making.connected = Some((slots, probe));
                    self.probe(rail);
                }
            }
            Control::Proven { rail, generation } => {
                if let Some(making) = self.making(rail, generation) {
                    making.proven[1] = true;
                    self.come_up(rail);
                }
            }
            Control::Fenced { rail, generation, received, why } => {
                self.hear_fenced(rail, generation, received, &why);
            }
            Control::Key { rail, generation, region, key } => {
                self.hear_key(rail, generation, region, key);
            }
            Control::Gone { region } => {
                self.heard.gone(region, self.config.regions);
                // A lane that would be asked for it all the same would die of the answer.
                for rail in &mut self.rails {
                    if let Some(connection) = &mut rail.connection {
                        connection.refuse_key(region);
                    }
                }
                self.try_keyless();
            }
            Control::Ask { region } => {
                if self.granted.get(region).is_none() {
                    self.say(&Control::Gone { region });
                }
            }
            Control::Freed { rail, generation, freed, taken } => {
                let known = self.rails.get(usize::from(rail));
                let current = known.is_some_and(|known| known.generation == generation);
                if current && !self.hear_freed(rail, freed, taken) {
                    self.fail_link(Failure::ProtocolError, "the peer freed more than we used");
                }
            }
            Control::Beat => {}
            Control::Bye { orderly, why } => {
                let what = if orderly { Happening::Closed } else { Happening::Ended };
                self.end(Failure::PeerGone, &format!("the peer ended the link: {why}"), what);
            }
        }
    }

    /// The lane in the making that the peer speaks of, unless that is old news.
    fn making(&mut self, rail: u8, generation: u32) -> Option<&mut Making> {
        let rail = self.rails.get_mut(usize::from(rail))?;
        let trying = matches!(rail.state, State::Trying { .. });
        (trying && rail.generation == generation).then_some(&mut rail.making)
    }

    // The leading end begins.

    /// Begins what is due: all rails that are as good as the best that is up, and worse ones where
    /// nothing else is at hand.
    fn try_rails(&mut self) {
        for class in Class::ALL {
            let (mut up, mut hopeful) = (false, false);
            for rail in 0..self.rails.len() as u8 {
                let this = &self.rails[usize::from(rail)];
                if this.plan.class != class {
                    continue;
                }
                match this.state {
                    State::Up { .. } => up = true,
                    State::Trying { since, .. } => hopeful |= self.now < since + HEDGE,
                    State::Standby { until } if until <= self.now && !this.busy => {
                        self.try_rail(rail);
                        hopeful = true;
                    }
                    State::Standby { .. } | State::Fencing { .. } => {}
                }
            }
            if up || hopeful {
                return;
            }
        }
    }

    fn try_rail(&mut self, rail: u8) {
        let side = Side::Dial;
        let way = self.rails[usize::from(rail)].plan.ways[0].clone();
        let generation = self.rails[usize::from(rail)].generation + 1;
        self.begin_rail(rail, generation, side, way);
    }

    fn begin_rail(&mut self, at: u8, generation: u32, side: Side, way: String) {
        let rail = &mut self.rails[usize::from(at)];
        rail.generation = generation;
        rail.state = State::Trying { since: self.now, until: self.now + SETUP };
        rail.making = Making { known: side == Side::Accept, ..Making::default() };
        rail.ending = Ending::default();
        // Or there would be a thread for each attempt, all waiting for one device. The leading end does not even try.
        if std::mem::replace(&mut rail.busy, true) {
            return self.die(at, "the last attempt is not over yet: a device does not answer");
        }
        let class = rail.plan.class;
        let task = Task::Prepare { class, way, side };
        self.connector.start(ConnectorTask { rail: at, generation, task });
    }

    // The other end follows.

    fn hear_open(&mut self, at: u8, generation: u32, plan: Plan, offer: Vec<u8>) {
        if self.leads || usize::from(at) >= MAX_RAILS {
            return self
                .fail_link(Failure::ProtocolError, "the peer opens a rail with an invalid number");
        }
        // They need not come in order: those between are yet to be opened.
        while self.rails.len() <= usize::from(at) {
            self.rails.push(Rail::new(Plan::unknown()));
        }
        // Both ends may have closed the last lane since we last looked.
        if matches!(self.rails[usize::from(at)].state, State::Fencing { .. }) {
            self.look_after(at);
        }
        let rail = &mut self.rails[usize::from(at)];
        let standby = matches!(rail.state, State::Standby { .. });
        if !standby || generation <= rail.generation {
            return self.fail_link(Failure::ProtocolError, "the peer opens a rail that is in use");
        }
        rail.plan = plan;
        let way = rail.plan.ways[1].clone();
        self.begin_rail(at, generation, Side::Accept, way);
        self.rails[usize::from(at)].making.offer = Some(offer);
    }

    // Both.

    fn finished(&mut self, finished: Finished) {
        let Finished { rail: at, generation, product } = finished;
        let rail = &mut self.rails[usize::from(at)];
        rail.busy = false;
        // Given up meanwhile: what was made goes.
        if rail.generation != generation || !matches!(rail.state, State::Trying { .. }) {
            if let Ok(Product::RailConnection(mut connection)) = product {
                connection.lane.close();
                self.connector.start(ConnectorTask {
                    rail: at,
                    generation,
                    task: Task::Discard(connection),
                });
            }
            return;
        }
        match product {
            Err(error) => self.die(at, &error.to_string()),
            Ok(Product::Half(half, fabric)) => {
                let offer = half.offer();
                rail.making.half = Some((half, fabric));
                rail.making.known = true;
                let message = match self.leads {
                    true => {
                        let plan = rail.plan.clone();
                        Control::Open { rail: at, generation, plan, offer }
                    }
                    false => Control::Opened { rail: at, generation, offer },
                };
                self.say(&message);
                if !self.leads {
                    self.connect(at);
                }
            }
            Ok(Product::RailConnection(connection)) => self.connected(at, *connection),
        }
    }

    fn connect(&mut self, at: u8) {
        let make = Make { messages: self.config.messages, room: self.config.room, limit: SETUP };
        let rail = &mut self.rails[usize::from(at)];
        let Some(offer) = rail.making.offer.take() else { return };
        let Some((half, fabric)) = rail.making.half.take() else { return };
        rail.busy = true;
        let task = Task::Connect { half, fabric, offer, make };
        self.connector.start(ConnectorTask { rail: at, generation: rail.generation, task });
    }

    fn connected(&mut self, at: u8, mut connection: RailConnection) {
        let probe = connection.lane.grant(&connection.probe.theirs);
        let slots = connection.messages.slots();
        let rail = &mut self.rails[usize::from(at)];
        let generation = rail.generation;
        rail.connection = Some(connection);
        self.live.push(at);
        self.healthy += 1;
        self.refill(at);
        let probe = match probe {
            Ok(probe) => probe,
            Err(error) => return self.die(at, &error.to_string()),
        };
        self.say(&Control::Connected { rail: at, generation, slots, probe });
        for (id, region) in self.granted.live() {
            self.tell_key(at, id, &region);
        }
        let keys = std::mem::take(&mut self.rails[usize::from(at)].making.keys);
        for (region, key) in keys {
            self.take_key(at, region, key);
        }
        self.probe(at);
    }

    /// Writes to the peer, once both ends are connected.
    fn probe(&mut self, at: u8) {
        let rail = &mut self.rails[usize::from(at)];
        let Some(connection) = &mut rail.connection else { return };
        let Some((slots, probe)) = rail.making.connected.take() else { return };
        // Once: else a peer could make us forget what it owes.
        if std::mem::replace(&mut rail.making.heard, true) {
            return self.fail_link(Failure::ProtocolError, "the peer connects a rail twice");
        }
        connection.messages.peer_has(slots);
        let window = match connection.lane.import(&probe) {
            Ok(window) if window.len() >= PROBE as u64 => window,
            Ok(_) => return self.die(at, "the peer gave too little memory to probe"),
            Err(error) => return self.die(at, &error.to_string()),
        };
        let pattern = random().unwrap_or(0).to_le_bytes();
        let memory = connection.probe.ours.memory();
        memory.write(0, &pattern.repeat(PROBE / pattern.len()));
        connection.probe.window = Some(window.clone());
        let from = connection.probe.ours.slice(..PROBE).into();
        let work = Work::Write { from, to: window.at(0), imm: None };
        self.put(at, PROBE as u64, work, PartKind::Probe);
    }

    /// One step of the probe is over.
    pub(in crate::link) fn probed(&mut self, at: u8) {
        let rail = &mut self.rails[usize::from(at)];
        let generation = rail.generation;
        let Some(connection) = &mut rail.connection else { return };
        let Some(window) = connection.probe.window.clone() else { return };
        if !std::mem::replace(&mut connection.probe.reading, true) {
            let into = connection.probe.ours.slice(PROBE..).into();
            let work = Work::Read { into, from: Target { window, offset: 0 } };
            self.put(at, PROBE as u64, work, PartKind::Probe);
            return;
        }
        if connection.probe.ours.slice(..PROBE).to_vec()
            != connection.probe.ours.slice(PROBE..).to_vec()
        {
            return self.die(at, "the probe came back changed");
        }
        rail.making.proven[0] = true;
        self.say(&Control::Proven { rail: at, generation });
        self.come_up(at);
    }

    fn come_up(&mut self, at: u8) {
        let rail = &mut self.rails[usize::from(at)];
        if rail.making.proven != [true; 2] || !matches!(rail.state, State::Trying { .. }) {
            return;
        }
        rail.state = State::Up { since: self.now };
        rail.why = rail.plan.why.clone();
        let (name, why) = (rail.name(self.leads), rail.why.clone());
        self.journal.note(self.now, Happening::RailUp, name, &why);
        self.switch(&why);
    }

    /// The best class of rails that are up is used from now on.
    pub(in crate::link) fn switch(&mut self, why: &str) {
        let up = |rail: &&Rail| rail.is_up();
        let best = self.rails.iter().filter(up).map(|rail| rail.plan.class).min();
        let is_active = |rail: &Rail| rail.is_up() && Some(rail.plan.class) == best;
        let rails = self.rails.iter().enumerate();
        let active: Vec<u8> =
            rails.filter(|(_, rail)| is_active(rail)).map(|(at, _)| at as u8).collect();
        self.stranded = match active.is_empty() {
            true => self.stranded.or(Some(self.now)),
            false => None,
        };
        if active == self.active {
            return;
        }
        self.active = active;
        let name = |at: &u8| {
            let rail = &self.rails[usize::from(*at)];
            let (class, name) = (rail.plan.class.name(), rail.name(self.leads));
            if class == name { name } else { format!("{class} {name}") }
        };
        let names: Vec<String> = self.active.iter().map(name).collect();
        let names = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
        self.journal.note(self.now, Happening::Switch, names, why);
        self.try_keyless();
    }

    // Regions.

    pub(crate) fn grant(&mut self, region: &Region) -> Result<RemoteRegion, Error> {
        if let Some(ended) = &self.ended {
            let fix = "connect anew";
            return Err(Error::new(Kind::Gone, "grant a region", &ended.why, fix));
        }
        let id = self.granted.add(region, self.config.regions.min(self.their_regions))?;
        for at in 0..self.live.len() {
            self.tell_key(self.live[at], id, region);
        }
        Ok(RemoteRegion {
            lane: LaneKind::Link,
            rights: region.rights(),
            length: region.len() as u64,
            address: self.epochs[0],
            key: id.into(),
        })
    }

    /// Lets the peer reach a region by one lane.
    fn tell_key(&mut self, at: u8, id: u64, region: &Region) {
        let rail = &mut self.rails[usize::from(at)];
        let generation = rail.generation;
        let Some(connection) = rail.connection.as_mut().filter(|connection| !connection.closed)
        else {
            return;
        };
        let only_near = matches!(region.registration(), Registration::Near);
        if only_near && rail.plan.class != Class::Shm {
            return self.say(&Control::Key { rail: at, generation, region: id, key: None });
        }
        let key = match connection.lane.grant(region) {
            Ok(key) => Some(key),
            // The peer must take in others first.
            Err(error) if error.kind() == Kind::Full => {
                return self.untold.push((at, generation, id));
            }
            // A region that a lane cannot reach is reached by another, or refused.
            Err(error) => {
                rail.why = format!("a region cannot be reached by it: {error}");
                None
            }
        };
        self.say(&Control::Key { rail: at, generation, region: id, key });
    }

    fn hear_key(&mut self, at: u8, generation: u32, region: u64, key: Option<RemoteRegion>) {
        if self.heard.get(region) != Some(Standing::Gone)
            && !self.heard.set(region, Standing::Granted, self.config.regions)
        {
            return self
                .fail_link(Failure::ProtocolError, "the peer grants more regions than it may");
        }
        let Some(rail) = self.rails.get_mut(usize::from(at)) else { return };
        if rail.generation != generation {
            return;
        }
        match (&rail.state, rail.connection.is_some()) {
            (State::Trying { .. }, false) if rail.making.keys.len() <= self.config.regions => {
                rail.making.keys.push((region, key));
            }
            (State::Trying { .. } | State::Up { .. }, true) => {
                self.take_key(at, region, key);
                self.try_keyless();
            }
            _ => {}
        }
    }

    fn take_key(&mut self, at: u8, region: u64, key: Option<RemoteRegion>) {
        let Some(connection) = &mut self.rails[usize::from(at)].connection else { return };
        let window = key.and_then(|key| connection.lane.import(&key).ok());
        connection.set_key(region, window.map_or(Key::Refused, Key::Open));
    }

    pub(crate) fn import(&mut self, remote: &RemoteRegion) -> Result<Window, Error> {
        remote.expect(LaneKind::Link)?;
        let region = remote.key as u64;
        let denied = |why: &str| {
            Error::new(Kind::Denied, "import a region", why, "ask the peer to grant it anew")
        };
        if remote.address != self.epochs[1] {
            return Err(denied("it was granted over another link, or before the peer restarted"));
        }
        if index(region) >= self.config.regions {
            return Err(denied("its number is beyond what this link allows"));
        }
        match self.heard.get(region) {
            Some(Standing::Gone) => return Err(denied("the peer has dropped it")),
            Some(_) => {}
            None => {
                self.heard.set(region, Standing::Asked, self.config.regions);
                self.say(&Control::Ask { region });
            }
        }
        let reach = Reach::Link { region };
        Ok(Window::new(self.number, remote.length, remote.rights, reach))
    }
}

/// Control messages that are received at a time.
const MAX_RECEIVED: usize = 256;
/// How long a rail may take from the first step to the last.
const SETUP: Duration = Duration::from_secs(5);
/// How long worse rails wait for better ones that are being tried.
pub(in crate::link) const HEDGE: Duration = Duration::from_secs(1);
/// More rails than any machine has ports; a peer cannot make us keep more.
const MAX_RAILS: usize = 32;
