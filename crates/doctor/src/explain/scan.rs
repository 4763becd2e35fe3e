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

/// The severity of a line as a word: `[info] ` if it only informs. glog and klog name it with a letter (`E0131 12:00:00`,
/// `I20260131 12:00:00`), others with a word near its start (`2026-01-31 12:00:00 - INFO - …`).
pub(super) fn severity(line: &str) -> &'static str {
    let is_word = |token: &str, words: &[&str]| {
        words.contains(&token.trim_matches(|letter: char| !letter.is_ascii_alphabetic()))
    };
    let start = || line.split([' ', '\t']).filter(|token| !token.is_empty()).take(START_TOKENS);
    match line.split_once(' ').and_then(|(first, _)| letter_of_glog(first)) {
        Some('I') => "[info] ",
        Some('E' | 'F') => "error ",
        Some(_) => "",
        None if start().any(|token| is_word(token, &["ERROR", "WARN", "WARNING", "FATAL"])) => "",
        None if start().any(|token| is_word(token, INFORMS)) => "[info] ",
        None => "",
    }
}

/// The letter in front of a day of glog.
fn letter_of_glog(first: &str) -> Option<char> {
    let letter = first.chars().next()?;
    let day = first.strip_prefix(letter)?;
    let is_day = matches!(day.len(), 4 | 8) && day.bytes().all(|digit| digit.is_ascii_digit());
    (is_day && letter.is_ascii_uppercase()).then_some(letter)
}

/// A severity is one of so many first words of a line.
const START_TOKENS: usize = 8;
const INFORMS: &[&str] = &["INFO", "DEBUG", "TRACE", "NOTICE", "VERBOSE"];

/// `exception ` if the line reports one by its name: `java.net.ConnectException: text`, `DistBackendError: text`.
pub(super) fn exception(line: &str) -> &'static str {
    let is_exception = |token: &str| {
        let name = token.strip_suffix(':').unwrap_or_default();
        EXCEPTIONS.iter().any(|end| name.len() > end.len() && name.ends_with(end))
    };
    if line.split_ascii_whitespace().any(is_exception) { "exception " } else { "" }
}

/// Names of exceptions end with these.
const EXCEPTIONS: &[&str] = &["Exception", "Error"];

/// Names of functions in words, in lower case: `RegisterMemoryRegion` is `register memory region `. Names of types, which do
/// not start with a verb, tell which part of a program prints the line, but not what it did.
pub(super) fn calls_in_words(line: &str) -> String {
    let mut words = String::new();
    for name in line.split(|letter: char| !letter.is_ascii_alphanumeric()) {
        let parts = camel_case(name);
        if parts.len() > 1 && VERBS.contains(&parts[0].to_ascii_lowercase().as_str()) {
            for part in parts {
                words.push_str(&part.to_ascii_lowercase());
                words.push(' ');
            }
        }
    }
    words
}

/// `createQp` is `create`, `Qp`; `RDMAConnect` is one part.
fn camel_case(name: &str) -> Vec<&str> {
    let bytes = name.as_bytes();
    let is_start =
        |at: &usize| bytes[*at].is_ascii_uppercase() && bytes[*at - 1].is_ascii_lowercase();
    let starts = (1..bytes.len()).filter(is_start);
    let (mut parts, mut from) = (Vec::new(), 0);
    for start in starts {
        parts.push(&name[from..start]);
        from = start;
    }
    parts.push(&name[from..]);
    parts
}

/// Names of functions start with these.
const VERBS: &[&str] = &[
    "accept",
    "add",
    "alloc",
    "allocate",
    "bind",
    "connect",
    "create",
    "init",
    "initialize",
    "listen",
    "modify",
    "open",
    "poll",
    "post",
    "query",
    "register",
    "reg",
    "resolve",
    "setup",
];

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
    fn a_word_or_a_letter_names_the_severity() {
        let cases = [
            ("E0131 12:00:00.1 7 x.cpp:9] text", "error "),
            ("I20260131 12:00:00.1 7 x.cpp:9] text", "[info] "),
            ("2026-01-31 12:00:00,1 - core - INFO - text", "[info] "),
            ("INFO: text", "[info] "),
            ("[INFO] 12:00:00 ERROR text", ""),
            ("failed to get port info", ""),
            ("", ""),
        ];
        for (line, word) in cases {
            assert_eq!(severity(line), word, "{line}");
        }
    }

    #[test]
    fn exceptions_are_named_before_a_colon() {
        for line in ["java.net.ConnectException: text", "RuntimeError: text"] {
            assert_eq!(exception(line), "exception ", "{line}");
        }
        for line in ["catch (IOException e)", "Error: text", "raise ValueError(x)", "x_error: y"] {
            assert_eq!(exception(line), "", "{line}");
        }
    }

    #[test]
    fn names_of_functions_are_spelled_out() {
        let cases = [
            ("RegisterRdmaMemoryRegion failed", "register rdma memory region "),
            ("ctx->createCompQueue()", "create comp queue "),
            ("RdmaTransport: cannot", ""),
            ("create x Ünïcode", ""),
        ];
        for (line, words) in cases {
            assert_eq!(calls_in_words(line), words, "{line}");
        }
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
