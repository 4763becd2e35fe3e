//! Where to listen: a loopback address, since nothing here asks who is calling yet.

use std::net::SocketAddr;
use std::str::FromStr;

/// A loopback address and port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HttpAddress(pub(super) SocketAddr);

impl FromStr for HttpAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // `localhost` is the one name people write here; others would need a resolver.
        let text = text.replacen("localhost:", "127.0.0.1:", 1);
        let address = text
            .parse::<SocketAddr>()
            .map_err(|_| "write HOST:PORT with an IP address, such as 127.0.0.1:8080".to_owned())?;
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
    }
}
