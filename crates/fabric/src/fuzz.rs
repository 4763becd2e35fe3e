//! Listeners for the fuzzer: everything that reads bytes of a peer. Each takes any bytes, and panics only
//! if something is wrong.

pub use self::engine_acceptor::engine;

/// A region, as a peer describes it.
pub fn remote_region(bytes: &[u8]) {
    if let Ok(remote) = crate::RemoteRegion::from_bytes(bytes) {
        assert_eq!(remote.to_bytes(), bytes);
    }
}

/// What peers offer before they connect, over every lane.
pub fn offers(bytes: &[u8]) {
    crate::tcp::fuzz_offer(bytes);
    crate::shm::fuzz_offer(bytes);
    crate::sim::fuzz_offer(bytes);
    crate::verbs::fuzz_offer(bytes);
    crate::ofi::fuzz_offer(bytes);
}

/// What a process says on the socket that brings descriptors.
pub fn courier(bytes: &[u8]) {
    crate::shm::fuzz_courier(bytes);
}

/// What a process writes on the board that we map.
pub fn ring(bytes: &[u8]) {
    crate::shm::fuzz_ring(bytes);
}

/// What callers and listeners say before a session is open, and callers after it.
pub fn handshake(bytes: &[u8]) {
    crate::session::fuzz_handshake(bytes);
}

/// What links say of themselves, to each other, and before each message.
pub fn link_messages(bytes: &[u8]) {
    crate::link::fuzz_messages(bytes);
}

/// What the peer of a link that is up says, in control messages and on its lane.
pub fn link_peer(bytes: &[u8]) {
    crate::link::fuzz_peer(bytes);
}

mod engine_acceptor {
    #![allow(unsafe_code, reason = "implements a stream, see `engine/stream.rs`")]

    use std::collections::HashSet;
    use std::io;
    use std::time::Duration;

    use crate::engine::{Engine, Stream};
    use crate::iovec::Part;
    use crate::memory::{Memory, Pages, copy::copy};
    use crate::op::{Op, Work};
    use crate::region::{Region, Rights};
    use crate::remote::{Reach, Window};
    use crate::setup::register_software;

    /// A peer that says whatever the fuzzer wants, in pieces as it wants, and listens to nothing.
    struct Liar {
        sends: Vec<u8>,
        sent: usize,
        piece: usize,
        deaf: bool,
    }

    impl Stream for Liar {
        const NUMBERS_ALONE: bool = true;
        const AHEAD: usize = 256;

        /// Takes as much as it says at a time, and every other time nothing.
        unsafe fn write(&mut self, parts: &[Part]) -> io::Result<usize> {
            self.deaf = !self.deaf;
            if self.deaf {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Ok(parts.iter().map(|part| part.length).sum::<usize>().min(self.piece))
        }

        unsafe fn read(&mut self, parts: &[Part]) -> io::Result<usize> {
            let mut count = 0;
            for part in parts {
                let left = (self.sends.len() - self.sent).min(self.piece - count);
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

    /// The protocol of frames. The first byte says how large pieces are; where a frame's key is a small
    /// number, it becomes that of a region, which no fuzzer could guess.
    pub fn engine(bytes: &[u8]) {
        let Some((piece, sends)) = bytes.split_first() else { return };
        let regions = [
            region(Rights::ALL),
            region(Rights { read: true, ..Rights::NONE }),
            region(Rights { write: true, ..Rights::NONE }),
        ];
        let mut sends = sends.to_vec();
        let liar = Liar { sends: Vec::new(), sent: 0, piece: usize::from(*piece) + 1, deaf: false };
        let mut engine = Engine::new([liar], Duration::from_secs(3600));
        let keys = regions.each_ref().map(|region| engine.core.grants.add(region).expect("a row"));
        for header in sends.chunks_exact_mut(64) {
            if let Some(key) = keys.get(usize::from(header[24])) {
                header[24..40].copy_from_slice(&key.to_le_bytes());
            }
        }
        engine.streams_mut().for_each(|liar| liar.sends.clone_from(&sends));
        let own = region(Rights::NONE);
        let reach = Reach::Ask { key: 5 };
        let window = Window::new(0, 4096, Rights::ALL, reach);
        let ops = [
            Op::receive(0, own.slice(..100)),
            Op::receive(1, own.slice(100..100)),
            Op::read(2, own.slice(200..300), window.at(0)),
            Op::write(3, own.slice(..64), window.at(0)),
            Op::send(4, own.slice(..64)),
            Op {
                token: 5,
                work: Work::FetchAdd { old: own.slice(400..408), at: window.at(0), add: 1 },
            },
        ];
        for op in ops {
            engine.begin(op);
        }
        engine.flush();
        let (mut done, mut seen) = (Vec::new(), HashSet::new());
        for _ in 0..sends.len() / (usize::from(*piece) + 1) + 8 {
            engine.poll(&mut done);
        }
        engine.close(crate::Failure::Flushed);
        engine.poll(&mut done);
        for completion in &done {
            assert!(seen.insert(completion.token), "{} came back twice", completion.token);
        }
        assert_eq!(seen.len(), 6, "everything comes back");
        assert_eq!(regions[1].slice(..).to_vec(), [0; 4096], "nobody may write there");
        assert_eq!(own.slice(408..).to_vec(), [0; 4096 - 408], "nor there");
    }
}

#[cfg(test)]
mod tests {
    /// The listeners open, and some bytes that look like frames get through; `cargo xtask fuzz` tries more.
    #[test]
    fn random_bytes_and_random_frames_hurt_nobody() {
        let mut state = 1u64;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for round in 0..3000 {
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
            for acceptor in [
                super::engine,
                super::ring,
                super::courier,
                super::offers,
                super::remote_region,
                super::handshake,
                super::link_messages,
                super::link_peer,
            ] {
                acceptor(&bytes);
            }
        }
    }
}
