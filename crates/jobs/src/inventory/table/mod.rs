//! A comparison of hosts: one row per host, and their differences.
//!
//! A fact is a row of [`facts::FACTS`]. The most common value is assumed to be intended, or the first host's if several are
//! equally common; hosts with another value are marked. Whether hosts fit together is checked as by `doctor --peer`, between
//! the first reached host and each other one.

mod facts;

use std::collections::BTreeSet;

use serde::Serialize;

use doctor::{CheckInput, Severity, peer};
use facts::{FACTS, Fact};

/// A comparison of hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Table {
    /// One per host, in their order.
    pub rows: Vec<Row>,
    /// Their differences.
    pub differences: Vec<Difference>,
}

/// The facts of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Its name.
    pub host: String,
    /// Why it could not be reached.
    pub unreached: Option<String>,
    /// One for each fact, in the order of [`Table::column_names`]; empty for an unreached host.
    pub cells: Vec<Cell>,
}

/// A fact of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cell {
    /// The name of the fact.
    pub fact: &'static str,
    /// Its value, if known.
    pub value: Option<String>,
    /// Whether it differs from other hosts.
    pub mark: Mark,
}

/// How a host's fact compares to those of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// The most common value.
    Same,
    /// Differs, without effect on jobs.
    Differs,
    /// Differs, and affects a job across these hosts.
    Relevant,
}

/// A difference of hosts, or why they do not fit together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The fact, or `compatibility`.
    pub fact: &'static str,
    /// Whether it affects a job across these hosts.
    pub relevant: bool,
    /// The hosts that differ.
    pub hosts: Vec<String>,
    /// The difference in one line.
    pub message: String,
}

