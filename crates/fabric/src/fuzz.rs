//! Fuzz targets: everything that reads bytes of a peer. Each accepts any bytes, and panics only
//! on a bug.

pub use self::stream_engine_target::stream_engine;

/// A region, as a peer describes it.
pub fn remote_region(bytes: &[u8]) {
    if let Ok(remote) = crate::RemoteRegion::from_bytes(bytes) {
        assert_eq!(remote.to_bytes(), bytes);
    }
}

/// Offers of every transport.
pub fn offers(bytes: &[u8]) {
    crate::tcp::fuzz_offer(bytes);
    crate::shm::fuzz_offer(bytes);
    crate::sim::fuzz_offer(bytes);
    crate::verbs::fuzz_offer(bytes);
    crate::ofi::fuzz_offer(bytes);
}

/// Messages on the socket that passes descriptors.
pub fn peer_socket(bytes: &[u8]) {
    crate::shm::fuzz_peer_socket(bytes);
}

/// A peer's control block and ring, which we map.
pub fn ring(bytes: &[u8]) {
    crate::shm::fuzz_ring(bytes);
}

/// Messages before a session is open, from either end, and the initiator's after that.
pub fn handshake(bytes: &[u8]) {
    crate::session::fuzz_handshake(bytes);
}

/// Hellos, control messages and message headers of links.
pub fn link_messages(bytes: &[u8]) {
    crate::link::fuzz_messages(bytes);
}

/// What the peer of an established link sends, in control messages and on its lane.
pub fn link_peer(bytes: &[u8]) {
    crate::link::fuzz_peer(bytes);
}

mod stream_engine_target {
    #![allow(unsafe_code, reason = "implements a stream, see `stream_engine/stream.rs`")]

    use std::collections::HashSet;
    use std::io;
    use std::time::Duration;

    use crate::iovec::IoVec;
    use crate::memory::{Memory, Pages, copy::copy};
    use crate::op::{Op, Work};
    use crate::region::{Region, Rights};
    use crate::remote::{AccessMethod, Window};
    use crate::setup::register_software;
    use crate::stream_engine::{Stream, StreamEngine};

    /// The longest packet that the engine accepts.
    const MAX_PACKET_BYTES: usize = 512;

    /// A peer that sends the fuzzer's bytes, in chunks of the fuzzer's size, and ignores what it receives.
    struct FuzzedPeer {
        sends: Vec<u8>,
        sent: usize,
        chunk: usize,
        blocked: bool,
    }

    impl Stream for FuzzedPeer {
        const IMM_WITHOUT_DATA: bool = true;
        const WRITES_AT_ONCE: bool = true;
        const READ_AHEAD_BYTES: usize = 256;

        /// Accepts one chunk at a time, and nothing every other time.
        unsafe fn write(&mut self, parts: &[IoVec]) -> io::Result<usize> {
            self.blocked = !self.blocked;
            if self.blocked {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Ok(parts.iter().map(|part| part.length).sum::<usize>().min(self.chunk))
        }

        unsafe fn read(&mut self, parts: &[IoVec]) -> io::Result<usize> {
            let mut count = 0;
            for part in parts {
                let left = (self.sends.len() - self.sent).min(self.chunk - count);
                let take = part.length.min(left);
                // SAFETY: the engine's part is writable; the bytes are ours.
                unsafe { copy(part.address, self.sends[self.sent..].as_ptr(), take) };
                self.sent += take;
                count += take;
            }
            if count == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(count) }
        }

        fn finish(&mut self) {}

        fn close(&mut self) {}
    }

    fn region(rights: Rights) -> Region {
        let memory = Memory::allocate(4096, Pages::Plain).expect("a page");
        register_software(&memory, rights)
    }

