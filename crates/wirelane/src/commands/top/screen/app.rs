//! The screen's state, and what keys do to it. No drawing, no I/O.

use std::path::PathBuf;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use doctor::monitoring::MachineSample;
use ratatui::widgets::TableState;

use super::rows::{RowView, Sort};
use super::style::TerminalStyle;
use crate::commands::top::feed::{FeedCommand, FeedEvent};
use crate::commands::top::findings::DoctorQuery;
use crate::commands::top::history::History;
use crate::commands::top::summary::IntervalSummary;

/// The screen's state.
#[derive(Debug)]
pub(super) struct App {
    pub(super) style: TerminalStyle,
    pub(super) summary: Option<IntervalSummary>,
    before: Option<MachineSample>,
    pub(super) history: History,
    pub(super) view: RowView,
    /// Whether the user is typing the filter.
    pub(super) typing: bool,
    pub(super) window: Option<Window>,
    /// Number of queries to the doctor: only the answer to the last one is displayed.
    queries: u64,
    pub(super) paused: bool,
    pub(super) interval: Duration,
    pub(super) recording: Option<(PathBuf, u64)>,
    /// A message, displayed until the next key.
    pub(super) message: Option<String>,
    /// Replay: the number of the sample, and of how many.
    pub(super) position: Option<(usize, usize)>,
    pub(super) is_replay: bool,
    pub(super) ports: TableState,
    pub(super) gpus: TableState,
    /// Rows per page; set when drawing.
    pub(super) page_rows: usize,
    /// Number of intervals displayed.
    pub(super) intervals: u64,
}

/// A window over the tables.
#[derive(Debug)]
pub(super) struct Window {
    pub(super) title: String,
    /// `None` while checks are running.
    pub(super) lines: Option<Vec<String>>,
    pub(super) scroll: u16,
}

/// What the loop must do after a key.
#[derive(Debug, PartialEq)]
pub(super) enum Action {
    Nothing,
    Quit,
    Feed(FeedCommand),
    /// Run the doctor's checks; the answer has this number.
    Diagnose(u64, DoctorQuery),
}

impl App {
    pub(super) fn new(style: TerminalStyle, interval: Duration, is_replay: bool) -> App {
        App {
            style,
            summary: None,
            before: None,
            history: History::default(),
            view: RowView::default(),
            typing: false,
            window: None,
            queries: 0,
            paused: false,
            interval,
            recording: None,
            message: None,
            position: None,
            is_replay,
            ports: TableState::default(),
            gpus: TableState::default(),
            page_rows: 1,
            intervals: 0,
        }
    }

    /// Handles an event of the feed.
    pub(super) fn handle(&mut self, event: FeedEvent, is_selected: impl Fn(&str) -> bool) {
        match event {
            FeedEvent::Sample(sample) => {
                let mut summary = IntervalSummary::between(self.before.as_ref(), &sample);
                summary.retain(is_selected);
                self.history.add(&summary);
                self.intervals += u64::from(self.before.is_some());
                (self.summary, self.before) = (Some(summary), Some(*sample));
            }
            FeedEvent::Reset => (self.before, self.history) = (None, History::default()),
            FeedEvent::Position(at, of) => self.position = Some((at, of)),
            FeedEvent::Recording(recording, why) => {
                self.recording = recording;
                self.message = why.or(self.message.take());
            }
            FeedEvent::End => self.paused = true,
            FeedEvent::Error(failure) => {
                self.message = Some(doctor::one_line(&failure.to_string()))
            }
        }
    }

    /// Displays the doctor's findings.
    pub(super) fn set_findings(&mut self, number: u64, lines: Vec<String>) {
        let is_last = number == self.queries;
        if let Some(window) =
            self.window.as_mut().filter(|window| is_last && window.lines.is_none())
        {
            window.lines = Some(lines);
        }
    }