impl Table {
    /// Compares hosts; an unreached host has only the reason.
    pub fn new(hosts: &[(String, Result<CheckInput<'_>, String>)]) -> Self {
        let mut rows: Vec<Row> = hosts.iter().map(row).collect();
        let mut differences = Vec::new();
        for (at, fact) in FACTS.iter().enumerate() {
            differences.extend(mark(&mut rows, at, fact));
        }
        differences.extend(check_compatibility(hosts));
        Table { rows, differences }
    }

    /// The column headers.
    pub fn column_names() -> impl Iterator<Item = &'static str> {
        FACTS.iter().map(|fact| fact.name)
    }

    /// Whether a difference affects a job across these hosts.
    pub fn has_relevant(&self) -> bool {
        self.differences.iter().any(|difference| difference.relevant)
    }

    /// Number of unreached hosts.
    pub fn unreached(&self) -> usize {
        self.rows.iter().filter(|row| row.unreached.is_some()).count()
    }
}

fn row((host, input): &(String, Result<CheckInput<'_>, String>)) -> Row {
    let cell = |input: &CheckInput<'_>, fact: &Fact| {
        let value = (fact.read)(input).map(|value| doctor::one_line(&value));
        Cell { fact: fact.name, value, mark: Mark::Same }
    };
    let (cells, unreached) = match input {
        Ok(input) => (FACTS.iter().map(|fact| cell(input, fact)).collect(), None),
        Err(why) => (Vec::new(), Some(why.clone())),
    };
    Row { host: host.clone(), unreached, cells }
}

/// Marks hosts that differ from the most common value, and returns the differences.
fn mark(rows: &mut [Row], at: usize, fact: &Fact) -> Vec<Difference> {
    let compared = |row: &Row| row.cells.get(at).map(|cell| cell.value.clone());
    let values: Vec<Option<Option<String>>> = rows.iter().map(compared).collect();
    let values: Vec<Option<String>> =
        values.into_iter().map(|value| value?.or_else(|| fact.none.map(str::to_owned))).collect();
    let Some(common) = most_common(&values) else { return Vec::new() };
    let having = |value: &str| -> Vec<String> {
        let hosts = rows.iter().zip(&values).filter(|(_, other)| other.as_deref() == Some(value));
        hosts.map(|(row, _)| row.host.clone()).collect()
    };
    let most = having(&common);
    let mut different: Vec<&String> =
        values.iter().flatten().filter(|value| **value != common).collect();
    let mut seen = BTreeSet::new();
    different.retain(|value| seen.insert(*value));
    let difference = |value: &&String| {
        let hosts = having(value);
        let (who, others, name, why) = (list(&hosts), list(&most), fact.name, fact.why);
        let message = format!(
            "{name}: {} {value}, but {} {common}; {why}",
            has(&who, &hosts),
            has(&others, &most)
        );
        Difference { fact: name, relevant: fact.relevant, hosts, message }
    };
    let differences: Vec<Difference> = different.iter().map(difference).collect();
    for row in rows.iter_mut() {
        let differs = differences.iter().any(|difference| difference.hosts.contains(&row.host));
        if let Some(cell) = row.cells.get_mut(at).filter(|_| differs) {
            cell.mark = if fact.relevant { Mark::Relevant } else { Mark::Differs };
        }
    }
    differences
}

fn has(who: &str, hosts: &[String]) -> String {
    format!("{who} {}", if hosts.len() == 1 { "has" } else { "have" })
}

/// The most common value; the first one if several are equally common.
fn most_common(values: &[Option<String>]) -> Option<String> {
    let values: Vec<&String> = values.iter().flatten().collect();
    let having = |value: &&&String| values.iter().filter(|other| other == value).count();
    // `max_by_key` returns the last of equals, so the order is reversed.
    values.iter().rev().max_by_key(having).map(|value| (*value).clone())
}

/// Checks whether the first reached host and each other one fit together.
fn check_compatibility(hosts: &[(String, Result<CheckInput<'_>, String>)]) -> Vec<Difference> {
    let mut reached = hosts.iter().filter_map(|(host, input)| Some((host, input.as_ref().ok()?)));
    let Some((first, ours)) = reached.next() else { return Vec::new() };
    let has_no_fabric = |input: &CheckInput<'_>| input.active_ports().next().is_none();
    let mut found: Vec<Difference> = Vec::new();
    for (host, theirs) in reached {
        // A host without a fabric is in the table as such.
        if has_no_fabric(ours) || has_no_fabric(theirs) {
            continue;
        }
        let findings = peer::compare(ours, theirs).into_iter();
        for finding in findings.filter(|finding| finding.severity >= Severity::Warning) {
            let message = finding.summary;
            match found.iter_mut().find(|difference| difference.message == message) {
                Some(known) if known.hosts.last() == Some(host) => {}
                Some(known) => known.hosts.push(host.clone()),
                None => found.push(Difference {
                    fact: "compatibility",
                    relevant: true,
                    hosts: vec![host.clone()],
                    message,
                }),
            }
        }
    }
    for difference in &mut found {
        let (who, message) = (list(&difference.hosts), &difference.message);
        difference.message = format!("compatibility: {first} (here) and {who} (there): {message}");
    }
    found
}

/// The first few hosts by name, and the number of others.
fn list(hosts: &[String]) -> String {
    match hosts.len() {
        0..=MAX_LISTED_HOSTS => hosts.join(", "),
        many => {
            format!(
                "{} and {} more",
                hosts[..MAX_LISTED_HOSTS - 1].join(", "),
                many - MAX_LISTED_HOSTS + 1
            )
        }
    }
}

const MAX_LISTED_HOSTS: usize = 4;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use node::{Node, Tree};

    use super::*;

    fn table(names: &[&str]) -> Table {
        let trees = Path::new(env!("CARGO_MANIFEST_DIR")).join("../node/tests/trees");
        let tree = |name: &&str| Tree::at(&trees.join(format!("{name}.json"))).expect("a tree");
        let trees: Vec<Tree> = names.iter().map(tree).collect();
        let nodes: Vec<Node> = trees.iter().map(Node::read).collect();
        let input = |(tree, node)| Ok(CheckInput::new(node, tree));
        let inputs = trees.iter().zip(&nodes).map(input);
        let names = names.iter().enumerate().map(|(at, name)| format!("{name}.{at}"));
        Table::new(&names.zip(inputs).collect::<Vec<_>>())
    }

    #[test]
    fn equal_hosts_differ_in_nothing() {
        let table = table(&["ndr8", "ndr8", "ndr8"]);
        assert_eq!(
            (table.differences.len(), table.has_relevant(), table.unreached()),
            (0, false, 0)
        );
    }

    #[test]
    fn one_of_three_is_marked_whatever_its_position() {
        for names in [["mtu", "mlx5-roce", "mlx5-roce"], ["mlx5-roce", "mlx5-roce", "mtu"]] {
            let table = table(&names);
            let mtu = table.differences.iter().find(|one| one.fact == "mtu").expect("a difference");
            assert!(
                mtu.relevant && mtu.hosts.len() == 1 && mtu.hosts[0].starts_with("mtu"),
                "{mtu:?}"
            );
        }
    }

    #[test]
    fn unreached_hosts_are_not_compared() {
        let rows = [("a".to_owned(), Err("dead".to_owned())), ("b".to_owned(), Err(String::new()))];
        let table = Table::new(&rows);
        assert_eq!((table.unreached(), table.differences.len()), (2, 0));
    }

    #[test]
    fn many_hosts_are_counted() {
        let hosts: Vec<String> = (1..=9).map(|at| format!("n{at}")).collect();
        assert_eq!(list(&hosts), "n1, n2, n3 and 6 more");
        assert_eq!(list(&hosts[..4]), "n1, n2, n3, n4");
    }
}
