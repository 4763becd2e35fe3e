//! The kinds of values of settings: parsing, checking and describing them.

use std::net::Ipv6Addr;

use serde_json::{Value as Json, json};

use super::yaml::{Node, Shape};
use super::{peer_policy, problem};

/// A checked value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Text, or one word of several.
    Text(String),
    /// A list of words.
    List(Vec<String>),
}

/// What a setting accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`.
    Bool,
    /// A whole number from the first to the second.
    Range(i64, i64),
    /// One of these numbers.
    Numbers(&'static [i64]),
    /// One of these words.
    Words(&'static [&'static str]),
    /// A name of at most 63 bytes, or empty.
    Name,
    /// The path of a file, or empty.
    Path,
    /// A list of at most 1024 GIDs.
    Gids,
    /// A list of at most 1024 policies for single peers.
    PeerPolicies,
}

impl Kind {
    /// Reads a value from a file; the error describes the value, as in "is a list".
    pub(super) fn read(self, node: &Node) -> Result<Value, String> {
        match (self, &node.shape) {
            (Kind::Gids, Shape::List(items)) => list(items, gid),
            (Kind::PeerPolicies, Shape::List(items)) => list(items, policy),
            (Kind::Gids | Kind::PeerPolicies, _) => Err("is not a list".to_owned()),
            (Kind::Name | Kind::Path | Kind::Words(_), Shape::Text(text)) => self.read_scalar(text),
            (_, Shape::Text(text)) => Err(format!("is the text {}", problem::quoted(text))),
            (_, Shape::Plain(text)) => self.read_scalar(text),
            (_, Shape::Null) => Err("has no value".to_owned()),
            (_, Shape::List(_)) => Err("is a list".to_owned()),
            (_, Shape::Map(_)) => Err("is a group of settings".to_owned()),
        }
    }

    fn read_scalar(self, text: &str) -> Result<Value, String> {
        let is = || format!("is {}", problem::quoted(text));
        match self {
            Kind::Bool => text.parse().map(Value::Bool).map_err(|_| is()),
            Kind::Range(low, high) => match number(text) {
                Some(number) if (low..=high).contains(&number) => Ok(Value::Int(number)),
                _ => Err(is()),
            },
            Kind::Numbers(numbers) => match number(text) {
                Some(number) if numbers.contains(&number) => Ok(Value::Int(number)),
                _ => Err(is()),
            },
            Kind::Words(words) => {
                let known = words.iter().find(|word| **word == text);
                known.map(|word| Value::Text((*word).to_owned())).ok_or_else(is)
            }
            Kind::Name if text.len() <= MAX_NAME && !text.contains(char::is_control) => {
                Ok(Value::Text(text.to_owned()))
            }
            Kind::Path if text.len() <= MAX_PATH && !text.contains(char::is_control) => {
                Ok(Value::Text(text.to_owned()))
            }
            Kind::Name | Kind::Path | Kind::Gids | Kind::PeerPolicies => Err(is()),
        }
    }

    /// The allowed values, for errors and documentation.
    pub(crate) fn allowed(self) -> String {
        let list = |words: Vec<String>| words.join(", ");
        match self {
            Kind::Bool => "true or false".to_owned(),
            Kind::Range(low, high) => format!("a whole number from {low} to {high}"),
            Kind::Numbers(numbers) => list(numbers.iter().map(i64::to_string).collect()),
            Kind::Words(words) => list(words.iter().map(|word| yaml_text(word)).collect()),
            Kind::Name => format!("a name of at most {MAX_NAME} bytes, or \"\""),
            Kind::Path => format!("a path of at most {MAX_PATH} bytes, or \"\""),
            Kind::Gids => format!("a list of at most {MAX_ITEMS} GIDs, such as [\"fe80::1\"]"),
            Kind::PeerPolicies => format!(
                "a list of at most {MAX_ITEMS} of ADDRESS[/PREFIX]=POLICY, such as \
                 [\"10.1.0.0/16=require\"]"
            ),
        }
    }

    /// The JSON schema, without documentation.
    pub(super) fn schema(self) -> Json {
        match self {
            Kind::Bool => json!({"type": "boolean"}),
            Kind::Range(low, high) => json!({"type": "integer", "minimum": low, "maximum": high}),
            Kind::Numbers(numbers) => json!({"type": "integer", "enum": numbers}),
            Kind::Words(words) => json!({"type": "string", "enum": words}),
            Kind::Name => json!({"type": "string", "maxLength": MAX_NAME}),
            Kind::Path => json!({"type": "string", "maxLength": MAX_PATH}),
            Kind::Gids => json!({
                "type": "array", "maxItems": MAX_ITEMS, "items": {"type": "string", "format": "ipv6"}
            }),
            Kind::PeerPolicies => json!({
                "type": "array", "maxItems": MAX_ITEMS,
                "items": {"type": "string", "pattern": "^[0-9A-Fa-f.:]+(/[0-9]+)?=(require|prefer|off)$"}
            }),
        }
    }
}

/// A number in canonical form: `010` is refused, since some YAML readers take it for octal.
fn number(text: &str) -> Option<i64> {
    text.parse().ok().filter(|number: &i64| number.to_string() == text)
}

/// A list of texts; `read` checks each and makes it canonical.
fn list(items: &[Node], read: fn(&str) -> Option<String>) -> Result<Value, String> {
    if items.len() > MAX_ITEMS {
        return Err(format!("has {} entries", items.len()));
    }
    let item = |item: &Node| match &item.shape {
        Shape::Plain(text) | Shape::Text(text) => {
            read(text).ok_or_else(|| format!("contains {}", problem::quoted(text)))
        }
        _ => Err("contains an entry that is not text".to_owned()),
    };
    items.iter().map(item).collect::<Result<_, _>>().map(Value::List)
}

fn gid(text: &str) -> Option<String> {
    Some(text.parse::<Ipv6Addr>().ok()?.to_string())
}

fn policy(text: &str) -> Option<String> {
    peer_policy::read(text).as_ref().map(peer_policy::format)
}

impl Value {
    /// As YAML.
    pub(crate) fn to_yaml(&self) -> String {
        match self {
            Value::Bool(value) => value.to_string(),
            Value::Int(value) => value.to_string(),
            Value::Text(value) => yaml_text(value),
            Value::List(items) => {
                let items: Vec<String> = items.iter().map(|item| quoted(item)).collect();
                format!("[{}]", items.join(", "))
            }
        }
    }

    pub(crate) fn to_json(&self) -> Json {
        match self {
            Value::Bool(value) => json!(value),
            Value::Int(value) => json!(value),
            Value::Text(value) => json!(value),
            Value::List(items) => json!(items),
        }
    }
}

/// Unquoted if YAML reads the same text back, else quoted.
fn yaml_text(text: &str) -> String {
    let bare = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    // Words that some YAML readers do not read as text.
    let reserved = ["null", "true", "false", "yes", "no", "on", "off", "y", "n"];
    let is_reserved = reserved.iter().any(|word| word.eq_ignore_ascii_case(text));
    if bare && !is_reserved { text.to_owned() } else { quoted(text) }
}

/// In double quotes, for JSON and YAML.
fn quoted(text: &str) -> String {
    Json::from(text).to_string()
}

/// A kernel device name is shorter than 64 bytes (IBV_SYSFS_NAME_MAX).
const MAX_NAME: usize = 63;
/// The kernel's PATH_MAX.
const MAX_PATH: usize = 4095;
const MAX_ITEMS: usize = 1024;
