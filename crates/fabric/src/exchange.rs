//! Exchanges a few bytes with the other end over any stream: what is needed to set up a lane.

use std::io::{self, Read, Write};

/// Sends `ours` and receives the other end's bytes, which does the same. At most 65,535 bytes each;
/// timeouts are those of the stream.
pub fn exchange(stream: &mut (impl Read + Write), ours: &[u8]) -> io::Result<Vec<u8>> {
    let length = u16::try_from(ours.len()).map_err(|_| {
        io::Error::new(io::ErrorKind::InvalidInput, "more than 65,535 bytes to send")
    })?;
    stream.write_all(&[&length.to_le_bytes()[..], ours].concat())?;
    stream.flush()?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut theirs = vec![0; usize::from(u16::from_le_bytes(length))];
    stream.read_exact(&mut theirs)?;
    Ok(theirs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn both_receive_the_others_bytes() {
        let (mut a, mut b) = UnixStream::pair().unwrap();
        let other = std::thread::spawn(move || exchange(&mut b, &[7; 60_000]).unwrap());
        assert_eq!(exchange(&mut a, b"hello").unwrap(), [7; 60_000]);
        assert_eq!(other.join().unwrap(), b"hello");
    }

    #[test]
    fn too_many_bytes_and_a_closed_stream_are_errors() {
        let (mut a, b) = UnixStream::pair().unwrap();
        assert_eq!(exchange(&mut a, &[0; 65_536]).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        drop(b);
        exchange(&mut a, b"hello").unwrap_err();
    }
}
