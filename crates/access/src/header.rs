//! What callers show in the header `authorization`: a token, or a name and a token.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

/// RFC 6750 (Bearer) and RFC 7617 (Basic, with the token as password).
pub(super) struct Shown {
    pub(super) name: Option<String>,
    pub(super) token: String,
}

impl Shown {
    pub(super) fn parse(header: &[u8]) -> Option<Self> {
        let header = std::str::from_utf8(header).ok().filter(|header| header.len() <= MAX)?;
        let (scheme, shown) = header.split_once(' ')?;
        let shown = shown.trim_matches(' ');
        if scheme.eq_ignore_ascii_case("bearer") {
            return Some(Shown { name: None, token: shown.to_owned() });
        }
        let (name, token) = basic(header.as_bytes())?;
        Some(Shown { name: Some(name), token: String::from_utf8(token).ok()? })
    }
}

/// A name and a password by the scheme `Basic`.
pub(super) fn basic(header: &[u8]) -> Option<(String, Vec<u8>)> {
    let (scheme, pair) = header.split_at_checked(b"basic ".len())?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    let mut name = BASE64_STANDARD.decode(pair.trim_ascii()).ok()?;
    let password = name.split_off(name.iter().position(|byte| *byte == b':')?);
    Some((String::from_utf8(name).ok()?, password[1..].to_vec()))
}

/// Longer than any token and name.
const MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_schemes_are_read_and_nothing_else() {
        let shown =
            |header: &str| Shown::parse(header.as_bytes()).map(|shown| (shown.name, shown.token));
        let token = || "wlt_x".to_owned();
        assert_eq!(shown("Bearer wlt_x"), Some((None, token())));
        assert_eq!(shown("bearer  wlt_x "), Some((None, token())));
        assert_eq!(shown("Basic YW5uOndsdF94"), Some((Some("ann".to_owned()), token())));
        let long = format!("Bearer {}", "x".repeat(2000));
        for bad in ["", "Bearer", "wlt_x", "Digest x", "Basic YW5u", "Basic !", &long] {
            assert_eq!(shown(bad), None, "{bad}");
        }
        assert!(Shown::parse(b"Bearer \xff").is_none());
    }
}