    /// A key was pressed.
    pub(super) fn key(&mut self, key: KeyEvent) -> Action {
        if key.kind == KeyEventKind::Release {
            return Action::Nothing;
        }
        self.message = None;
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return if key.code == KeyCode::Char('c') { Action::Quit } else { Action::Nothing };
        }
        if self.window.is_some() {
            return self.key_in_window(key.code);
        }
        if self.typing {
            return self.key_in_filter(key.code);
        }
        self.key_in_tables(key.code)
    }

    fn key_in_window(&mut self, code: KeyCode) -> Action {
        let Some(window) = &mut self.window else { return Action::Nothing };
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
        Action::Nothing
    }

    fn key_in_filter(&mut self, code: KeyCode) -> Action {
        match code {
            KeyCode::Char(letter) if self.view.filter.len() < MAX_FILTER_BYTES => {
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
        Action::Nothing
    }

    fn key_in_tables(&mut self, code: KeyCode) -> Action {
        match code {
            KeyCode::Esc if !self.view.filter.is_empty() => self.view.filter.clear(),
            KeyCode::Char('q') | KeyCode::Esc => return Action::Quit,
            KeyCode::Char('p' | ' ') => return self.pause(!self.paused),
            KeyCode::Char('s') => self.view.sort_by_next(),
            KeyCode::Char('S') => self.view.descending = !self.view.descending,
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Char('h' | '?') => self.window = Some(help(self.is_replay)),
            KeyCode::Char('+' | '=') => return self.change_interval(1),
            KeyCode::Char('-') => return self.change_interval(-1),
            KeyCode::Char('r') => return self.record(),
            KeyCode::Left if self.is_replay => return self.step(-1),
            KeyCode::Right if self.is_replay => return self.step(1),
            KeyCode::Enter => return self.diagnose(),
            KeyCode::Up | KeyCode::Char('k') => self.move_by(-1),
            KeyCode::Down | KeyCode::Char('j') => self.move_by(1),
            KeyCode::PageUp => self.move_by(-(self.page_rows as isize)),
            KeyCode::PageDown => self.move_by(self.page_rows as isize),
            KeyCode::Home => self.move_by(isize::MIN),
            KeyCode::End => self.move_by(isize::MAX),
            _ => {}
        }
        Action::Nothing
    }

    fn move_by(&mut self, by: isize) {
        if let Some(summary) = &self.summary {
            self.view.move_by(summary, by);
        }
    }

    fn pause(&mut self, pause: bool) -> Action {
        self.paused = pause;
        Action::Feed(FeedCommand::Pause(pause))
    }

    /// Steps through a recording, and pauses it.
    fn step(&mut self, by: isize) -> Action {
        self.paused = true;
        Action::Feed(FeedCommand::Step(by))
    }

    /// Makes the interval longer, or shorter.
    fn change_interval(&mut self, by: isize) -> Action {
        if self.is_replay {
            self.message = Some("the interval of a recording cannot be changed".to_owned());
            return Action::Nothing;
        }
        let intervals = INTERVALS_MS.map(Duration::from_millis);
        let next = match by {
            1.. => intervals.iter().find(|interval| **interval > self.interval),
            _ => intervals.iter().rfind(|interval| **interval < self.interval),
        };
        self.interval = next.copied().unwrap_or(self.interval);
        Action::Feed(FeedCommand::SetInterval(self.interval))
    }

    /// Starts a recording, or stops it.
    fn record(&mut self) -> Action {
        if self.is_replay {
            self.message = Some("a replay cannot be recorded".to_owned());
            return Action::Nothing;
        }
        if let Some((path, _)) = &self.recording {
            self.message = Some(format!("recorded to {}", path.display()));
            return Action::Feed(FeedCommand::Record(None));
        }
        let time = self.summary.as_ref().map_or("now", |summary| summary.time.as_str());
        let name = format!("wirelane-samples-{}.jsonl", time.replace([':', '-'], ""));
        Action::Feed(FeedCommand::Record(Some(PathBuf::from(name))))
    }

    fn diagnose(&mut self) -> Action {
        let query = self.summary.as_ref().and_then(|summary| self.view.query(summary));
        let Some(query) = query else { return Action::Nothing };
        self.queries += 1;
        self.window = Some(Window { title: query.title.clone(), lines: None, scroll: 0 });
        Action::Diagnose(self.queries, query)
    }

    /// The sort column, and whether it is descending.
    pub(super) fn sort(&self) -> (Sort, bool) {
        (self.view.sort, self.view.descending)
    }
}

fn help(is_replay: bool) -> Window {
    let more: &[&str] = match is_replay {
        true => &["left, right      previous or next sample", "p, space         play or pause"],
        false => &[
            "p, space         pause or resume",
            "+, -             longer or shorter interval",
            "r                start or stop recording",
        ],
    };
    let lines = HELP.iter().chain(more).chain(MEANINGS).map(|line| (*line).to_owned());
    Window { title: "keys".to_owned(), lines: Some(lines.collect()), scroll: 0 }
}

const HELP: &[&str] = &[
    "q, Esc, Ctrl-C   quit",
    "up, down, PageUp, PageDown, Home, End   select a row",
    "Enter            the doctor's findings on it",
    "s, S             sort by the next column, reverse the order",
    "/                filter rows by name; Esc clears the filter",
];

const MEANINGS: &[&str] = &[
    "h, ?             this help",
    "",
    "rx, tx b/s  bits per second, and the share of the link rate",
    "Gb/s        link rate; 10<40: actual and expected rate",
    "err/s       errors, drops and timeouts",
    "cong/s      marked packets, CNPs, pause frames; t: ticks that InfiniBand waited to send",
    "retr/s      packets lost or late, and retransmitted",
    "*           a saturated counter, or one that cannot be read",
    "Red is a fault, yellow is notable. Without colours a fault is marked with !",
];

/// Intervals for + and -.
const INTERVALS_MS: [u64; 10] = [100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 300_000];
const MAX_FILTER_BYTES: usize = 64;
