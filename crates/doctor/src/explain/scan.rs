//! Finds words and numbers in lines.

/// The text after a word, in lower case.
pub(super) fn after<'l>(lower: &'l str, word: &str) -> Option<&'l str> {
    lower.find(word).map(|at| &lower[at + word.len()..])
}

/// Whether a word of the text starts with this one; `efa` within `default` does not count.
pub(super) fn has_word_start(lower: &str, word: &str) -> bool {
    lower.match_indices(word).any(|(at, _)| is_edge(lower[..at].chars().next_back(), word))
}

/// Whether the text contains the whole word.
pub(super) fn has_word(lower: &str, word: &str) -> bool {
    lower.match_indices(word).any(|(at, _)| {
        is_edge(lower[..at].chars().next_back(), word)
            && lower[at + word.len()..].chars().next().is_none_or(|next| !next.is_alphanumeric())
    })
}

/// Whether a word starts here. One that starts with a punctuation mark may follow anything.
pub(super) fn is_edge(before: Option<char>, word: &str) -> bool {
    !word.starts_with(char::is_alphanumeric)
        || before.is_none_or(|letter| !letter.is_alphanumeric())
}

/// The severity of a line of glog or klog as a word: `E0131 12:00:00` and `I20260131 12:00:00` name it with a letter.
pub(super) fn severity(line: &str) -> &'static str {
    let (Some(letter), Some((day, _))) = (line.chars().next(), line.split_once(' ')) else {
        return "";
    };
    let is_day =
        |day: &str| matches!(day.len(), 4 | 8) && day.bytes().all(|digit| digit.is_ascii_digit());
    if !day.strip_prefix(letter).is_some_and(is_day) {
        return "";
    }
    match letter {
        'I' => "[info] ",
        'E' | 'F' => "error ",
        _ => "",
    }
}

/// The number after a word, as `=12`, ` 12`, `: 0x51`.
pub(super) fn number_after(lower: &str, word: &str) -> Option<Number> {
    let rest = after(lower, word)?.trim_start_matches([' ', '=', ':', '(']);
    number(rest)
}

/// A number and its base.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Number {
    pub(super) value: u32,
    pub(super) is_hex: bool,
}

/// The number at the start of a text.
pub(super) fn number(text: &str) -> Option<Number> {
    let (digits, radix) = match text.strip_prefix("0x") {
        Some(hex) => (hex, 16),
        None => (text, 10),
    };
    let end = digits.find(|letter: char| !letter.is_digit(radix)).unwrap_or(digits.len());
    let value = u32::from_str_radix(&digits[..end], radix).ok()?;
    Some(Number { value, is_hex: radix == 16 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_not_found_within_others() {
        assert!(has_word_start("aer: uncorrected error", "uncorrect"));
        assert!(!has_word_start("aer: uncorrected error", "corrected"));
        assert!(has_word("fi_addr_efa://", "efa") && !has_word("by default", "efa"));
        assert!(!has_word("symlink downloaded", "link down"));
    }

    #[test]
    fn numbers_as_programs_write_them() {
        let value =
            |line, word| number_after(line, word).map(|number| (number.value, number.is_hex));
        assert_eq!(value("vendor err 129 (recv)", "vendor err"), Some((129, false)));
        assert_eq!(value("vendor_err=0x51", "vendor_err"), Some((0x51, true)));
        assert_eq!(value("status=ibv", "status"), None);
        assert_eq!(value("status 99999999999", "status"), None);
    }
}
