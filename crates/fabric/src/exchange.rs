//! Two ends tell each other a few bytes, over any stream: the least that a lane needs to come about.

use std::io::{self, Read, Write};

/// Sends `ours` and receives the other end's, which does the same at the same time. At most 64 KiB each;
/// how long to wait is up to the stream.
pub fn exchange(stream: &mut (impl Read + Write), ours: &[u8]) -> io::Result<Vec<u8>> {
    let length = u16::try_from(ours.len())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "more than 64 KiB to tell"))?;
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
    fn both_hear_the_other() {
        let (mut a, mut b) = UnixStream::pair().unwrap();
        let other = std::thread::spawn(move || exchange(&mut b, &[7; 60_000]).unwrap());
        assert_eq!(exchange(&mut a, b"hello").unwrap(), [7; 60_000]);
        assert_eq!(other.join().unwrap(), b"hello");
    }

    #[test]
    fn too_much_is_not_sent_and_too_little_is_an_end() {
        let (mut a, b) = UnixStream::pair().unwrap();
        assert_eq!(exchange(&mut a, &[0; 65_536]).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        drop(b);
        exchange(&mut a, b"anybody?").unwrap_err();
    }
}
