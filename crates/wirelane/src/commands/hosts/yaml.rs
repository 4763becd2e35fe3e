//! Hosts in YAML: a list below `hosts`, each a name or a map.
//!
//! ```yaml
//! hosts:
//!   - name: gpu1
//!     address: admin@10.0.0.11   # what ssh is given, if it is not the name
//!     fabric: 192.168.7.11
//!     slots: 8
//!     gpus: 8
//!   - gpu2
//! ```

use jobs::inventory::{Host, Inventory};

use crate::settings::problem::quoted;
use crate::settings::yaml::{self, Node, Shape};

/// Parses the document; errors have their line.
pub(super) fn parse(text: &str) -> Result<Inventory, String> {
    let document = yaml::parse(text).map_err(|error| error.to_string())?;
    let hosts = list(&document)?.iter().map(host).collect::<Result<Vec<_>, _>>()?;
    Inventory::new(hosts).map_err(|error| error.to_string())
}

/// The list, below `hosts` or at the top.
fn list(document: &Node) -> Result<&[Node], String> {
    let entries = match &document.shape {
        Shape::List(list) => return Ok(list),
        Shape::Map(entries) => entries.as_slice(),
        _ => &[],
    };
    match entries {
        [(key, Node { shape: Shape::List(list), .. })] if key.name == "hosts" => Ok(list),
        _ => Err(format!("line {}: expected one list, below `hosts:`", document.line)),
    }
}

fn host(node: &Node) -> Result<Host, String> {
    let entries = match &node.shape {
        Shape::Plain(name) | Shape::Text(name) => return Ok(Host::named(name)),
        Shape::Map(entries) => entries,
        _ => return Err(format!("line {}: a host must be a name, or have a `name:`", node.line)),
    };
    let mut host = Host::default();
    for (key, value) in entries {
        let Some(text) = text(value) else {
            return Err(format!("line {}: {} has no value", key.line, quoted(&key.name)));
        };
        let invalid = |what: &str| format!("line {}: {} is not {what}", value.line, quoted(text));
        match key.name.as_str() {
            "name" => text.clone_into(&mut host.name),
            "address" => host.address = Some(text.to_owned()),
            "fabric" => host.fabric = Some(text.parse().map_err(|_| invalid("an IP address"))?),
            "slots" => host.slots = Some(text.parse().map_err(|_| invalid("a number"))?),
            "gpus" => host.gpus = Some(text.parse().map_err(|_| invalid("a number"))?),
            other => {
                let known = "name, address, fabric, slots, gpus";
                return Err(format!(
                    "line {}: unknown field {}; known fields: {known}",
                    key.line,
                    quoted(other)
                ));
            }
        }
    }
    if host.name.is_empty() {
        return Err(format!("line {}: the host has no `name:`", node.line));
    }
    Ok(host)
}

fn text(node: &Node) -> Option<&str> {
    match &node.shape {
        Shape::Plain(text) | Shape::Text(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_with_all_fields_are_parsed() {
        let text = "hosts:\n  - name: gpu1\n    address: me@10.0.0.11\n    fabric: 192.168.7.11\n    \
                    slots: 8\n    gpus: 4\n  - gpu2\n";
        let hosts = parse(text).expect("hosts").hosts;
        let expected = Host {
            name: "gpu1".to_owned(),
            address: Some("me@10.0.0.11".to_owned()),
            fabric: "192.168.7.11".parse().ok(),
            slots: Some(8),
            gpus: Some(4),
        };
        assert_eq!(hosts, [expected, Host::named("gpu2")]);
        assert_eq!(parse("[a, b]").expect("hosts").hosts.len(), 2);
    }

    #[test]
    fn errors_have_their_line() {
        for (text, message) in [
            (
                "hosts:\n  - name: a\n    slot: 4\n",
                "line 3: unknown field `slot`; known fields: name",
            ),
            ("hosts:\n  - name: a\n    fabric: here\n", "line 3: `here` is not an IP address"),
            ("hosts:\n  - slots: 4\n", "has no `name:`"),
            ("nodes:\n  - a\n", "below `hosts:`"),
            ("", "below `hosts:`"),
            ("hosts: [a, a]", "names a twice"),
            ("hosts: [-oProxyCommand=x]", "is not a host name"),
            ("hosts: [{name: a, slots: 0}]", "0 slots"),
            ("hosts: [{name: a, gpus: -1}]", "not a number"),
            ("hosts: []", "names no host"),
            ("\t- a", "tab"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(message), "{text:?}: {error}");
        }
    }
}
