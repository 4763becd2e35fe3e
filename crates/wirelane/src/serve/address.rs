//! Where to listen. HTTP only on a loopback address, since nothing there asks who is calling.

use std::net::SocketAddr;
use std::str::FromStr;

/// An address and port of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LinkAddress(pub(super) SocketAddr);

impl FromStr for LinkAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse(text, "127.0.0.1:50051").map(LinkAddress)
    }
}

/// A loopback address and port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HttpAddress(pub(super) SocketAddr);

impl FromStr for HttpAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let address = parse(text, "127.0.0.1:8080")?;
        if !address.ip().is_loopback() {
            return Err(
                "only loopback addresses (127.0.0.1, [::1]) are served, since callers are \
                        not authenticated yet"
                    .to_owned(),
            );
        }
        Ok(HttpAddress(address))
    }
}

fn parse(text: &str, example: &str) -> Result<SocketAddr, String> {
    // `localhost` is the one name people write here; others would need a resolver.
    let text = text.replacen("localhost:", "127.0.0.1:", 1);
    text.parse().map_err(|_| format!("write HOST:PORT with an IP address, such as {example}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_taken_and_the_rest_refused() {
        assert!("127.0.0.1:8080".parse::<HttpAddress>().is_ok());
        assert!("[::1]:0".parse::<HttpAddress>().is_ok());
        assert!("localhost:8080".parse::<HttpAddress>().is_ok());
        let refused = "0.0.0.0:8080".parse::<HttpAddress>().unwrap_err();
        assert!(refused.contains("loopback"), "{refused}");
        assert!("8080".parse::<HttpAddress>().is_err());
        assert!("0.0.0.0:50051".parse::<LinkAddress>().is_ok());
    }
}
