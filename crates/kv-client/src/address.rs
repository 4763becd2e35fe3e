//! The address of a store.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};

use crate::error::{Error, ErrorKind};

/// The address of a store: a socket address, or `HOST:PORT` with a host name, which is looked up each time a connection
/// is made.
///
/// It is made from a string without a check; [`Client::connect`](crate::Client::connect) refuses one that is not
/// valid.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address(Form);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Form {
    Socket(SocketAddr),
    Name(String),
}

impl Address {
    /// The host without the port, as certificates name it.
    pub fn host(&self) -> String {
        match &self.0 {
            Form::Socket(address) => address.ip().to_string(),
            Form::Name(text) => text.rsplit_once(':').map_or(&**text, |(host, _)| host).to_owned(),
        }
    }

    /// Whether it has a host and a port.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let valid = match &self.0 {
            Form::Socket(address) => address.port() != 0,
            Form::Name(text) => text.rsplit_once(':').is_some_and(|(host, port)| {
                !host.is_empty() && !host.contains(':') && port.parse::<u16>().is_ok_and(|n| n > 0)
            }),
        };
        let text = || format!("connect to {self:?}: not an address — use HOST:PORT");
        if valid { Ok(()) } else { Err(Error::new(ErrorKind::Misuse, text())) }
    }

    /// Its socket addresses, at least one. A host name is looked up, which may block.
    pub(crate) fn resolve(&self) -> Result<Vec<SocketAddr>, Error> {
        let text = match &self.0 {
            Form::Socket(address) => return Ok(vec![*address]),
            Form::Name(text) => text,
        };
        // A name that is not known now may be known later.
        let failed = |reason| Error::new(ErrorKind::Unavailable, format!("look up {text}{reason}"));
        let found = text.to_socket_addrs().map_err(|error| failed("").because(error))?;
        let found: Vec<SocketAddr> = found.collect();
        if found.is_empty() { Err(failed(": the host has no address")) } else { Ok(found) }
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Address(Form::Socket(address))
    }
}

impl From<String> for Address {
    fn from(text: String) -> Self {
        match text.parse() {
            Ok(address) => Address(Form::Socket(address)),
            Err(_) => Address(Form::Name(text)),
        }
    }
}

impl From<&str> for Address {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<&String> for Address {
    fn from(text: &String) -> Self {
        text.clone().into()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Socket(address) => address.fmt(f),
            Form::Name(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_names_and_addresses_are_accepted() {
        for (text, host) in [
            ("localhost:50051", "localhost"),
            ("node7.cluster:1", "node7.cluster"),
            ("10.0.0.7:50051", "10.0.0.7"),
            ("[::1]:50051", "::1"),
        ] {
            let address = Address::from(text);
            address.check().unwrap();
            assert_eq!((address.host(), address.to_string()), (host.to_owned(), text.to_owned()));
        }
    }

    #[test]
    fn what_has_no_host_or_port_is_refused_with_its_text() {
        for text in [
            "",
            "localhost",
            ":50051",
            "node7:",
            "node7:port",
            "node7:0",
            "::1:50051",
            "10.0.0.7:0",
        ] {
            let error = Address::from(text).check().expect_err(text);
            assert_eq!(error.kind(), ErrorKind::Misuse);
            assert!(
                error.to_string().contains(text) && error.to_string().contains("HOST:PORT"),
                "{error}"
            );
        }
    }

    #[test]
    fn localhost_is_looked_up() {
        let found = Address::from("localhost:50051").resolve().unwrap();
        assert!(found.iter().all(|address| address.ip().is_loopback() && address.port() == 50051));
        let socket: SocketAddr = "10.0.0.7:1".parse().unwrap();
        assert_eq!(Address::from(socket).resolve().unwrap(), [socket]);
    }

    #[test]
    fn an_unknown_host_keeps_the_resolvers_error() {
        let error = Address::from("no-such-host.invalid:1").resolve().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(std::error::Error::source(&error).is_some(), "{error}");
    }
}
