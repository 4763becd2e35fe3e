//! A blocking GET of one page, with limits of time and length.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use std::{error, fmt};

/// Why a page could not be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum GetError {
    /// The connection failed.
    Io(io::Error),
    /// The page was not complete in time.
    TimedOut,
    /// The answer has more bytes than this.
    TooLong(usize),
    /// The answer is not HTTP.
    NotHttp,
    /// The status is not 200.
    Status(u16),
}

/// Reads a page. `timeout` is for all of it, `max_bytes` for head and body together.
pub fn get(
    address: SocketAddr,
    path: &str,
    timeout: Duration,
    max_bytes: usize,
) -> Result<String, GetError> {
    let deadline = Instant::now() + timeout;
    let mut socket = TcpStream::connect_timeout(&address, timeout)?;
    socket.set_write_timeout(Some(timeout))?;
    // In HTTP/1.0 the body is not chunked, and the server closes the connection after it.
    // One write: `write!` would send a packet for each part of the text.
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    socket.write_all(request.as_bytes())?;
    let mut bytes = Vec::new();
    let mut part = [0; 16 << 10];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(GetError::TimedOut);
        }
        socket.set_read_timeout(Some(left))?;
        match socket.read(&mut part)? {
            0 => break,
            read => bytes.extend_from_slice(&part[..read]),
        }
        if bytes.len() > max_bytes {
            return Err(GetError::TooLong(max_bytes));
        }
    }
    body(&String::from_utf8_lossy(&bytes)).map(str::to_owned)
}

fn body(text: &str) -> Result<&str, GetError> {
    let (head, body) = text.split_once("\r\n\r\n").ok_or(GetError::NotHttp)?;
    let status = head.strip_prefix("HTTP/").and_then(|head| head.split_whitespace().nth(1));
    match status.and_then(|status| status.parse().ok()) {
        Some(200) => Ok(body),
        Some(status) => Err(GetError::Status(status)),
        None => Err(GetError::NotHttp),
    }
}

impl From<io::Error> for GetError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => GetError::TimedOut,
            _ => GetError::Io(error),
        }
    }
}

impl fmt::Display for GetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GetError::Io(error) => error.fmt(f),
            GetError::TimedOut => f.write_str("timed out"),
            GetError::TooLong(limit) => write!(f, "the answer is longer than {} MiB", limit >> 20),
            GetError::NotHttp => f.write_str("the answer is not HTTP"),
            GetError::Status(status) => write!(f, "HTTP status {status}"),
        }
    }
}

impl error::Error for GetError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            GetError::Io(error) => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// Gets a page from a server that answers with these bytes, then closes unless `stays_open`.
    fn get_from(answer: &'static [u8], stays_open: bool) -> Result<String, GetError> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let server = thread::spawn(move || {
            let (mut client, _) = listener.accept().expect("a client");
            let mut request = [0; 1024];
            let read = client.read(&mut request).expect("a request");
            assert!(request[..read].starts_with(b"GET /metrics HTTP/1.0\r\n"));
            // The client may close before all is sent.
            let _ = client.write_all(answer);
            stays_open.then_some(client)
        });
        let page = get(address, "/metrics", Duration::from_millis(500), 64);
        drop(server.join());
        page
    }

    #[test]
    fn get_returns_the_body() {
        let page = get_from(b"HTTP/1.0 200 OK\r\nServer: x\r\n\r\nkeys 3\n", false);
        assert_eq!(page.expect("a page"), "keys 3\n");
    }

    #[test]
    fn bad_status_other_protocols_and_long_answers_are_errors() {
        let denied = get_from(b"HTTP/1.1 401 Unauthorized\r\n\r\n", false);
        assert!(matches!(denied, Err(GetError::Status(401))));
        assert!(matches!(get_from(b"SSH-2.0 200\r\n\r\n", false), Err(GetError::NotHttp)));
        assert!(matches!(get_from(b"", false), Err(GetError::NotHttp)));
        assert!(matches!(get_from(&[b'x'; 65], true), Err(GetError::TooLong(64))));
    }

    #[test]
    fn get_times_out_without_an_answer() {
        assert!(matches!(get_from(b"HTTP/1.0 200 OK\r\n", true), Err(GetError::TimedOut)));
    }
}
