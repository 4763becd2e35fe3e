//! `top` on a terminal. One loop handles keys, samples, the doctor's findings and signals; each has its own thread,
//! which may block.

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
use super::feed::{FeedCommand, FeedEvent};
use super::findings::{self, DoctorQuery};
use crate::arguments::host::HostArgs;
use crate::output::{Exit, Failure};
use crate::settings::Global;
use crate::signals;
use app::{Action, App};
use style::TerminalStyle;
use terminal::Screen;

/// An event for the loop.
enum Event {
    Key(KeyEvent),
    Resized,
    Feed(FeedEvent),
    /// The doctor's findings, with the number of the query.
    Findings(u64, Vec<String>),
    Stop,
    /// Keys can no longer be read.
    TerminalLost(String),
}

pub(super) fn run(global: &Global, args: &TopArgs) -> Result<Exit, Failure> {
    let (sender, events) = mpsc::channel();
    // The first wait takes a lock of the dynamic linker: do it now, before a driver that hangs while loading can hold
    // it.
    let _ = events.recv_timeout(Duration::from_millis(1));
    let feed_sender = sender.clone();
    let commands = args.feed(global, move |event| feed_sender.send(Event::Feed(event)).is_ok())?;
    let stop = sender.clone();
    signals::on_first_signal(move || drop(stop.send(Event::Stop)))?;
    let screen = Screen::open()?;
    read_keys(sender.clone())?;
    Top {
        args,
        app: App::new(TerminalStyle::from_environment(), args.interval, args.replay.is_some()),
        commands,
        sender,
    }
    .run(screen, &events)
}

/// The loop and what it needs.
struct Top<'a> {
    args: &'a TopArgs,
    app: App,
    commands: Sender<FeedCommand>,
    sender: Sender<Event>,
}

impl Top<'_> {
    fn run(mut self, mut screen: Screen, events: &Receiver<Event>) -> Result<Exit, Failure> {
        screen.draw(&mut self.app)?;
        // Handle all pending events before drawing.
        while let Ok(first) = events.recv() {
            for event in std::iter::once(first).chain(events.try_iter()) {
                if self.handle(event)? {
                    return Ok(Exit::Done);
                }
            }
            screen.draw(&mut self.app)?;
        }
        Ok(Exit::Done)
    }

    /// Handles an event. Returns true to exit.
    fn handle(&mut self, event: Event) -> Result<bool, Failure> {
        match event {
            Event::Key(key) => return Ok(self.act(key)),
            Event::Resized => {}
            Event::Feed(event) => self.app.handle(event, |device| self.args.selects(device)),
            Event::Findings(number, lines) => self.app.set_findings(number, lines),
            Event::Stop => return Ok(true),
            Event::TerminalLost(why) => return Err(Failure::failed(format!("read keys: {why}"))),
        }
        Ok(self.args.count.is_some_and(|count| self.app.intervals >= count))
    }

    fn act(&mut self, key: KeyEvent) -> bool {
        match self.app.key(key) {
            Action::Nothing => {}
            Action::Quit => return true,
            // Ignore errors: the feed may have ended.
            Action::Feed(command @ FeedCommand::Step(_)) => {
                let _ = self.commands.send(FeedCommand::Pause(true));
                let _ = self.commands.send(command);
            }
            Action::Feed(command) => drop(self.commands.send(command)),
            Action::Diagnose(number, query) => self.diagnose(number, query),
        }
        false
    }

    fn diagnose(&mut self, number: u64, query: DoctorQuery) {
        if self.args.replay.is_some() {
            return self.app.set_findings(number, findings::for_recording(&query));
        }
        let (host, sender): (HostArgs, _) = (self.args.host.clone(), self.sender.clone());
        let thread = std::thread::Builder::new().name("wirelane-doctor".to_owned());
        let started = thread.spawn(move || {
            // The receiver is gone if the program ends.
            let _ = sender.send(Event::Findings(number, findings::run_checks(&host, &query)));
        });
        if let Err(error) = started {
            self.app.set_findings(number, vec![format!("start a thread: {error}")]);
        }
    }
}

/// Reads keys until the receiver is gone; the thread ends with the process.
fn read_keys(sender: Sender<Event>) -> Result<(), Failure> {
    let read = move || {
        loop {
            let event = match event::read() {
                Ok(event::Event::Key(key)) => Event::Key(key),
                Ok(event::Event::Resize(..)) => Event::Resized,
                Ok(_) => continue,
                Err(error) => Event::TerminalLost(error.to_string()),
            };
            let is_lost = matches!(event, Event::TerminalLost(_));
            if sender.send(event).is_err() || is_lost {
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name("wirelane-keys".to_owned());
    let thread = thread.spawn(read);
    thread.map(drop).map_err(|error| Failure::failed(format!("start a thread: {error}")))
}
