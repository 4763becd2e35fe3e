//! The address of a peer.

use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use crate::output::Failure;

/// A host, by name or address, and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Peer {
    host: String,
    port: u16,
}

impl Peer {
    /// Parses HOST or HOST:PORT, with a default port.
    pub(crate) fn parse(text: &str, port: u16) -> Result<Self, String> {
        let invalid =
            || format!("write HOST or HOST:PORT, such as node7, 10.0.0.7:{port} or [::1]:{port}");
        // An IPv6 address contains colons.
        if text.parse::<IpAddr>().is_ok() {
            return Ok(Peer { host: text.to_owned(), port });
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, port.parse().map_err(|_| invalid())?),
            None => (text, port),
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let ambiguous = host.contains(':') && host.parse::<IpAddr>().is_err();
        if host.is_empty() || ambiguous || port == 0 {
            return Err(invalid());
        }
        Ok(Peer { host: host.to_owned(), port })
    }

    /// Its name or address, without the port.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Resolves the name. Blocks.
    pub(crate) fn resolve(&self) -> Result<Vec<SocketAddr>, Failure> {
        let resolved = (self.host.as_str(), self.port).to_socket_addrs();
        let resolved = resolved.map(|addresses| addresses.collect::<Vec<_>>());
        let why = match resolved {
            Ok(addresses) if !addresses.is_empty() => return Ok(addresses),
            Ok(_) => "it has no address".to_owned(),
            Err(error) => error.to_string(),
        };
        let host = &self.host;
        Err(Failure::failed(format!("look up {host}: {why} — check the name, or pass an address")))
    }
}

impl FromStr for Peer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Peer::parse(text, DEFAULT_PORT)
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// The default port of `wirelane serve`.
const DEFAULT_PORT: u16 = 50051;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_parsed() {
        let parsed = |text: &str| text.parse::<Peer>().ok().map(|peer| peer.to_string());
        assert_eq!(parsed("node7").as_deref(), Some("node7:50051"));
        assert_eq!(parsed("10.0.0.7:1").as_deref(), Some("10.0.0.7:1"));
        assert_eq!(parsed("::1").as_deref(), Some("[::1]:50051"));
        assert_eq!(parsed("[::1]:7").as_deref(), Some("[::1]:7"));
        assert_eq!(parsed("[fe80::1]").as_deref(), None, "no port after the bracket");
        for wrong in ["", ":7", "host:", "host:x", "host:0", "host:65536", "a:b:7"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
        assert_eq!("127.0.0.1:9".parse::<Peer>().unwrap().resolve().unwrap().len(), 1);
    }
}
