//! The table as text.

use std::fmt::Write;

use jobs::inventory::{Cell, Mark, Row, Table};

/// One row per host, a column for each property that any of them has, and the differences as text.
pub(super) fn render(table: &Table) -> String {
    let heads: Vec<&str> = Table::column_names().collect();
    let has = |at: &usize| {
        table.rows.iter().any(|row| row.cells.get(*at).is_some_and(|cell| cell.value.is_some()))
    };
    let columns: Vec<usize> = (0..heads.len()).filter(has).collect();
    let mut rows = vec![vec!["HOST".to_owned()]];
    rows[0].extend(columns.iter().map(|at| heads[*at].to_uppercase()));
    rows.extend(table.rows.iter().map(|row| line(row, &columns)));
    let mut text = aligned(&rows);
    text.push('\n');
    text.push_str(&differences(table));
    text
}

fn line(row: &Row, columns: &[usize]) -> Vec<String> {
    let mut cells = vec![row.host.clone()];
    match &row.unreached {
        Some(_) => cells.push("not reached".to_owned()),
        None => cells.extend(columns.iter().filter_map(|at| row.cells.get(*at)).map(cell_text)),
    }
    cells
}

fn cell_text(cell: &Cell) -> String {
    let mark = match cell.mark {
        Mark::Same => "",
        Mark::Differs => " *",
        Mark::Relevant => " !",
    };
    format!("{}{mark}", cell.value.as_deref().unwrap_or("-"))
}

/// The hosts that were not reached, then the differences, relevant ones first.
fn differences(table: &Table) -> String {
    let mut text = String::new();
    for row in &table.rows {
        if let Some(why) = &row.unreached {
            let _ = writeln!(text, "! {}: {why}", row.host);
        }
    }
    for (relevant, sign) in [(true, '!'), (false, '*')] {
        for difference in table.differences.iter().filter(|one| one.relevant == relevant) {
            let _ = writeln!(text, "{sign} {}", difference.message);
        }
    }
    if text.is_empty() {
        text = match table.rows.len() {
            1 => "one host: nothing to compare with\n".to_owned(),
            hosts => format!("{hosts} hosts, no differences\n"),
        };
    }
    let reached = table.rows.iter().filter(|row| row.unreached.is_none());
    let links =
        |row: &Row| row.cells.iter().any(|cell| cell.fact == "links" && cell.value.is_some());
    if table.unreached() < table.rows.len() && !reached.clone().any(links) {
        text.push_str("no host has an active RDMA port: a job across them uses TCP\n");
    }
    text
}

/// Each column as wide as its widest cell, with two spaces between.
fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |at: usize| {
        // Rows without properties have a text that may be longer than its column.
        let complete = rows.iter().filter(|row| row.len() == rows[0].len());
        complete.filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}  "));
        text.push_str(cells.collect::<String>().trim_end());
        text.push('\n');
    }
    text
}
