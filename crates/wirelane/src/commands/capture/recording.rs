//! Where packets go: a capture file, until a limit is reached.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Stdout, Write};
use std::path::Path;

use doctor::capture::{Counts, Method, Packet, PacketKind, Writer};
use serde::Serialize;

use super::source::Feed;
use crate::output::Failure;

/// A file, or stdout.
pub(super) enum Sink {
    File(BufWriter<File>),
    Stdout(Stdout),
}

/// When it is enough.
pub(super) struct Limits {
    pub(super) packets: Option<u64>,
    pub(super) bytes: u64,
}

/// Why a capture ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ending {
    Time,
    Packets,
    Size,
    Interrupted,
    /// Whoever reads our stdout has gone.
    Reader,
    /// There were no more.
    Source,
}

/// A capture that is being written.
pub(super) struct Recording {
    state: State,
    limits: Limits,
    counts: Counts,
}

enum State {
    /// What packets begin with is not known yet.
    Waiting(Sink),
    Writing {
        writer: Writer<Sink>,
        link_type: u32,
    },
    /// Only between the other two.
    Gone,
}

impl Recording {
    pub(super) fn begin(sink: Sink, limits: Limits) -> Recording {
        Recording { state: State::Waiting(sink), limits, counts: Counts::default() }
    }

    /// Writes those packets that are wanted; an ending if it is enough now.
    pub(super) fn take(
        &mut self,
        feed: &Feed,
        way: &Method,
        packets: Vec<Packet>,
    ) -> Result<Option<Ending>, Failure> {
        let taken = self.write(feed.link_type(), way, packets);
        match taken {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Some(Ending::Reader)),
            other => other.map_err(failed),
        }
    }

    fn write(
        &mut self,
        link_type: Option<u32>,
        way: &Method,
        packets: Vec<Packet>,
    ) -> io::Result<Option<Ending>> {
        let Some(link_type) = link_type else { return Ok(None) };
        if let State::Waiting(_) = self.state {
            self.open(link_type)?;
        }
        let State::Writing { writer, link_type } = &mut self.state else { return Ok(None) };
        for packet in packets {
            let kind = PacketKind::new(*link_type, &packet.bytes);
            if !way.wants(kind) {
                continue;
            }
            if writer.length_with(&packet) > self.limits.bytes {
                return Ok(Some(Ending::Size));
            }
            writer.write(&packet)?;
            self.counts.add(kind);
            if self.limits.packets.is_some_and(|most| self.counts.packets >= most) {
                return Ok(Some(Ending::Packets));
            }
        }
        Ok(None)
    }

    fn open(&mut self, link_type: u32) -> io::Result<()> {
        if let State::Waiting(sink) = std::mem::replace(&mut self.state, State::Gone) {
            let writer = Writer::start(sink, link_type)?;
            self.state = State::Writing { writer, link_type };
        }
        Ok(())
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    pub(super) fn bytes(&self) -> u64 {
        match &self.state {
            State::Writing { writer, .. } => writer.length(),
            State::Waiting(_) | State::Gone => 0,
        }
    }

    /// Writes out what is held back. A capture without packets is a capture too.
    pub(super) fn close(mut self) -> Result<(), Failure> {
        let ended = self.open(ETHERNET).and_then(|()| match self.state {
            State::Writing { writer, .. } => writer.finish().map(drop),
            State::Waiting(_) | State::Gone => Ok(()),
        });
        match ended {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other.map_err(failed),
        }
    }
}

impl Sink {
    /// A file that is not there yet, readable by its owner: packets hold whatever was sent.
    pub(super) fn open(to: &Path) -> Result<Sink, Failure> {
        use std::os::unix::fs::OpenOptionsExt;
        if to == Path::new("-") {
            return Ok(Sink::Stdout(io::stdout()));
        }
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to);
        file.map(|file| Sink::File(BufWriter::new(file))).map_err(|error| {
            let fix = match error.kind() {
                io::ErrorKind::AlreadyExists => " — name another by -o, or remove it",
                _ => "",
            };
            Failure::failed(format!("capture: write {}: {error}{fix}", to.display()))
        })
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Sink::File(file) => file.write(bytes),
            Sink::Stdout(stdout) => stdout.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Sink::File(file) => file.flush(),
            Sink::Stdout(stdout) => stdout.flush(),
        }
    }
}

impl Ending {
    pub(super) fn told(self) -> &'static str {
        match self {
            Ending::Time => "the time is over",
            Ending::Packets => "as many packets as wanted",
            Ending::Size => "the file is as long as it may be",
            Ending::Interrupted => "interrupted",
            Ending::Reader => "the reader has gone",
            Ending::Source => "there were no more",
        }
    }
}

fn failed(error: io::Error) -> Failure {
    Failure::failed(format!("capture: write packets: {error}"))
}

const ETHERNET: u32 = 1;
