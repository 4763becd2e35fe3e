//! The state of a target: old, current or wanted.

use serde::{Deserialize, Serialize};

/// The state of a [`Target`](super::Target).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It does not exist.
    Absent,
    /// A file. A mode or owner of `None` is left unchanged.
    File {
        /// Its bytes.
        content: Content,
        /// Its mode.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<u32>,
        /// Its user and group.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<(u32, u32)>,
    },
    /// One value for each part of the target. `None` is a missing part in a current state, and an unchanged part in a wanted one.
    /// Values that differ only in spaces and tabs are equal: the kernel separates columns by tabs.
    Values(Vec<Option<String>>),
}

/// A file's bytes; in JSON as text where they are text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// UTF-8.
    Text(String),
    /// Anything else.
    Bytes(Vec<u8>),
}

impl State {
    /// A file with this text; its mode is unchanged, or the default for a new file.
    pub fn text(text: impl Into<String>) -> State {
        State::File { content: Content::Text(text.into()), mode: None, owner: None }
    }

    /// The same value for all parts.
    pub fn all(value: impl Into<String>, parts: usize) -> State {
        State::Values(vec![Some(value.into()); parts])
    }

    /// Whether this current state is the wanted one.
    pub fn satisfies(&self, wanted: &State) -> bool {
        match (self, wanted) {
            (State::Absent, State::Absent) => true,
            (
                State::File { content, mode, .. },
                State::File { content: other, mode: wanted, .. },
            ) => content == other && wanted.is_none_or(|wanted| *mode == Some(wanted)),
            (State::Values(found), State::Values(wanted)) => {
                let fits = |(found, wanted): (&Option<String>, &Option<String>)| {
                    wanted.is_none() || is_same(found, wanted)
                };
                found.len() == wanted.len() && found.iter().zip(wanted).all(fits)
            }
            _ => false,
        }
    }

    /// The same, with missing parts taken from another state: a part that no longer exists is ignored in comparisons.
    pub(super) fn fill_missing_from(&self, other: &State) -> State {
        match (self, other) {
            (State::Values(found), State::Values(other)) if found.len() == other.len() => {
                let part = |(found, other): (&Option<String>, &Option<String>)| {
                    found.clone().or_else(|| other.clone())
                };
                State::Values(found.iter().zip(other).map(part).collect())
            }
            _ => self.clone(),
        }
    }

    /// Whether each part is in its old or wanted state, as after an interrupted change.
    pub fn is_partial_change(&self, before: &State, wanted: &State) -> bool {
        let (State::Values(found), State::Values(before), State::Values(wanted)) =
            (self, before, wanted)
        else {
            return self.satisfies(before) || self.satisfies(wanted);
        };
        let mut parts = found.iter().zip(before).zip(wanted);
        parts.all(|((found, before), wanted)| is_same(found, before) || is_same(found, wanted))
    }
}

/// Whether two values have the same words.
fn is_same(one: &Option<String>, other: &Option<String>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.split_whitespace().eq(other.split_whitespace()),
        (one, other) => one == other,
    }
}

impl Content {
    /// Text if the bytes are UTF-8.
    pub fn from_bytes(bytes: Vec<u8>) -> Content {
        match String::from_utf8(bytes) {
            Ok(text) => Content::Text(text),
            Err(error) => Content::Bytes(error.into_bytes()),
        }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Content::Text(text) => text.as_bytes(),
            Content::Bytes(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(parts: &[Option<&str>]) -> State {
        State::Values(parts.iter().map(|part| part.map(str::to_owned)).collect())
    }

    #[test]
    fn an_unspecified_part_is_satisfied_by_any_value() {
        let found = values(&[Some("on"), Some("8")]);
        assert!(found.satisfies(&values(&[Some("on"), None])));
        assert!(!found.satisfies(&values(&[Some("off"), None])));
        assert!(!values(&[None]).satisfies(&values(&[Some("1")])), "its file is gone");
    }

    #[test]
    fn an_interrupted_change_is_a_partial_change() {
        let (before, wanted) = (values(&[Some("a"), Some("a")]), values(&[Some("b"), Some("b")]));
        assert!(values(&[Some("b"), Some("a")]).is_partial_change(&before, &wanted));
        assert!(!values(&[Some("b"), Some("c")]).is_partial_change(&before, &wanted));
    }

    #[test]
    fn a_mode_is_compared_only_if_it_is_wanted() {
        let file = |mode| State::File { content: Content::Text("x".into()), mode, owner: None };
        assert!(file(Some(0o600)).satisfies(&file(None)));
        assert!(!file(Some(0o600)).satisfies(&file(Some(0o644))));
    }
}
