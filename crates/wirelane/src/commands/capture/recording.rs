//! Writes packets to a capture file, until a limit is reached.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Stdout, Write};
use std::path::Path;

use doctor::capture::{Method, Packet, PacketCounts, PacketKind, Writer};
use serde::Serialize;

use super::source::PacketSource;
use crate::output;
use crate::output::Failure;

/// A file, or stdout.
pub(super) enum Sink {
    File(BufWriter<File>),
    Stdout(Stdout),
}

/// When to stop.
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
    /// Stdout was closed.
    Reader,
    /// The source ended.
    Source,
}

/// A capture that is being written.
pub(super) struct Recording {
    state: State,
    limits: Limits,
    counts: PacketCounts,
}

enum State {
    /// The link type is not known yet.
    Waiting(Sink),
    Writing {
        writer: Writer<Sink>,
        link_type: u32,
    },
    /// Temporarily, while changing from one to the other.
    Changing,
}

impl Recording {
    pub(super) fn begin(sink: Sink, limits: Limits) -> Recording {
        Recording { state: State::Waiting(sink), limits, counts: PacketCounts::default() }
    }

    /// Writes the packets that the method selects; returns an ending if a limit is reached.
    pub(super) fn add(
        &mut self,
        source: &PacketSource,
        method: &Method,
        packets: Vec<Packet>,
    ) -> Result<Option<Ending>, Failure> {
        let written = self.write(source.link_type(), method, packets);
        match written {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Some(Ending::Reader)),
            other => other.map_err(failed),
        }
    }

    fn write(
        &mut self,
        link_type: Option<u32>,
        method: &Method,
        packets: Vec<Packet>,
    ) -> io::Result<Option<Ending>> {
        let Some(link_type) = link_type else { return Ok(None) };
        if let State::Waiting(_) = self.state {
            self.open(link_type)?;
        }
        let State::Writing { writer, link_type } = &mut self.state else { return Ok(None) };
        for packet in packets {
            let kind = PacketKind::new(*link_type, &packet.bytes);
            if !method.wants(kind) {
                continue;
            }
            if writer.length_with(&packet) > self.limits.bytes {
                return Ok(Some(Ending::Size));
            }
            writer.write(&packet)?;
            self.counts.add(kind);
            if self.limits.packets.is_some_and(|max| self.counts.packets >= max) {
                return Ok(Some(Ending::Packets));
            }
        }
        Ok(None)
    }

    fn open(&mut self, link_type: u32) -> io::Result<()> {
        if let State::Waiting(sink) = std::mem::replace(&mut self.state, State::Changing) {
            let writer = Writer::start(sink, link_type)?;
            self.state = State::Writing { writer, link_type };
        }
        Ok(())
    }

    pub(super) fn counts(&self) -> PacketCounts {
        self.counts
    }

    pub(super) fn bytes(&self) -> u64 {
        match &self.state {
            State::Writing { writer, .. } => writer.length(),
            State::Waiting(_) | State::Changing => 0,
        }
    }

    /// Flushes the file. A capture without packets is valid too.
    pub(super) fn close(mut self) -> Result<(), Failure> {
        let ended = self.open(ETHERNET).and_then(|()| match self.state {
            State::Writing { writer, .. } => writer.finish().map(drop),
            State::Waiting(_) | State::Changing => Ok(()),
        });
        match ended {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other.map_err(failed),
        }
    }
}

impl Sink {
    /// Creates the file, readable only by its owner, since packets may contain secrets.
    pub(super) fn open(to: &Path) -> Result<Sink, Failure> {
        use std::os::unix::fs::OpenOptionsExt;
        if to == Path::new("-") {
            return Ok(Sink::Stdout(output::stdout()?));
        }
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to);
        file.map(|file| Sink::File(BufWriter::new(file))).map_err(|error| {
            let fix = match error.kind() {
                io::ErrorKind::AlreadyExists => " — pass another file with -o, or remove it",
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
    pub(super) fn describe(self) -> &'static str {
        match self {
            Ending::Time => "time limit reached",
            Ending::Packets => "packet limit reached",
            Ending::Size => "size limit reached",
            Ending::Interrupted => "interrupted",
            Ending::Reader => "stdout was closed",
            Ending::Source => "no more packets",
        }
    }
}

fn failed(error: io::Error) -> Failure {
    Failure::failed(format!("capture: write packets: {error}"))
}

const ETHERNET: u32 = 1;
