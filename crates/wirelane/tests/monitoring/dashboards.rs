//! Queries of dashboards.

use std::path::Path;

use serde_json::Value;

/// Every query of a dashboard with its panel, as Grafana sends it when everything is selected.
pub(crate) fn queries(file: &Path) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(file).expect("a dashboard");
    let dashboard: Value = serde_json::from_str(&text).expect("JSON");
    let title = dashboard["title"].as_str().expect("a title");
    let panels = dashboard["panels"].as_array().expect("panels").iter();
    let mut found = Vec::new();
    for panel in panels.filter(|panel| panel["type"] != "row") {
        let name = format!("{title}, {}", panel["title"].as_str().expect("a title"));
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{name}");
        for target in panel["targets"].as_array().expect("queries") {
            assert_eq!(target["datasource"]["uid"], "${datasource}", "{name}");
            found.push((name.clone(), filled(target["expr"].as_str().expect("a query"))));
        }
    }
    for variable in dashboard["templating"]["list"].as_array().expect("variables") {
        if let Some(query) = variable["query"]["query"].as_str() {
            let name = format!("{title}, the variable {}", variable["name"]);
            found.push((name, labelled(query)));
        }
    }
    found
}

fn filled(query: &str) -> String {
    let mut filled = query.replace("$__rate_interval", "30s");
    for variable in ["job", "instance", "device", "gpu"] {
        filled = filled.replace(&format!("${variable}"), ".*");
    }
    assert!(!filled.contains('$'), "a variable that is not known here: {query}");
    filled
}

/// `label_values(metric, label)` is Grafana's own: series of the metric that have the label.
fn labelled(query: &str) -> String {
    let inside = query.strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')'));
    let (metric, label) = inside.and_then(|inside| inside.rsplit_once(", ")).expect("label_values");
    format!("count by ({label}) ({})", filled(metric))
}
