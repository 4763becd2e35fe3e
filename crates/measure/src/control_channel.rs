//! The control channel: whole messages, with time limits.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use fabric::session::Session;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::Error;
use crate::message::Message;

/// One end of the conversation.
pub(crate) struct ControlChannel {
    session: Session,
}

impl ControlChannel {
    pub(crate) fn new(session: Session) -> ControlChannel {
        ControlChannel { session }
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// Says something, all of it.
    pub(crate) fn say(&mut self, message: &Message) -> Result<(), Error> {
        let bytes = serde_json::to_vec(message).map_err(|error| Error::gone(error.to_string()))?;
        self.session.send(&bytes).map_err(lost)?;
        let deadline = Instant::now() + PATIENCE;
        while self.session.wants_to_write() {
            self.rest(PollFlags::OUT, left(deadline)?);
            self.session.flush().map_err(lost)?;
        }
        Ok(())
    }

    /// What the other end says next; a refusal is an error.
    pub(crate) fn hear(&mut self, limit: Duration) -> Result<Message, Error> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(message) = self.overhear()? {
                return Ok(message);
            }
            self.rest(PollFlags::IN, left(deadline)?);
        }
    }

    /// What the other end has said, if it has.
    pub(crate) fn overhear(&mut self) -> Result<Option<Message>, Error> {
        let Some(bytes) = self.session.receive().map_err(lost)? else { return Ok(None) };
        match serde_json::from_slice(&bytes) {
            Ok(Message::No { misuse: true, why }) => Err(Error::misuse(why)),
            Ok(Message::No { misuse: false, why }) => Err(Error::refused(why)),
            Ok(message) => Ok(Some(message)),
            Err(_) => Err(Error::gone("the other end says what no version of this program does")),
        }
    }

    fn rest(&self, flags: PollFlags, limit: Duration) {
        let mut fds = [PollFd::from_borrowed_fd(self.session.as_fd(), flags)];
        let _ = poll(&mut fds, Timespec::try_from(limit).ok().as_ref());
    }
}

/// What was not meant to come now.
pub(crate) fn out_of_turn(message: &Message) -> Error {
    let name = format!("{message:?}");
    let name = name.split([' ', '(', '{']).next().unwrap_or_default();
    Error::gone(format!(
        "the other end said {name} when something else was due: run the same version at both ends"
    ))
}

fn lost(lost: fabric::session::SessionError) -> Error {
    Error::gone(format!("the other end is gone: {lost}"))
}

fn left(deadline: Instant) -> Result<Duration, Error> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(Error::gone(
            "the other end does not answer: it hangs, or the network between does",
        ));
    }
    Ok(left)
}

/// How long one step may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
