//! `top` on a terminal. One loop hears keys, frames, the doctor and signals, in the order in which they come; each has
//! a thread of its own that may wait.

mod app;
mod columns;
mod draw;
mod gpus;
#[cfg(test)]
mod picture;
mod ports;
mod rows;
mod style;
mod terminal;
#[cfg(test)]
mod tests;
mod window;

use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use crossterm::event::{self, KeyEvent};

use super::TopArgs;
use super::feed::{FeedEvent, Order};
use super::findings::{self, Question};
use crate::arguments::host::HostArgs;
use crate::output::{Exit, Failure};
use crate::settings::Global;
use crate::signals;
use app::{Act, App};
use style::Look;
use terminal::Screen;

/// What can happen.
enum Event {
    Key(KeyEvent),
    Resized,
    FeedEvent(FeedEvent),
    /// The doctor's words, by the number of the question.
    Words(u64, Vec<String>),
    Stop,
    /// The terminal is gone.
    Lost(String),
}

pub(super) fn run(global: &Global, args: &TopArgs) -> Result<Exit, Failure> {
    let (tell, events) = mpsc::channel();
    // The first wait asks the dynamic linker for something, which a driver that hangs while it is loaded would hold.
    let _ = events.recv_timeout(Duration::from_millis(1));
    let told = tell.clone();
    let orders = args.feed(global, move |message| told.send(Event::FeedEvent(message)).is_ok())?;
    let stop = tell.clone();
    signals::on_first_signal(move || drop(stop.send(Event::Stop)))?;
    let screen = Screen::open()?;
    hear_keys(tell.clone())?;
    Top {
        args,
        app: App::new(Look::of_environment(), args.interval, args.replay.is_some()),
        orders,
        tell,
    }
    .run(screen, &events)
}

/// The loop and what it needs.
struct Top<'a> {
    args: &'a TopArgs,
    app: App,
    orders: Sender<Order>,
    tell: Sender<Event>,
}

impl Top<'_> {
    fn run(mut self, mut screen: Screen, events: &Receiver<Event>) -> Result<Exit, Failure> {
        screen.draw(&mut self.app)?;
        // All that has come is taken in before the screen is drawn once.
        while let Ok(first) = events.recv() {
            for event in std::iter::once(first).chain(events.try_iter()) {
                if self.take(event)? {
                    return Ok(Exit::Done);
                }
            }
            screen.draw(&mut self.app)?;
        }
        Ok(Exit::Done)
    }

    /// Whether it is over.
    fn take(&mut self, event: Event) -> Result<bool, Failure> {
        match event {
            Event::Key(key) => return Ok(self.act(key)),
            Event::Resized => {}
            Event::FeedEvent(told) => self.app.take(told, |device| self.args.wants(device)),
            Event::Words(number, lines) => self.app.answer(number, lines),
            Event::Stop => return Ok(true),
            Event::Lost(why) => return Err(Failure::failed(format!("read keys: {why}"))),
        }
        Ok(self.args.count.is_some_and(|count| self.app.shown >= count))
    }

    fn act(&mut self, key: KeyEvent) -> bool {
        match self.app.key(key) {
            Act::Nothing => {}
            Act::Quit => return true,
            // A feed that has ended hears nothing.
            Act::Order(order @ Order::Step(_)) => {
                let _ = self.orders.send(Order::Pause(true));
                let _ = self.orders.send(order);
            }
            Act::Order(order) => drop(self.orders.send(order)),
            Act::Ask(number, question) => self.ask(number, question),
        }
        false
    }

    fn ask(&mut self, number: u64, question: Question) {
        if self.args.replay.is_some() {
            return self.app.answer(number, findings::recorded(&question));
        }
        let (host, tell): (HostArgs, _) = (self.args.host.clone(), self.tell.clone());
        let thread = std::thread::Builder::new().name("wirelane-doctor".to_owned());
        let asked = thread.spawn(move || {
            // Nobody waits for it any more if the program ends.
            let _ = tell.send(Event::Words(number, findings::ask(&host, &question)));
        });
        if let Err(error) = asked {
            self.app.answer(number, vec![format!("start a thread: {error}")]);
        }
    }
}

/// Reads keys until nobody listens; the thread ends with the process.
fn hear_keys(tell: Sender<Event>) -> Result<(), Failure> {
    let hear = move || {
        loop {
            let event = match event::read() {
                Ok(event::Event::Key(key)) => Event::Key(key),
                Ok(event::Event::Resize(..)) => Event::Resized,
                Ok(_) => continue,
                Err(error) => Event::Lost(error.to_string()),
            };
            let lost = matches!(event, Event::Lost(_));
            if tell.send(event).is_err() || lost {
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name("wirelane-keys".to_owned());
    let thread = thread.spawn(hear);
    thread.map(drop).map_err(|error| Failure::failed(format!("start a thread: {error}")))
}
