//! The rows as text.

use serde_json::Value;

pub(super) fn print(rows: &[Value]) {
    for row in rows {
        if let Some(error) = row["error"].as_str() {
            println!("{}: failed: {error}", text(row, "name"));
            continue;
        }
        println!("{}, {}", text(row, "name"), text(row, "unit"));
        for program in list(row, "programs") {
            println!("    {:32} {}", text(program, "program"), measurements(program));
        }
        for ratio in list(row, "ratios") {
            let peer = format!("ratio to {}", text(ratio, "beside"));
            let aim = ratio["aim"].as_f64().map(|aim| format!("   aim {aim}: {}", verdict(ratio)));
            println!("  = {peer:32} {}{}", measurements(ratio), aim.unwrap_or_default());
        }
        if let Some(limit) = row["limit"].as_f64() {
            println!("  = at most {limit}: {}", verdict(row));
        }
    }
}

fn measurements(spread: &Value) -> String {
    let [median, min, max] = ["median", "min", "max"].map(|name| number(&spread[name]));
    format!("{median:>10} ({min}-{max})")
}

/// With about four digits.
fn number(value: &Value) -> String {
    match value.as_f64().unwrap_or(f64::NAN) {
        value if value.abs() >= 100.0 => format!("{value:.0}"),
        value => format!("{value:.2}"),
    }
}

fn verdict(value: &Value) -> &'static str {
    if value["met"] == true { "met" } else { "missed" }
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}

fn list<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}