    /// The frame protocol. The first byte is the size of chunks. A small number as a frame's key
    /// is replaced by a region's key, which no fuzzer could guess.
    pub fn stream_engine(bytes: &[u8]) {
        let Some((chunk, sends)) = bytes.split_first() else { return };
        let regions = [
            region(Rights::ALL),
            region(Rights { read: true, ..Rights::NONE }),
            region(Rights { write: true, ..Rights::NONE }),
        ];
        let mut sends = sends.to_vec();
        let peer = FuzzedPeer {
            sends: Vec::new(),
            sent: 0,
            chunk: usize::from(*chunk) + 1,
            blocked: false,
        };
        let mut engine = StreamEngine::new([peer], Duration::from_secs(3600));
        engine.state.accept_packets(MAX_PACKET_BYTES);
        let keys = regions.each_ref().map(|region| engine.state.grants.add(region).expect("a row"));
        for header in sends.chunks_exact_mut(64) {
            if let Some(key) = keys.get(usize::from(header[24])) {
                header[24..40].copy_from_slice(&key.to_le_bytes());
            }
        }
        engine.streams_mut().for_each(|peer| peer.sends.clone_from(&sends));
        let own = region(Rights::NONE);
        let access_method = AccessMethod::Request { key: 5 };
        let window = Window::new(0, 4096, Rights::ALL, access_method);
        let ops = [
            Op::receive(0, own.slice(..100)),
            Op::receive(1, own.slice(100..100)),
            Op::read(2, own.slice(200..300), window.at(0)),
            Op::write(3, own.slice(..64), window.at(0)),
            Op::send(4, own.slice(..64)),
            Op {
                op_id: 5,
                work: Work::FetchAdd { old: own.slice(400..408), at: window.at(0), add: 1 },
            },
        ];
        for op in ops {
            engine.start(op);
        }
        engine.flush();
        let (mut done, mut seen) = (Vec::new(), HashSet::new());
        let mut packets: Vec<Vec<u8>> = Vec::new();
        for poll in 0..sends.len() / (usize::from(*chunk) + 1) + 8 {
            match poll % 2 {
                0 => engine.poll(&mut done),
                _ => engine.poll_packets(&mut packets, &mut done).arrived as usize,
            };
        }
        let longest = packets.iter().map(Vec::len).max();
        assert!(longest.is_none_or(|longest| longest <= MAX_PACKET_BYTES), "{longest:?}");
        engine.close(crate::Failure::Flushed);
        engine.poll(&mut done);
        for completion in &done {
            assert!(seen.insert(completion.op_id), "{} was returned twice", completion.op_id);
        }
        assert_eq!(seen.len(), 6, "not every operation was returned");
        assert_eq!(
            regions[1].slice(..).to_vec(),
            [0; 4096],
            "a region without the right to write changed"
        );
        assert_eq!(
            own.slice(408..).to_vec(),
            [0; 4096 - 408],
            "bytes outside of all operations changed"
        );
    }
}

#[cfg(test)]
mod tests {
    /// A short run of all targets with random bytes and plausible frames; `cargo xtask fuzz` tries more.
    #[test]
    fn random_bytes_and_random_frames_cause_no_panic() {
        let mut state = 1u64;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for round in 0..1000 {
            let length = random() as usize % 400;
            let mut bytes: Vec<u8> = (0..length).map(|_| random() as u8).collect();
            if round % 2 == 0 {
                // Headers with known kinds, small numbers and known keys.
                for header in bytes.get_mut(1..).unwrap_or_default().chunks_exact_mut(64) {
                    header[0] = header[0] % 10 + 1;
                    header[1] %= 2;
                    header[2..4].fill(0);
                    header[5..8].fill(0);
                    header[9..16].fill(0);
                    header[16] %= 3;
                    header[17..24].fill(0);
                    header[24] %= 4;
                    header[41..48].fill(0);
                }
            }
            for target in [
                super::stream_engine,
                super::ring,
                super::peer_socket,
                super::offers,
                super::remote_region,
                super::handshake,
                super::link_messages,
                super::link_peer,
            ] {
                target(&bytes);
            }
        }
    }
}
