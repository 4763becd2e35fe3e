//! A secret that two peers share, for mutual authentication.

use std::fmt;

use subtle::ConstantTimeEq;
use zeroize::Zeroize;

use super::{ANONYMOUS, noise};
use crate::error::{Error, ErrorKind};

/// A key, with the name that sessions report as identity. Every peer with the key is trusted.
#[derive(Debug, Clone)]
pub struct Key {
    name: String,
    id: KeyId,
    secret: Secret,
}

/// Identifies a secret in the preface, without revealing it.
pub(super) type KeyId = [u8; 16];

impl Key {
    /// A key of 64 hexadecimal digits, as `openssl rand -hex 32` prints them. Surrounding white space
    /// is ignored.
    pub fn from_hex(name: &str, digits: &str) -> Result<Self, Error> {
        let call = || format!("read the key {name:?}");
        check_name(name).map_err(|why| Error::new(ErrorKind::Misuse, call(), why, NAME_FIX))?;
        let secret = parse(digits.trim_ascii().as_bytes()).ok_or_else(|| {
            let why = "not 64 hexadecimal digits";
            Error::new(ErrorKind::Misuse, call(), why, "create a key with `openssl rand -hex 32`")
        })?;
        Ok(Key::new(name, secret))
    }

    /// The key derived from a token: a peer with the token can authenticate links, without sending it.
    /// The token must be random and long: this does not protect a guessable password.
    pub fn from_token(name: &str, token: &str) -> Result<Self, Error> {
        check_name(name).map_err(|why| {
            Error::new(ErrorKind::Misuse, format!("use the token of {name:?}"), why, NAME_FIX)
        })?;
        Ok(Key::new(name, Secret::of_token(token)))
    }

    fn new(name: &str, secret: Secret) -> Self {
        Key { name: name.to_owned(), id: secret.id(), secret }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn id(&self) -> KeyId {
        self.id
    }

    pub(super) fn secret(&self) -> &Secret {
        &self.secret
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.name == other.name && self.secret.equals(&other.secret)
    }
}

impl Eq for Key {}

/// Secret bytes: never printed, and overwritten when dropped.
#[derive(Clone)]
pub(super) struct Secret([u8; 32]);

impl Secret {
    pub(super) fn new(bytes: [u8; 32]) -> Self {
        Secret(bytes)
    }

    pub(super) fn of_token(token: &str) -> Self {
        Secret(noise::digest(TOKEN_LABEL, token.as_bytes()))
    }

    pub(super) fn id(&self) -> KeyId {
        let mut id = KeyId::default();
        id.copy_from_slice(&noise::digest(LABEL, &self.0)[..16]);
        id
    }

    pub(super) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Compares in constant time.
    pub(super) fn equals(&self, other: &Secret) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// Checks a name: it is printed in logs, and must not be that of anonymous peers.
pub(super) fn check_name(name: &str) -> Result<(), &'static str> {
    match name {
        "" => Err("the name is empty"),
        ANONYMOUS => Err("the name `anonymous` is reserved for peers without a key"),
        _ if name.len() > MAX_NAME => Err("the name is longer than 128 bytes"),
        _ if name.contains(char::is_control) => Err("the name has control characters"),
        _ => Ok(()),
    }
}

fn parse(digits: &[u8]) -> Option<Secret> {
    let digits: &[u8; 64] = digits.try_into().ok()?;
    let mut secret = Secret([0; 32]);
    for (byte, pair) in secret.0.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |at: usize| char::from(pair[at]).to_digit(16);
        *byte = (digit(0)? << 4 | digit(1)?) as u8;
    }
    Some(secret)
}

pub(super) const NAME_FIX: &str = "use a short name of letters and digits";
const MAX_NAME: usize = 128;
/// The prefix of the digest's input, so that the digest is used for nothing else.
const LABEL: &[u8] = b"wirelane key id, version 1";
/// The same for the key of a token.
const TOKEN_LABEL: &[u8] = b"wirelane token, version 1";

#[cfg(test)]
mod tests {
    use super::*;

    const DIGITS: &str = "00112233445566778899aabbccddeeffFFEEDDCCBBAA99887766554433221100";

    #[test]
    fn digits_are_parsed_and_the_secret_is_never_printed() {
        let key = Key::from_hex("night", &format!(" {DIGITS}\n")).unwrap();
        assert_eq!(key.secret.bytes()[..3], [0, 0x11, 0x22]);
        assert_eq!(key.secret.bytes()[29..], [0x22, 0x11, 0]);
        let printed = format!("{key:?} {key:#?}");
        assert!(printed.contains("night") && printed.contains("(secret)"), "{printed}");
        let id = format!("{:?}", key.id);
        let printed = printed.replace(&id, "").to_lowercase();
        assert!(!printed.contains("0011") && !printed.contains("17, 34, 51"), "{printed}");
    }

    #[test]
    fn ids_depend_on_the_secret_and_not_on_the_name() {
        let key = |name, digits: &str| Key::from_hex(name, digits).unwrap().id();
        assert_eq!(key("a", DIGITS), key("b", DIGITS));
        assert_ne!(key("a", DIGITS), key("a", &DIGITS.replace('0', "1")));
    }

    #[test]
    fn a_token_has_the_same_key_under_every_name() {
        let key = |name, token| Key::from_token(name, token).unwrap();
        let (one, other) = (key("a", "wlt_secret"), key("b", "wlt_secret"));
        assert!(one.secret.equals(&other.secret) && one.id() == other.id());
        assert!(!one.secret.equals(&key("a", "wlt_secreT").secret));
        assert!(!format!("{one:?}").contains("wlt_"));
        assert_eq!(Key::from_token("anonymous", "wlt_x").unwrap_err().kind(), ErrorKind::Misuse);
    }

    #[test]
    fn invalid_keys_are_refused_and_not_printed() {
        for bad in ["", &DIGITS[1..], &format!("{DIGITS}0"), &DIGITS.replace('a', "g"), "+1"] {
            let error = Key::from_hex("night", bad).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Misuse);
            assert!(bad.len() < 10 || !error.to_string().contains(bad), "{error}");
        }
        for name in ["", "anonymous", "a\nb", &"n".repeat(129)] {
            assert_eq!(Key::from_hex(name, DIGITS).unwrap_err().kind(), ErrorKind::Misuse);
        }
    }
}
