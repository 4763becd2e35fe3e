//! Keys: parsing and formatting of arbitrary bytes.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;

use serde::Serialize;
use serde::ser::SerializeMap;

use crate::output::Failure;

/// A valid key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key(Vec<u8>);

impl Key {
    /// From the command line: the bytes themselves, or hexadecimal.
    pub(super) fn parse(text: &OsStr, hex: bool) -> Result<Self, Failure> {
        let bytes = match hex {
            true => parse_hex(text.as_bytes()).ok_or_else(|| {
                let text = shorten(&escape(text.as_bytes()));
                Failure::usage(format!(
                    "the key `{text}` is not hexadecimal with two digits per byte — write for example 6b6579, or \
                     omit --hex-key"
                ))
            })?,
            false => text.as_bytes().to_vec(),
        };
        Key::new(bytes)
    }

    /// Checks the length.
    pub(super) fn new(bytes: Vec<u8>) -> Result<Self, Failure> {
        match kv_proto::Key::new(bytes) {
            Ok(key) => Ok(Key(key.into_bytes().into())),
            Err(error) => Err(Failure::usage(error.to_string())),
        }
    }

    /// A key returned by the store.
    pub(super) fn from_store(bytes: Vec<u8>) -> Self {
        Key(bytes)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Shortened for messages.
    pub(super) fn name(&self) -> String {
        shorten(&self.to_string())
    }

    /// A file name: letters, digits, `.`, `_` and `-` as they are, `%XX` for the rest. It is not hidden, contains no
    /// path separator, and for keys of usual length is not too long.
    pub(super) fn file_name(&self) -> String {
        let plain = |at: usize, byte: u8| {
            byte.is_ascii_alphanumeric() || b"_-".contains(&byte) || byte == b'.' && at > 0
        };
        let mut name = String::new();
        for (at, byte) in self.0.iter().enumerate() {
            match plain(at, *byte) {
                true => name.push(char::from(*byte)),
                false => name.push_str(&format!("%{byte:02X}")),
            }
        }
        name
    }
}

/// Text as it is; other bytes and control characters as `\xNN`; a backslash doubled, so that the result is unambiguous.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&escape(&self.0))
    }
}

/// As a field of an object: `key` if it is text, else `key_hex`.
impl Serialize for Key {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        match std::str::from_utf8(&self.0) {
            Ok(text) => map.serialize_entry("key", text)?,
            Err(_) => {
                let hex: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
                map.serialize_entry("key_hex", &hex)?;
            }
        }
        map.end()
    }
}

fn escape(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '\\' => text.push_str("\\\\"),
                _ if letter.is_control() => {
                    let mut bytes = [0; 4];
                    for byte in letter.encode_utf8(&mut bytes).bytes() {
                        text.push_str(&format!("\\x{byte:02x}"));
                    }
                }
                _ => text.push(letter),
            }
        }
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
    }
    text
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn parse_hex(text: &[u8]) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |pair: &[u8; 2]| Some((digit(pair[0])? << 4 | digit(pair[1])?) as u8);
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_displayed_unambiguously() {
        let display = |bytes: &[u8]| Key::from_store(bytes.to_vec()).to_string();
        assert_eq!(display(b"user/7"), "user/7");
        assert_eq!(display("schlüssel".as_bytes()), "schlüssel");
        assert_eq!(display(b"a\nb\\c"), "a\\x0ab\\\\c");
        assert_eq!(display(&[0xff, b'a', 0]), "\\xffa\\x00");
    }

    #[test]
    fn hexadecimal_keys_have_two_digits_per_byte() {
        let parse = |text: &str| Key::parse(text.as_ref(), true).ok().map(|key| key.0);
        assert_eq!(parse("ff00Aa"), Some(vec![0xff, 0, 0xaa]));
        for wrong in ["f", "fg", "", "0x00", "é"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn file_names_stay_in_their_directory() {
        let name = |bytes: &[u8]| Key::from_store(bytes.to_vec()).file_name();
        assert_eq!(name(b"a.b_c-7"), "a.b_c-7");
        assert_eq!(name(b".."), "%2E.");
        assert_eq!(name(b"../x y"), "%2E.%2Fx%20y");
    }

    #[test]
    fn json_distinguishes_text_from_other_keys() {
        let json = |bytes: &[u8]| serde_json::json!(Key::from_store(bytes.to_vec())).to_string();
        assert_eq!(json(b"a"), r#"{"key":"a"}"#);
        assert_eq!(json(&[0xff]), r#"{"key_hex":"ff"}"#);
    }
}
