//! The state of a target: what it was, is or shall be.

use serde::{Deserialize, Serialize};

/// The state of a [`Target`](super::Target).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Nothing of that name is there.
    Absent,
    /// A file. What is not said of rights and owner stays as it is.
    File {
        /// Its bytes.
        content: Content,
        /// Its rights.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<u32>,
        /// Who owns it: user and group.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<(u32, u32)>,
    },
    /// One value for each part of the target. As found, `None` is not there; as wanted, it stays as it is.
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
    /// A file of this text, with the rights that it has or those of any file.
    pub fn text(text: impl Into<String>) -> State {
        State::File { content: Content::Text(text.into()), mode: None, owner: None }
    }

    /// The same value for all parts.
    pub fn all(value: impl Into<String>, parts: usize) -> State {
        State::Values(vec![Some(value.into()); parts])
    }

    /// Whether what was found is what is wanted.
    pub fn satisfies(&self, wanted: &State) -> bool {
        match (self, wanted) {
            (State::Absent, State::Absent) => true,
            (
                State::File { content, mode, .. },
                State::File { content: other, mode: wanted, .. },
            ) => content == other && wanted.is_none_or(|wanted| *mode == Some(wanted)),
            (State::Values(found), State::Values(wanted)) => {
                let fits = |(found, wanted): (&Option<String>, &Option<String>)| {
                    wanted.is_none() || found == wanted
                };
                found.len() == wanted.len() && found.iter().zip(wanted).all(fits)
            }
            _ => false,
        }
    }

    /// The same, with what is gone taken from another: a part that is not there any more stands in no one's way.
    pub(super) fn without_gone(&self, other: &State) -> State {
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

    /// Whether each part is as it was or as it shall be: where a change was cut off in the middle.
    pub fn is_between(&self, before: &State, wanted: &State) -> bool {
        let (State::Values(found), State::Values(before), State::Values(wanted)) =
            (self, before, wanted)
        else {
            return self.satisfies(before) || self.satisfies(wanted);
        };
        let mut parts = found.iter().zip(before).zip(wanted);
        parts.all(|((found, before), wanted)| found == before || found == wanted)
    }
}

impl Content {
    /// Bytes as they were read.
    pub fn of(bytes: Vec<u8>) -> Content {
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
    fn what_is_not_wanted_otherwise_is_satisfied_by_anything() {
        let found = values(&[Some("on"), Some("8")]);
        assert!(found.satisfies(&values(&[Some("on"), None])));
        assert!(!found.satisfies(&values(&[Some("off"), None])));
        assert!(!values(&[None]).satisfies(&values(&[Some("1")])), "its file is gone");
    }

    #[test]
    fn a_change_cut_off_in_the_middle_is_between() {
        let (before, wanted) = (values(&[Some("a"), Some("a")]), values(&[Some("b"), Some("b")]));
        assert!(values(&[Some("b"), Some("a")]).is_between(&before, &wanted));
        assert!(!values(&[Some("b"), Some("c")]).is_between(&before, &wanted));
    }

    #[test]
    fn a_file_of_other_rights_is_another_only_if_they_are_wanted() {
        let file = |mode| State::File { content: Content::Text("x".into()), mode, owner: None };
        assert!(file(Some(0o600)).satisfies(&file(None)));
        assert!(!file(Some(0o600)).satisfies(&file(Some(0o644))));
    }
}
