//! The address of a store: HOST:PORT, or a URL.

use std::fmt;
use std::str::FromStr;

use crate::arguments::peer::Peer;

/// A store's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Server(pub(super) Peer);

impl FromStr for Server {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rest = text.strip_prefix("http://").unwrap_or(text);
        if rest.contains("://") {
            return Err(
                "write HOST:PORT, or http://HOST:PORT: other schemes are not supported".to_owned()
            );
        }
        rest.strip_suffix('/').unwrap_or(rest).parse().map(Server)
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_and_addresses_are_the_same_server() {
        let url = |text: &str| text.parse::<Server>().ok().map(|server| server.to_string());
        assert_eq!(url("http://node7:50051").as_deref(), Some("node7:50051"));
        assert_eq!(url("http://127.0.0.1:7/").as_deref(), Some("127.0.0.1:7"));
        assert_eq!(url("node7").as_deref(), Some("node7:50051"));
        for wrong in ["https://node7:50051", "http://", "http://node7:50051/path"] {
            assert_eq!(url(wrong), None, "{wrong}");
        }
    }
}
