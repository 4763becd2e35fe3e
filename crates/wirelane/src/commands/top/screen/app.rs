//! What the screen knows, and what keys do to it. It draws nothing and asks nobody.

use std::path::PathBuf;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use doctor::watch::Frame;
use ratatui::widgets::TableState;

use super::rows::{Sort, Viewed};
use super::style::Look;
use crate::commands::top::feed::{FeedEvent, Order};
use crate::commands::top::findings::Question;
use crate::commands::top::history::History;
use crate::commands::top::summary::Moment;

/// The screen's state.
#[derive(Debug)]
pub(super) struct App {
    pub(super) look: Look,
    pub(super) moment: Option<Moment>,
    before: Option<Frame>,
    pub(super) history: History,
    pub(super) view: Viewed,
    /// Whether the filter is being typed.
    pub(super) typing: bool,
    pub(super) window: Option<Window>,
    /// How many questions were asked: answers to others than the last come too late.
    asked: u64,
    pub(super) paused: bool,
    pub(super) every: Duration,
    pub(super) recording: Option<(PathBuf, u64)>,
    /// Something to be said once.
    pub(super) note: Option<String>,
    /// Of a recording: which frame of how many.
    pub(super) place: Option<(usize, usize)>,
    pub(super) is_replay: bool,
    pub(super) ports: TableState,
    pub(super) gpus: TableState,
    /// How many rows a page has; who draws says so.
    pub(super) page: usize,
    /// How many intervals were shown.
    pub(super) shown: u64,
}

/// A window over the tables.
#[derive(Debug)]
pub(super) struct Window {
    pub(super) title: String,
    /// Nothing while the doctor looks.
    pub(super) lines: Option<Vec<String>>,
    pub(super) scroll: u16,
}

/// What the loop has to do.
#[derive(Debug, PartialEq)]
pub(super) enum Act {
    Nothing,
    Quit,
    Order(Order),
    /// The doctor is asked, and answers by this number.
    Ask(u64, Question),
}

impl App {
    pub(super) fn new(look: Look, every: Duration, is_replay: bool) -> App {
        App {
            look,
            moment: None,
            before: None,
            history: History::default(),
            view: Viewed::default(),
            typing: false,
            window: None,
            asked: 0,
            paused: false,
            every,
            recording: None,
            note: None,
            place: None,
            is_replay,
            ports: TableState::default(),
            gpus: TableState::default(),
            page: 1,
            shown: 0,
        }
    }

    /// Takes in what the feed tells. `wanted` says which devices the user asked for.
    pub(super) fn take(&mut self, told: FeedEvent, wanted: impl Fn(&str) -> bool) {
        match told {
            FeedEvent::Frame(frame) => {
                let mut moment = Moment::between(self.before.as_ref(), &frame);
                moment.keep(wanted);
                self.history.add(&moment);
                self.shown += u64::from(self.before.is_some());
                (self.moment, self.before) = (Some(moment), Some(*frame));
            }
            FeedEvent::Anew => (self.before, self.history) = (None, History::default()),
            FeedEvent::Place(at, of) => self.place = Some((at, of)),
            FeedEvent::Recording(recording, why) => {
                self.recording = recording;
                self.note = why.or(self.note.take());
            }
            FeedEvent::End => self.paused = true,
            FeedEvent::Fault(failure) => self.note = Some(doctor::one_line(&failure.to_string())),
        }
    }

    /// The doctor's answer.
    pub(super) fn answer(&mut self, number: u64, lines: Vec<String>) {
        let is_last = number == self.asked;
        if let Some(window) =
            self.window.as_mut().filter(|window| is_last && window.lines.is_none())
        {
            window.lines = Some(lines);
        }
    }

