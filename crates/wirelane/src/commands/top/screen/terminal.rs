//! The terminal in raw mode, restored on exit, on errors and on a panic.

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

/// The terminal in raw mode, with the alternate screen.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Enters raw mode and the alternate screen.
    pub(super) fn open() -> Result<Screen, Failure> {
        restore_on_panic();
        enable_raw_mode().map_err(failed)?;
        // From here on, a failure must restore the terminal.
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
    // Ignore errors: the terminal may be gone.
    let _ = disable_raw_mode();
    let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
}

/// Restores the terminal before a panic message is printed, which the alternate screen would hide, and exits, whichever
/// thread panicked.
fn restore_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let default_hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            restore();
            default_hook(panic);
            exit::immediately(Err(Failure::failed("top panicked: please report this bug")))
        }));
    });
}

fn failed(error: io::Error) -> Failure {
    Failure::failed(format!("draw on the terminal: {error}"))
}
