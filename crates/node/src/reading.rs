//! The result of reading a fact: a value, or why there is none.

use rustix::io::Errno;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The result of reading a fact. A missing value is never zero.
///
/// In JSON a value is written as itself, an absent one as `null`, and the others as objects:
/// `{"refused": "EINVAL"}`, `{"invalid": "N/A (no PMA)"}`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reading<T> {
    /// The value.
    Value(T),
    /// There is no file with that name.
    Absent,
    /// Reading it failed with this error number.
    Refused(i32),
    /// It was read, but is not valid. The text is cut to a short line.
    Invalid(String),
}

impl<T> Reading<T> {
    /// The value, if there is one.
    pub fn value(&self) -> Option<&T> {
        match self {
            Reading::Value(value) => Some(value),
            _ => None,
        }
    }

    /// The value, if there is one.
    pub fn into_value(self) -> Option<T> {
        match self {
            Reading::Value(value) => Some(value),
            _ => None,
        }
    }

    /// Whether there is no file with that name.
    pub fn is_absent(&self) -> bool {
        matches!(self, Reading::Absent)
    }

    /// Converts the value.
    pub fn map<U>(self, view: impl FnOnce(T) -> U) -> Reading<U> {
        self.and_then(|value| Reading::Value(view(value)))
    }

    /// Converts the value to another result.
    pub fn and_then<U>(self, next: impl FnOnce(T) -> Reading<U>) -> Reading<U> {
        match self {
            Reading::Value(value) => next(value),
            Reading::Absent => Reading::Absent,
            Reading::Refused(errno) => Reading::Refused(errno),
            Reading::Invalid(text) => Reading::Invalid(text),
        }
    }
}

impl Reading<String> {
    /// Parses the text; what cannot be parsed is invalid.
    pub fn parse<U>(self, parse: impl FnOnce(&str) -> Option<U>) -> Reading<U> {
        self.and_then(|text| match parse(&text) {
            Some(value) => Reading::Value(value),
            None => Reading::invalid(&text),
        })
    }

    /// The text, if it is one short line without control characters; an empty one is absent, any other invalid.
    pub(crate) fn one_line(self) -> Self {
        self.and_then(|text| match text.as_str() {
            "" => Reading::Absent,
            long if long.len() > MAX_LINE_BYTES || long.contains(char::is_control) => {
                Reading::invalid(long)
            }
            _ => Reading::Value(text),
        })
    }
}

impl<T> Reading<T> {
    /// An invalid value, cut to a short line.
    pub fn invalid(text: &str) -> Self {
        let line = text.lines().next().unwrap_or_default();
        Reading::Invalid(
            line.chars().filter(|letter| !letter.is_control()).take(MAX_ODD_CHARS).collect(),
        )
    }

    /// A read that failed with the error with this name (`EINVAL`); any other text is invalid.
    pub(crate) fn refused(name: &str) -> Self {
        let by_number = || name.strip_prefix("errno ")?.parse().ok();
        let known = ERRNO_NAMES.iter().find(|(_, known)| *known == name);
        match known.map(|(errno, _)| errno.raw_os_error()).or_else(by_number) {
            Some(errno) => Reading::Refused(errno),
            None => Reading::invalid(name),
        }
    }

    /// Why there is no value, as one word for a label.
    pub fn fault(&self) -> Option<String> {
        match self {
            Reading::Value(_) => None,
            Reading::Absent => Some("absent".to_owned()),
            Reading::Refused(errno) => Some(errno_name(*errno)),
            Reading::Invalid(_) => Some("no number".to_owned()),
        }
    }

    /// Why there is no value, as text.
    pub fn why_not(&self) -> Option<String> {
        match self {
            Reading::Value(_) => None,
            Reading::Absent => Some("not found".to_owned()),
            Reading::Refused(errno) => Some(format!("cannot be read ({})", errno_name(*errno))),
            Reading::Invalid(text) => Some(format!("reads {text:?}")),
        }
    }
}

impl<T: Serialize> Serialize for Reading<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Reading::Value(value) => value.serialize(serializer),
            Reading::Absent => serializer.serialize_none(),
            Reading::Refused(errno) => reason(serializer, "refused", &errno_name(*errno)),
            Reading::Invalid(text) => reason(serializer, "invalid", text),
        }
    }
}

fn reason<S: Serializer>(serializer: S, name: &str, text: &str) -> Result<S::Ok, S::Error> {
    serializer.collect_map([(name, text)])
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Reading<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match Option::<Present<T>>::deserialize(deserializer)? {
            None => Reading::Absent,
            Some(Present::Value(value)) => Reading::Value(value),
            Some(Present::Refused { refused }) => Reading::refused(&refused),
            Some(Present::Invalid { invalid }) => Reading::invalid(&invalid),
        })
    }
}

/// A result other than absent, in JSON.
#[derive(Deserialize)]
#[serde(untagged)]
enum Present<T> {
    Value(T),
    Refused { refused: String },
    Invalid { invalid: String },
}

fn errno_name(errno: i32) -> String {
    let name = ERRNO_NAMES.iter().find(|(known, _)| known.raw_os_error() == errno);
    name.map_or_else(|| format!("errno {errno}"), |(_, name)| (*name).to_owned())
}

/// Errors of reading sysfs; others are written as a number.
const ERRNO_NAMES: [(Errno, &str); 12] = [
    (Errno::PERM, "EPERM"),
    (Errno::IO, "EIO"),
    (Errno::ACCESS, "EACCES"),
    (Errno::BUSY, "EBUSY"),
    (Errno::NODEV, "ENODEV"),
    (Errno::NOTDIR, "ENOTDIR"),
    (Errno::ISDIR, "EISDIR"),
    (Errno::INVAL, "EINVAL"),
    (Errno::MFILE, "EMFILE"),
    (Errno::LOOP, "ELOOP"),
    (Errno::NOTSUP, "EOPNOTSUPP"),
    (Errno::TIMEDOUT, "ETIMEDOUT"),
];
const MAX_ODD_CHARS: usize = 80;
/// The longest are names and descriptions of 64 bytes.
const MAX_LINE_BYTES: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_of_values_and_of_missing_ones() {
        let json = |reading: Reading<u64>| serde_json::to_string(&reading).expect("serialises");
        assert_eq!(json(Reading::Value(7)), "7");
        assert_eq!(json(Reading::Absent), "null");
        assert_eq!(json(Reading::Refused(22)), r#"{"refused":"EINVAL"}"#);
        assert_eq!(json(Reading::invalid("N/A (no PMA)\n")), r#"{"invalid":"N/A (no PMA)"}"#);
    }
}
