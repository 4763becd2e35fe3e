//! A panel: its queries and its visualisation.

use serde_json::{Value, json};

use super::{MACHINES, source};

/// One panel. In queries, `@` is replaced by the machines that the user selected, `@device` and `@gpu` by those and the
/// selected devices or GPUs.
pub(super) struct Panel {
    pub(super) title: &'static str,
    /// Its description in Grafana.
    pub(super) about: &'static str,
    pub(super) kind: PanelKind,
    /// Grafana's name of the unit: `bps`, `percentunit`.
    pub(super) unit: &'static str,
    /// Queries with the legend of their series; in tables the column header.
    pub(super) queries: &'static [(&'static str, &'static str)],
    /// The thresholds for yellow and red.
    pub(super) limits: Option<[f64; 2]>,
}

/// The visualisation of a panel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PanelKind {
    /// A number.
    Number,
    /// Lines over time.
    Lines,
    /// A timeline of the values of each series.
    States,
    /// A row for each label set, a column for each query.
    Table,
}

/// The position of the next panel. A row has 24 columns.
#[derive(Default)]
pub(super) struct Layout {
    last: u64,
    column: u64,
    line: u64,
    /// The height of the current row.
    height: u64,
}

/// A panel with no limits.
pub(super) const fn panel(
    title: &'static str,
    kind: PanelKind,
    unit: &'static str,
    about: &'static str,
    queries: &'static [(&'static str, &'static str)],
) -> Panel {
    Panel { title, about, kind, unit, queries, limits: None }
}

impl Panel {
    pub(super) const fn with_limits(mut self, yellow: f64, red: f64) -> Panel {
        self.limits = Some([yellow, red]);
        self
    }

    pub(super) fn document(&self, layout: &mut Layout) -> Value {
        let mut document = json!({
            "id": layout.number(), "title": self.title, "description": self.about,
            "type": self.kind.plugin(), "datasource": source(),
            "gridPos": layout.panel(self.kind.size()),
            "targets": self.targets(),
            "fieldConfig": {"defaults": self.defaults(), "overrides": []},
            "options": self.kind.options(),
        });
        if self.kind == PanelKind::Table {
            document["transformations"] = self.columns();
        }
        document
    }

    fn targets(&self) -> Vec<Value> {
        let now = matches!(self.kind, PanelKind::Number | PanelKind::Table);
        let letters = 'A'..='Z';
        let target = |((query, name), letter): (&(&str, &str), char)| {
            json!({
                "refId": letter.to_string(), "datasource": source(), "editorMode": "code",
                "expr": with_selection(query), "legendFormat": name,
                "instant": now, "range": !now,
                "format": if self.kind == PanelKind::Table { "table" } else { "time_series" },
            })
        };
        self.queries.iter().zip(letters).map(target).collect()
    }

    fn defaults(&self) -> Value {
        let mut steps = vec![json!({"color": "green", "value": null})];
        if let Some([yellow, red]) = self.limits {
            steps.push(json!({"color": "yellow", "value": yellow}));
            steps.push(json!({"color": "red", "value": red}));
        }
        let mut defaults = json!({
            "unit": self.unit, "thresholds": {"mode": "absolute", "steps": steps},
            "color": {"mode": self.kind.colours()}, "custom": self.kind.custom(self.limits.is_some()),
        });
        if self.unit == "percentunit" {
            defaults["min"] = json!(0);
            defaults["max"] = json!(1);
        }
        defaults
    }

    /// One row for each label set: columns are joined by labels, and named after their queries.
    fn columns(&self) -> Value {
        let letters = ('A'..='Z').map(|letter| format!("Value #{letter}"));
        let names: serde_json::Map<String, Value> =
            letters.zip(self.queries).map(|(column, (_, name))| (column, json!(name))).collect();
        json!([
            {"id": "merge", "options": {}},
            {"id": "organize", "options": {
                "excludeByName": {"Time": true, "job": true, "uuid": true, "cluster": true},
                "indexByName": {}, "renameByName": names,
            }},
        ])
    }
}

impl PanelKind {
    fn plugin(self) -> &'static str {
        match self {
            PanelKind::Number => "stat",
            PanelKind::Lines => "timeseries",
            PanelKind::States => "state-timeline",
            PanelKind::Table => "table",
        }
    }

    /// Width and height.
    fn size(self) -> (u64, u64) {
        match self {
            PanelKind::Number => (4, 4),
            PanelKind::Lines | PanelKind::States => (12, 8),
            PanelKind::Table => (24, 9),
        }
    }

    fn colours(self) -> &'static str {
        match self {
            PanelKind::Lines => "palette-classic",
            PanelKind::Number | PanelKind::States | PanelKind::Table => "thresholds",
        }
    }

    fn custom(self, limited: bool) -> Value {
        match self {
            PanelKind::Number => json!({}),
            PanelKind::Lines => json!({
                "drawStyle": "line", "fillOpacity": 8, "lineWidth": 1, "showPoints": "never",
                "thresholdsStyle": {"mode": if limited { "line" } else { "off" }},
            }),
            PanelKind::States => json!({"fillOpacity": 70, "lineWidth": 0}),
            PanelKind::Table => json!({"align": "auto", "cellOptions": {"type": "auto"}}),
        }
    }

    fn options(self) -> Value {
        let legend = json!({
            "displayMode": "table", "placement": "bottom", "showLegend": true, "calcs": ["lastNotNull", "max"],
        });
        match self {
            PanelKind::Number => json!({
                "colorMode": "value", "graphMode": "none", "justifyMode": "auto", "orientation": "auto",
                "textMode": "auto", "wideLayout": true, "showPercentChange": false,
                "percentChangeColorMode": "standard",
                "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": false},
            }),
            PanelKind::Lines => {
                json!({"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}})
            }
            PanelKind::States => json!({
                "alignValue": "left", "mergeValues": true, "rowHeight": 0.9, "showValue": "auto",
                "legend": {"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []},
                "tooltip": {"mode": "single", "sort": "none"},
            }),
            PanelKind::Table => json!({"showHeader": true, "cellHeight": "sm"}),
        }
    }
}

impl Layout {
    pub(super) fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub(super) fn heading(&mut self) -> Value {
        self.next_line();
        let position = json!({"x": 0, "y": self.line, "w": WIDTH, "h": 1});
        self.line += 1;
        position
    }

    fn panel(&mut self, (width, height): (u64, u64)) -> Value {
        if self.column + width > WIDTH {
            self.next_line();
        }
        let position = json!({"x": self.column, "y": self.line, "w": width, "h": height});
        self.column += width;
        self.height = self.height.max(height);
        position
    }

    fn next_line(&mut self) {
        self.line += self.height;
        (self.column, self.height) = (0, 0);
    }
}

/// A query with the machines, devices and GPUs that the user selected.
fn with_selection(query: &str) -> String {
    query
        .replace("@device", "@, device=~\"$device\"")
        .replace("@gpu", "@, gpu=~\"$gpu\"")
        .replace('@', MACHINES)
}

const WIDTH: u64 = 24;
