//! The terminal as a screen, and given back as it was: on quitting, on errors, on a panic.

use std::io::{self, Stdout};
use std::sync::Once;

use crossterm::cursor::Show;
use crossterm::execute;
use crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;

use super::app::App;
use super::draw;
use crate::output::exit::{self, Failure};

/// The terminal while it is a screen.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Keys come one by one from now on, and what the terminal showed is put aside.
    pub(super) fn open() -> Result<Screen, Failure> {
        restore_on_panic();
        enable_raw_mode().map_err(failed)?;
        // Whatever fails from here on, the terminal is given back.
        let opened = execute!(io::stdout(), EnterAlternateScreen)
            .and_then(|()| Terminal::new(CrosstermBackend::new(io::stdout())));
        opened.map(|terminal| Screen { terminal }).map_err(|error| {
            restore();
            failed(error)
        })
    }

    pub(super) fn draw(&mut self, app: &mut App) -> Result<(), Failure> {
        self.terminal.draw(|frame| draw::draw(frame, app)).map(drop).map_err(failed)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

fn restore() {
    // A terminal that is gone needs nothing back.
    let _ = disable_raw_mode();
    let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
}

/// The message of a panic would be lost with the screen, and the shell left without echo. Whichever thread it was, what
/// is drawn on is gone: the program ends.
fn restore_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            restore();
            usual(panic);
            exit::immediately(Err(Failure::failed(
                "top ended by a fault of its own: please report it",
            )))
        }));
    });
}

fn failed(error: io::Error) -> Failure {
    Failure::failed(format!("draw on the terminal: {error}"))
}
