//! The settings as a JSON schema and as an annotated YAML file, both generated from the table.

use serde_json::{Map, Value as Json, json};

use super::table::{SETTINGS, Setting};

/// JSON schema, draft 2020-12, of every nesting that a settings file may use, with the current names.
pub(crate) fn json_schema() -> Json {
    let mut root = sections();
    let inner = Json::Object(root.clone());
    root.insert("dwcp".to_owned(), object(inner, "The same settings, nested as in older files."));
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Wirelane settings",
        "type": "object",
        "additionalProperties": false,
        "properties": root,
    })
}

/// The properties of a file's top level.
fn sections() -> Map<String, Json> {
    let mut transport = group("transport.");
    let nested = object(Json::Object(transport.clone()), "The same settings, nested.");
    transport.insert("amst".to_owned(), nested);
    let rdma = object(Json::Object(group("security.rdma.")), "Who may connect over RDMA.");
    let mut security = group("security.");
    security.insert("rdma".to_owned(), rdma);
    let mut root = Map::new();
    root.insert(
        "transport".to_owned(),
        object(Json::Object(transport), "How bytes are moved between machines."),
    );
    root.insert("security".to_owned(), object(Json::Object(security), "Who may connect."));
    root.extend(group(""));
    root
}

/// The settings whose key is `prefix` and a name.
fn group(prefix: &str) -> Map<String, Json> {
    SETTINGS
        .iter()
        .filter(|setting| setting.key.strip_suffix(setting.name()) == Some(prefix))
        .map(|setting| (setting.name().to_owned(), property(setting)))
        .collect()
}

fn property(setting: &Setting) -> Json {
    let mut schema = setting.kind.schema();
    schema["description"] = json!(sentence(setting.doc));
    schema["default"] = setting.default_value().to_json();
    schema
}

fn object(properties: Json, description: &str) -> Json {
    json!({
        // A section may be empty.
        "type": ["object", "null"],
        "description": description,
        "additionalProperties": false,
        "properties": properties,
    })
}

/// Documentation as one line.
pub(crate) fn sentence(doc: &str) -> String {
    doc.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A complete settings file: every setting with its value and documentation.
pub(crate) fn annotated_yaml<'v>(values: impl Iterator<Item = &'v super::Value>) -> String {
    let mut text = String::from(
        "# Settings of Wirelane. Every setting is here with its documentation; a file needs only\n\
         # those that differ. Check it with: wirelane config check FILE\n",
    );
    let mut open: Vec<&str> = Vec::new();
    for (setting, value) in SETTINGS.iter().zip(values) {
        let mut sections: Vec<&str> = setting.key.split('.').collect();
        sections.pop();
        let shared = open.iter().zip(&sections).take_while(|(a, b)| a == b).count();
        for (depth, section) in sections.iter().enumerate().skip(shared) {
            text.push_str(&format!("\n{}{section}:", "  ".repeat(depth)));
        }
        let indent = "  ".repeat(sections.len());
        open = sections;
        text.push('\n');
        for line in setting.doc.lines() {
            text.push_str(&format!("{indent}# {}\n", line.trim()));
        }
        text.push_str(&format!("{indent}# Allowed: {}\n", setting.kind.allowed()));
        text.push_str(&format!("{indent}{}: {}\n", setting.name(), value.to_yaml()));
    }
    text
}
