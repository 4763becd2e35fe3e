//! A YAML writer for manifests: maps, lists and plain values, keys in the order of `kubectl`.
//!
//! A string is unquoted only if every parser of YAML 1.1 and 1.2 reads it as the same string; everything
//! else is a double-quoted JSON string, which is valid YAML.

use serde_json::{Map, Value};

/// A document, with a trailing newline.
pub(super) fn document(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Object(map) if !map.is_empty() => write_map(&mut text, map, 0, false),
        Value::Array(list) if !list.is_empty() => write_list(&mut text, list, 0),
        other => text.push_str(&format!("{}\n", scalar(other))),
    }
    text
}

/// `after_dash`: the first line is already indented, by the dash of a list.
fn write_map(text: &mut String, map: &Map<String, Value>, depth: usize, after_dash: bool) {
    for (at, (key, value)) in map.iter().enumerate() {
        if at > 0 || !after_dash {
            indent(text, depth);
        }
        text.push_str(&quote(key));
        text.push(':');
        write_value(text, value, depth);
    }
}

fn write_value(text: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            text.push('\n');
            write_map(text, map, depth + 1, false);
        }
        Value::Array(list) if !list.is_empty() => {
            text.push('\n');
            write_list(text, list, depth);
        }
        other => text.push_str(&format!(" {}\n", scalar(other))),
    }
}

fn write_list(text: &mut String, list: &[Value], depth: usize) {
    for value in list {
        indent(text, depth);
        text.push_str("- ");
        match value {
            Value::Object(map) if !map.is_empty() => write_map(text, map, depth + 1, true),
            // Manifests have no nested lists; JSON's form would be valid for them.
            other => text.push_str(&format!("{}\n", scalar(other))),
        }
    }
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => quote(text),
        other => other.to_string(),
    }
}

fn quote(text: &str) -> String {
    if is_plain(text) { text.to_owned() } else { Value::from(text).to_string() }
}

fn is_plain(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"_./-".contains(&byte);
    let begins =
        text.bytes().next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'/');
    let is_reserved = RESERVED.iter().any(|known| text.eq_ignore_ascii_case(known));
    begins && text.bytes().all(inner) && !is_reserved
}

fn indent(text: &mut String, depth: usize) {
    text.extend(std::iter::repeat_n("  ", depth));
}

/// Strings that some parsers read as a boolean or null.
const RESERVED: [&str; 9] = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"];

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn maps_lists_and_values() {
        let value = json!({
            "kind": "Pod",
            "list": [{ "name": "a", "of": { "b": 1 } }, "plain", []],
            "none": {},
            "number": 7,
        });
        let text =
            "kind: Pod\nlist:\n- name: a\n  of:\n    b: 1\n- plain\n- []\nnone: {}\nnumber: 7\n";
        assert_eq!(document(&value), text);
    }

    #[test]
    fn ambiguous_strings_are_quoted() {
        for text in [
            "true",
            "No",
            "15b3",
            "1e3",
            "0777",
            "",
            "a: b",
            "- a",
            "#",
            "*a",
            "2026-01-01",
            "~",
            "a b",
            "{}",
            "\u{7f}",
            ".inf",
            "é",
        ] {
            assert!(quote(text).starts_with('"'), "{text}");
        }
        for text in ["wirelane-job", "/dev/shm", "openshift.io/rdma", "batch/v1", "IPC_LOCK"] {
            assert_eq!(quote(text), text);
        }
        assert_eq!(quote("a\"b\n"), r#""a\"b\n""#);
    }
}
