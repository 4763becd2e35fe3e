//! The control connection: messages over a session, with timeouts.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use fabric::session::Session;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::Error;
use crate::message::Message;

/// One end of the control connection.
pub(crate) struct ControlConnection {
    session: Session,
}

impl ControlConnection {
    pub(crate) fn new(session: Session) -> ControlConnection {
        ControlConnection { session }
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// Sends a message completely.
    pub(crate) fn send(&mut self, message: &Message) -> Result<(), Error> {
        let bytes = serde_json::to_vec(message).map_err(|error| Error::gone(error.to_string()))?;
        self.session.send(&bytes).map_err(lost)?;
        let deadline = Instant::now() + STEP_TIMEOUT;
        while self.session.wants_to_write() {
            self.wait_ready(PollFlags::OUT, left(deadline)?);
            self.session.flush().map_err(lost)?;
        }
        Ok(())
    }

    /// Receives the next message; a refusal is an error.
    pub(crate) fn receive(&mut self, limit: Duration) -> Result<Message, Error> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(message) = self.try_receive()? {
                return Ok(message);
            }
            self.wait_ready(PollFlags::IN, left(deadline)?);
        }
    }

    /// Receives a message, if there is one.
    pub(crate) fn try_receive(&mut self) -> Result<Option<Message>, Error> {
        let Some(bytes) = self.session.receive().map_err(lost)? else { return Ok(None) };
        match serde_json::from_slice(&bytes) {
            Ok(Message::Refused { misuse: true, why }) => Err(Error::misuse(why)),
            Ok(Message::Refused { misuse: false, why }) => Err(Error::refused(why)),
            Ok(message) => Ok(Some(message)),
            Err(_) => Err(Error::gone(
                "the other end sent an unknown message: run the same version at both ends",
            )),
        }
    }

    fn wait_ready(&self, flags: PollFlags, limit: Duration) {
        let mut fds = [PollFd::from_borrowed_fd(self.session.as_fd(), flags)];
        let _ = poll(&mut fds, Timespec::try_from(limit).ok().as_ref());
    }
}

/// The error of a message that is not expected now.
pub(crate) fn unexpected(message: &Message) -> Error {
    let name = format!("{message:?}");
    let name = name.split([' ', '(', '{']).next().unwrap_or_default();
    Error::gone(format!(
        "the other end sent an unexpected message ({name}): run the same version at both ends"
    ))
}

fn lost(lost: fabric::session::SessionError) -> Error {
    Error::gone(format!("connection to the other end lost: {lost}"))
}

fn left(deadline: Instant) -> Result<Duration, Error> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(Error::gone(
            "no answer from the other end in time: check that it is running and reachable",
        ));
    }
    Ok(left)
}

/// The timeout of one step.
pub(crate) const STEP_TIMEOUT: Duration = Duration::from_secs(30);
