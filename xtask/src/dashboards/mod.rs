//! `cargo xtask dashboards`: generates the JSON files of deploy/grafana, each from a table of its panels.
//!
//! A panel is a line or two here and fifty in Grafana's format, which are mostly the same everywhere. The
//! files are committed for users who import them, and `cargo xtask check` fails where they do not match the tables.

mod cluster;
mod panel;
mod store;
mod transport;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use clap::Args;
use serde_json::{Value, json};

use crate::{Failure, npm, shell};
use panel::{Layout, Panel};

/// One dashboard.
struct Dashboard {
    /// Its file name, and its UID in Grafana: `wirelane-FILE`.
    file: &'static str,
    title: &'static str,
    about: &'static str,
    /// A metric of all monitored targets: its labels fill the variables `job` and `instance`.
    target_metric: &'static str,
    /// More variables: a label and a metric with it.
    labels: &'static [(&'static str, &'static str)],
    sections: &'static [Section],
}

/// Panels below one heading.
struct Section {
    title: &'static str,
    panels: &'static [Panel],
}

const DASHBOARDS: &[Dashboard] = &[cluster::DASHBOARD, transport::DASHBOARD, store::DASHBOARD];

#[derive(Args)]
pub(crate) struct DashboardsArgs {
    /// Check them against Grafana's own types instead, downloaded with npm
    #[arg(long)]
    schema: bool,
}

pub(crate) fn run(args: &DashboardsArgs) -> Result<(), Failure> {
    if args.schema {
        let mut node = Command::new("node");
        node.arg(shell::repository().join("xtask/src/dashboards/schema.mjs"));
        node.arg(npm::folder("grafana", SCHEMA)?);
        return shell::run(node.args(DASHBOARDS.iter().map(Dashboard::path)));
    }
    for dashboard in DASHBOARDS {
        let file = dashboard.path();
        fs::write(&file, dashboard.text())
            .map_err(|error| format!("{}: {error}", file.display()))?;
        println!("wrote {}", file.display());
    }
    Ok(())
}

/// The downloads from npm for that, if they are missing.
pub(crate) fn to_fetch() -> Result<Option<(String, &'static str)>, Failure> {
    let what = || (format!("{} from npm", SCHEMA.join(" and ")), "about 26 MB");
    Ok((!npm::is_installed("grafana", SCHEMA)?).then(what))
}

/// Fails where a file does not match its table.
pub(crate) fn check() -> Result<(), Failure> {
    for dashboard in DASHBOARDS {
        let file = dashboard.path();
        let found = fs::read_to_string(&file).unwrap_or_default();
        if found != dashboard.text() {
            return Err(format!("{}: run `cargo xtask dashboards`", file.display()));
        }
    }
    Ok(())
}

impl Dashboard {
    fn path(&self) -> PathBuf {
        shell::repository().join("deploy/grafana").join(format!("{}.json", self.file))
    }

    fn text(&self) -> String {
        format!("{:#}\n", self.document())
    }

    fn document(&self) -> Value {
        json!({
            "title": self.title,
            "description": self.about,
            "uid": format!("wirelane-{}", self.file),
            "tags": ["wirelane", "rdma"],
            "editable": true,
            "graphTooltip": 1,
            "refresh": "15s",
            "schemaVersion": 39,
            "time": {"from": "now-1h", "to": "now"},
            "timezone": "browser",
            "links": [{
                "title": "Wirelane", "type": "dashboards", "tags": ["wirelane"], "asDropdown": true,
                "includeVars": true, "keepTime": true, "targetBlank": false,
                "icon": "external link", "tooltip": "", "url": "",
            }],
            "templating": {"list": self.variables()},
            "panels": self.panels(),
        })
    }

    fn variables(&self) -> Vec<Value> {
        let Dashboard { target_metric, .. } = self;
        let mut all = vec![
            json!({
                "name": "datasource", "label": "Data source", "type": "datasource",
                "query": "prometheus", "hide": 0, "includeAll": false, "multi": false, "refresh": 1,
            }),
            variable("job", "Job", &format!("label_values({target_metric}, job)")),
            variable(
                "instance",
                "Machine",
                &format!("label_values({target_metric}{{job=~\"$job\"}}, instance)"),
            ),
        ];
        all.extend(self.labels.iter().map(|(label, metric)| {
            let values = format!("label_values({metric}{{{MACHINES}}}, {label})");
            variable(label, label, &values)
        }));
        all
    }

    /// Sections one below the other; the panels of each from left to right in rows.
    fn panels(&self) -> Vec<Value> {
        let mut layout = Layout::default();
        let mut all = Vec::new();
        for section in self.sections {
            all.push(json!({
                "id": layout.number(), "type": "row", "title": section.title, "collapsed": false,
                "gridPos": layout.heading(), "panels": [],
            }));
            all.extend(section.panels.iter().map(|panel| panel.document(&mut layout)));
        }
        all
    }
}

/// A variable with multiple selection.
fn variable(name: &str, label: &str, query: &str) -> Value {
    json!({
        "name": name, "label": label, "type": "query", "datasource": source(),
        "query": {"query": query, "refId": "StandardVariableQuery"},
        "hide": 0, "includeAll": true, "allValue": ".*", "multi": true, "refresh": 2, "sort": 7,
        "current": {"selected": true, "text": ["All"], "value": ["$__all"]},
    })
}

/// The data source that the user selected.
fn source() -> Value {
    json!({"type": "prometheus", "uid": "${datasource}"})
}

/// Grafana's types, and the compiler for them.
const SCHEMA: &[&str] = &["@grafana/schema@13.2.3", "typescript@5.9.3"];

/// The machines that the user selected.
const MACHINES: &str = r#"job=~"$job", instance=~"$instance""#;
