//! The source of a mount: a host and its folder.

use std::fmt;
use std::str::FromStr;

use super::{InvalidArgument, folder};

/// `HOST:/DIR`, as `mount` takes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// A name or an address, without brackets.
    pub host: String,
    /// The path on the server.
    pub dir: String,
}

impl FromStr for Source {
    type Err = InvalidArgument;

    fn from_str(text: &str) -> Result<Self, InvalidArgument> {
        let invalid = || InvalidArgument(format!("{text:?} is not of the form HOST:/DIR"));
        let (host, dir) = match text.strip_prefix('[') {
            Some(rest) => rest.split_once("]:").ok_or_else(invalid)?,
            None => text
                .split_once(":/")
                .map(|(host, _)| (host, &text[host.len() + 1..]))
                .ok_or_else(invalid)?,
        };
        let plain = |letter: char| {
            letter.is_ascii_alphanumeric() || matches!(letter, '-' | '.' | '_' | ':' | '%')
        };
        if host.is_empty() || host.starts_with('-') || host.len() > 253 || !host.chars().all(plain)
        {
            return Err(invalid());
        }
        Ok(Source { host: host.to_owned(), dir: folder(dir)? })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Source { host, dir } = self;
        if host.contains(':') { write!(f, "[{host}]:{dir}") } else { write!(f, "{host}:{dir}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_a_host_and_a_folder() {
        for (text, shown) in [
            ("10.0.0.1:/data/", "10.0.0.1:/data"),
            ("[fd00::1]:/d", "[fd00::1]:/d"),
            ("node-1.cluster:/", "node-1.cluster:/"),
        ] {
            assert_eq!(text.parse::<Source>().expect("fit").to_string(), shown);
        }
        for text in
            ["", "/data", "host", "host:data", ":/data", "-o:/data", "a b:/d", "a:/d d", "[::1:/d"]
        {
            assert!(text.parse::<Source>().is_err(), "{text:?}");
        }
    }
}