    /// A key was pressed.
    pub(super) fn key(&mut self, key: KeyEvent) -> Act {
        if key.kind == KeyEventKind::Release {
            return Act::Nothing;
        }
        self.note = None;
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return if key.code == KeyCode::Char('c') { Act::Quit } else { Act::Nothing };
        }
        if self.window.is_some() {
            return self.key_in_window(key.code);
        }
        if self.typing {
            return self.key_in_filter(key.code);
        }
        self.key_in_tables(key.code)
    }

    fn key_in_window(&mut self, code: KeyCode) -> Act {
        let Some(window) = &mut self.window else { return Act::Nothing };
        let page = 10;
        let scroll = |by: i32| i32::from(window.scroll).saturating_add(by).max(0) as u16;
        match code {
            KeyCode::Up | KeyCode::Char('k') => window.scroll = scroll(-1),
            KeyCode::Down | KeyCode::Char('j') => window.scroll = scroll(1),
            KeyCode::PageUp => window.scroll = scroll(-page),
            KeyCode::PageDown | KeyCode::Char(' ') => window.scroll = scroll(page),
            KeyCode::Home => window.scroll = 0,
            KeyCode::Esc | KeyCode::Enter | KeyCode::Char('q' | 'h' | '?') => self.window = None,
            _ => {}
        }
        Act::Nothing
    }

    fn key_in_filter(&mut self, code: KeyCode) -> Act {
        match code {
            KeyCode::Char(letter) if self.view.filter.len() < LONGEST_FILTER => {
                self.view.filter.push(letter);
            }
            KeyCode::Backspace => drop(self.view.filter.pop()),
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.view.filter.clear();
                self.typing = false;
            }
            _ => {}
        }
        Act::Nothing
    }

    fn key_in_tables(&mut self, code: KeyCode) -> Act {
        match code {
            KeyCode::Char('q') | KeyCode::Esc => return Act::Quit,
            KeyCode::Char('p' | ' ') => return self.pause(!self.paused),
            KeyCode::Char('s') => self.view.sort_by_next(),
            KeyCode::Char('S') => self.view.descending = !self.view.descending,
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Char('h' | '?') => self.window = Some(help(self.is_replay)),
            KeyCode::Char('+' | '=') => return self.pace(1),
            KeyCode::Char('-') => return self.pace(-1),
            KeyCode::Char('r') => return self.record(),
            KeyCode::Left if self.is_replay => return self.step(-1),
            KeyCode::Right if self.is_replay => return self.step(1),
            KeyCode::Enter => return self.ask(),
            KeyCode::Up | KeyCode::Char('k') => self.go(-1),
            KeyCode::Down | KeyCode::Char('j') => self.go(1),
            KeyCode::PageUp => self.go(-(self.page as isize)),
            KeyCode::PageDown => self.go(self.page as isize),
            KeyCode::Home => self.go(isize::MIN),
            KeyCode::End => self.go(isize::MAX),
            _ => {}
        }
        Act::Nothing
    }

    fn go(&mut self, by: isize) {
        if let Some(moment) = &self.moment {
            self.view.go(moment, by);
        }
    }

    fn pause(&mut self, pause: bool) -> Act {
        self.paused = pause;
        Act::Order(Order::Pause(pause))
    }

    /// A recording stands still while one goes through it step by step.
    fn step(&mut self, by: isize) -> Act {
        self.paused = true;
        Act::Order(Order::Step(by))
    }

    /// Looks less often, or more.
    fn pace(&mut self, by: isize) -> Act {
        if self.is_replay {
            self.note = Some("the interval of a recording cannot be changed".to_owned());
            return Act::Nothing;
        }
        let paces = PACES_MS.map(Duration::from_millis);
        let next = match by {
            1.. => paces.iter().find(|pace| **pace > self.every),
            _ => paces.iter().rfind(|pace| **pace < self.every),
        };
        self.every = next.copied().unwrap_or(self.every);
        Act::Order(Order::Every(self.every))
    }

    /// Begins a recording, or ends it.
    fn record(&mut self) -> Act {
        if self.is_replay {
            self.note = Some("this is a recording already".to_owned());
            return Act::Nothing;
        }
        if let Some((path, _)) = &self.recording {
            self.note = Some(format!("recorded to {}", path.display()));
            return Act::Order(Order::Record(None));
        }
        let time = self.moment.as_ref().map_or("now", |moment| moment.time.as_str());
        let name = format!("wirelane-frames-{}.jsonl", time.replace([':', '-'], ""));
        Act::Order(Order::Record(Some(PathBuf::from(name))))
    }

    fn ask(&mut self) -> Act {
        let question = self.moment.as_ref().and_then(|moment| self.view.question(moment));
        let Some(question) = question else { return Act::Nothing };
        self.asked += 1;
        self.window = Some(Window { title: question.title.clone(), lines: None, scroll: 0 });
        Act::Ask(self.asked, question)
    }

    /// What the columns are sorted by.
    pub(super) fn sort(&self) -> (Sort, bool) {
        (self.view.sort, self.view.descending)
    }
}

fn help(is_replay: bool) -> Window {
    let more: &[&str] = match is_replay {
        true => &["left, right      one frame back, or on", "p, space         play, or pause"],
        false => &[
            "p, space         pause, or go on",
            "+, -             longer interval, or shorter",
            "r                begin to record, or end",
        ],
    };
    let lines = HELP.iter().chain(more).chain(MEANINGS).map(|line| (*line).to_owned());
    Window { title: "keys".to_owned(), lines: Some(lines.collect()), scroll: 0 }
}

const HELP: &[&str] = &[
    "q, Esc, Ctrl-C   quit",
    "up, down, PageUp, PageDown, Home, End   go to a row",
    "Enter            the doctor's findings on it",
    "s, S             sort by the next column, reverse the order",
    "/                show only rows that have these letters; Esc clears it",
];

const MEANINGS: &[&str] = &[
    "h, ?             this",
    "",
    "rx, tx b/s  bits in a second, and the part of what the link runs at",
    "Gb/s        what the port runs at; 10<40: and what it should run at",
    "err/s       errors, drops and timeouts",
    "cong/s      marked packets, notices of congestion, pauses; t: ticks that InfiniBand waited to send",
    "retr/s      what was lost or late, and sent again",
    "*           a saturated counter, or one that cannot be read",
    "Red is a fault, yellow is worth knowing. Without colours a fault has a ! in front.",
];

/// What the interval can be set to.
const PACES_MS: [u64; 10] = [100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 300_000];
const LONGEST_FILTER: usize = 64;
