//! Any bytes as one word of text: what is neither a letter, a digit nor one of `-._~/:` stands as `%XX`.

/// As a word.
pub fn escaped(bytes: &[u8]) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/:".contains(&byte);
    let one = |byte: &u8| match plain(*byte) {
        true => char::from(*byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    bytes.iter().map(one).collect()
}

/// The bytes of a word; others than plain ones may stand as they are.
pub fn unescaped(word: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word.bytes();
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
    fn any_bytes_come_back() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(unescaped(&escaped(&all)), Some(all));
        assert_eq!(escaped(b"team/a b"), "team/a%20b");
        assert_eq!(unescaped("caf\u{e9}=%2f"), Some("caf\u{e9}=/".as_bytes().to_vec()));
        for bad in ["%", "%4", "%zz", "a%2"] {
            assert_eq!(unescaped(bad), None, "{bad}");
        }
    }
}
