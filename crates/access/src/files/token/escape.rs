//! Percent-encoding: any bytes as text without spaces. Letters, digits and `-._~/:` stay as they are, other bytes become `%XX`.

/// Encodes bytes.
pub fn escaped(bytes: &[u8]) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/:".contains(&byte);
    let one = |byte: &u8| match plain(*byte) {
        true => char::from(*byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    bytes.iter().map(one).collect()
}

/// Decodes text; characters that `escaped` would encode are taken as they are.
pub fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        bytes.push((digit()? << 4 | digit()?) as u8);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_round_trip() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(unescaped(&escaped(&all)), Some(all));
        assert_eq!(escaped(b"team/a b"), "team/a%20b");
        assert_eq!(unescaped("caf\u{e9}=%2f"), Some("caf\u{e9}=/".as_bytes().to_vec()));
        for bad in ["%", "%4", "%zz", "a%2"] {
            assert_eq!(unescaped(bad), None, "{bad}");
        }
    }
}
