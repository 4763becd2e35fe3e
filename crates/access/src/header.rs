//! The header `authorization`: a token, or a name and a token.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

/// RFC 6750 (Bearer) and RFC 7617 (Basic, with the token as password).
pub(super) struct Authorization {
    pub(super) name: Option<String>,
    pub(super) token: String,
}

impl Authorization {
    pub(super) fn parse(header: &[u8]) -> Option<Self> {
        let header = std::str::from_utf8(header).ok().filter(|header| header.len() <= MAX_BYTES)?;
        let (scheme, token) = header.split_once(' ')?;
        if scheme.eq_ignore_ascii_case("bearer") {
            return Some(Authorization { name: None, token: token.trim_matches(' ').to_owned() });
        }
        let (name, token) = basic(header.as_bytes())?;
        Some(Authorization { name: Some(name), token: String::from_utf8(token).ok()? })
    }
}

/// Name and password of the scheme `Basic`.
pub(super) fn basic(header: &[u8]) -> Option<(String, Vec<u8>)> {
    let (scheme, pair) = header.split_at_checked(b"basic ".len())?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    let mut name = BASE64_STANDARD.decode(pair.trim_ascii()).ok()?;
    let password = name.split_off(name.iter().position(|byte| *byte == b':')?);
    Some((String::from_utf8(name).ok()?, password[1..].to_vec()))
}

/// More than any token and name have.
const MAX_BYTES: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bearer_and_basic_are_parsed_and_nothing_else() {
        let parse = |header: &str| {
            Authorization::parse(header.as_bytes()).map(|parsed| (parsed.name, parsed.token))
        };
        let token = || "wlt_x".to_owned();
        assert_eq!(parse("Bearer wlt_x"), Some((None, token())));
        assert_eq!(parse("bearer  wlt_x "), Some((None, token())));
        assert_eq!(parse("Basic YW5uOndsdF94"), Some((Some("ann".to_owned()), token())));
        let long = format!("Bearer {}", "x".repeat(2000));
        for bad in ["", "Bearer", "wlt_x", "Digest x", "Basic YW5u", "Basic !", &long] {
            assert_eq!(parse(bad), None, "{bad}");
        }
        assert!(Authorization::parse(b"Bearer \xff").is_none());
    }
}
