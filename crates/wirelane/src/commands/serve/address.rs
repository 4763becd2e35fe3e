//! Addresses to listen on.

use std::net::SocketAddr;
use std::str::FromStr;

/// An address and port of this machine, for links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LinkAddress(pub(super) SocketAddr);

impl FromStr for LinkAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse(text, "127.0.0.1:50051").map(LinkAddress)
    }
}

/// The same, for HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HttpAddress(pub(super) SocketAddr);

impl FromStr for HttpAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse(text, "127.0.0.1:8080").map(HttpAddress)
    }
}

/// Parses `HOST:PORT`; the error has an example.
pub(crate) fn parse(text: &str, example: &str) -> Result<SocketAddr, String> {
    // `localhost` is the only name that is accepted; others would need a resolver.
    let text = text.replacen("localhost:", "127.0.0.1:", 1);
    text.parse().map_err(|_| format!("write HOST:PORT with an IP address, such as {example}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_port() {
        assert!("127.0.0.1:8080".parse::<HttpAddress>().is_ok());
        assert!("[::1]:0".parse::<HttpAddress>().is_ok());
        assert!("localhost:8080".parse::<HttpAddress>().is_ok());
        assert!("8080".parse::<HttpAddress>().is_err());
        assert!("0.0.0.0:50051".parse::<LinkAddress>().is_ok());
    }
}
