//! The output of `nft -j list ruleset`: a list of chains and rules.

use serde_json::Value;

use super::Rules;

pub(super) fn parse(text: &str) -> Option<Rules> {
    let document: Value = serde_json::from_str(text).ok()?;
    let items = document["nftables"].as_array()?;
    let mut rules = Rules::default();
    let chains: Vec<&Value> = items.iter().map(|item| &item["chain"]).collect();
    let inputs: Vec<&&Value> = chains.iter().filter(|chain| chain["hook"] == "input").collect();
    rules.drops_by_default = inputs.iter().any(|chain| chain["policy"] == "drop");
    for rule in items.iter().map(|item| &item["rule"]) {
        let Some(parts) = rule["expr"].as_array() else { continue };
        let has = |verdict: &str| parts.iter().any(|part| part.get(verdict).is_some());
        let is_of_input = inputs.iter().any(|chain| {
            chain["name"] == rule["chain"]
                && chain["table"] == rule["table"]
                && chain["family"] == rule["family"]
        });
        // An unconditional drop at the end of a chain.
        let condition = has("match") || has("vmap") || has("jump") || has("limit");
        if is_of_input && !condition && (has("drop") || has("reject")) {
            rules.drops_by_default = true;
        }
        if has("accept") {
            parts.iter().for_each(|part| ports(&part["match"], &mut rules));
        }
    }
    Some(rules)
}

/// `{"op": "==", "left": {"payload": {"protocol": "udp", "field": "dport"}}, "right": 4791}`.
fn ports(condition: &Value, rules: &mut Rules) {
    let payload = &condition["left"]["payload"];
    if condition["op"] != "==" || payload["field"] != "dport" {
        return;
    }
    let right = &condition["right"];
    let ranges: Vec<(u16, u16)> = match right["set"].as_array() {
        Some(set) => set.iter().filter_map(range).collect(),
        None => range(right).into_iter().collect(),
    };
    match payload["protocol"].as_str().unwrap_or_default() {
        // The transport's port, whichever it is.
        "th" => {
            rules.accept("udp", ranges.clone());
            rules.accept("tcp", ranges);
        }
        protocol => rules.accept(protocol, ranges),
    }
}

fn range(value: &Value) -> Option<(u16, u16)> {
    let port = |value: &Value| value.as_u64().and_then(|port| u16::try_from(port).ok());
    match value["range"].as_array().map(Vec::as_slice) {
        Some([first, last]) => Some((port(first)?, port(last)?)),
        _ => port(value).map(|port| (port, port)),
    }
}
