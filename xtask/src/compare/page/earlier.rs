//! An earlier page: its rows, from the file of JSON that is saved beside every page, and what has changed since.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::Failure;

/// The ratios of an earlier page.
pub(super) struct EarlierPage {
    pub(super) day: String,
    pub(super) machine: String,
    ratios: BTreeMap<RowId, Spread>,
}

/// The part, the test, and what it is compared with.
type RowId = (String, String, String);

/// A median and its range.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Spread {
    median: f64,
    min: f64,
    max: f64,
}

impl EarlierPage {
    pub(super) fn read(path: &Path) -> Result<EarlierPage, Failure> {
        let failed = |error: &dyn std::fmt::Display| {
            format!("read {}: {error} — it is saved beside a page, as .json", path.display())
        };
        let text = fs::read_to_string(path).map_err(|error| failed(&error))?;
        let document: Value = serde_json::from_str(&text).map_err(|error| failed(&error))?;
        EarlierPage::of(&document).ok_or_else(|| failed(&"it has no rows"))
    }

    fn of(document: &Value) -> Option<EarlierPage> {
        let parts = document["parts"].as_object()?;
        let mut ratios = BTreeMap::new();
        for (part, rows) in parts {
            for row in rows.as_array().into_iter().flatten() {
                for (peer, ratio) in ratios_of(row) {
                    let id = (part.clone(), text_of(row, "name"), peer);
                    ratios.extend(Spread::of(ratio).map(|spread| (id, spread)));
                }
            }
        }
        let [day, machine] = ["day", "machine"].map(|name| text_of(document, name));
        Some(EarlierPage { day, machine, ratios })
    }

    /// The earlier ratio of a row and how it changed, as text; empty if the row is new.
    pub(super) fn compare(&self, part: &str, row: &str, peer: &str, ratio: &Value) -> String {
        let id = (part.to_owned(), row.to_owned(), peer.to_owned());
        match (self.ratios.get(&id), Spread::of(ratio)) {
            (Some(before), Some(now)) => format!("{:.2}{}", before.median, before.change(now)),
            _ => String::new(),
        }
    }
}

impl Spread {
    fn of(ratio: &Value) -> Option<Spread> {
        let [median, min, max] = ["median", "min", "max"].map(|name| ratio[name].as_f64());
        Some(Spread { median: median?, min: min?, max: max? })
    }

    /// The change, if it is more than a tenth and the new median is outside of the earlier range: less may be noise.
    fn change(self, now: Spread) -> &'static str {
        if now.median < self.min && now.median < 0.9 * self.median {
            " **worse**"
        } else if now.median > self.max && now.median > 1.1 * self.median {
            " better"
        } else {
            ""
        }
    }
}

/// The ratios of a row, each with its peer: one, or those of a row of the store.
fn ratios_of(row: &Value) -> Vec<(String, &Value)> {
    match row["ratios"].as_array() {
        Some(ratios) => ratios.iter().map(|ratio| (text_of(ratio, "beside"), ratio)).collect(),
        None => vec![(text_of(row, "peer"), &row["ratio"])],
    }
}

/// The file of a page's rows.
pub(super) fn rows_file(page: &Path) -> PathBuf {
    page.with_extension("json")
}

/// The content of that file.
pub(super) fn document(day: &str, machine: &str, parts: &[(&str, Vec<Value>)]) -> Value {
    let parts: serde_json::Map<String, Value> =
        parts.iter().map(|(name, rows)| ((*name).to_owned(), rows.clone().into())).collect();
    json!({ "day": day, "machine": machine, "parts": parts })
}

fn text_of(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(median: f64) -> Value {
        json!({ "median": median, "min": median * 0.95, "max": median * 1.05, "beside": "Redis" })
    }

    #[test]
    fn a_ratio_that_left_its_range_is_marked() {
        let rows = vec![
            json!({ "name": "GET", "ratios": [ratio(2.0)] }),
            json!({ "name": "lat", "peer": "ib_write_lat", "ratio": ratio(1.0) }),
            json!({ "name": "PUT", "error": "no server" }),
        ];
        let document = document("2026-11-19", "a machine", &[("kv", rows)]);
        let earlier = EarlierPage::of(&document).unwrap();
        assert_eq!((&*earlier.day, &*earlier.machine), ("2026-11-19", "a machine"));
        let get = |now: f64| earlier.compare("kv", "GET", "Redis", &ratio(now));
        assert_eq!(
            [get(1.7), get(1.85), get(2.05), get(2.3)],
            ["2.00 **worse**", "2.00", "2.00", "2.00 better"]
        );
        assert_eq!(earlier.compare("kv", "lat", "ib_write_lat", &ratio(0.5)), "1.00 **worse**");
        assert_eq!(earlier.compare("kv", "PUT", "Redis", &ratio(1.0)), "", "it was not measured");
        assert_eq!(earlier.compare("fabric", "GET", "Redis", &ratio(1.0)), "", "another part");
    }

    #[test]
    fn a_file_that_is_no_page_is_refused() {
        assert!(EarlierPage::of(&json!({})).is_none());
        let error = EarlierPage::read(Path::new("/proc/self/no-page.json")).err().unwrap();
        assert!(
            error.contains("/proc/self/no-page.json") && error.contains("beside a page"),
            "{error}"
        );
    }
}
