//! Hosts beside each other: one row a host, and where they differ.
//!
//! A fact is a row of [`facts::FACTS`]. What most hosts have is taken for what is meant, the first host's of equals; whoever
//! has something else is marked. Whether two hosts fit together is what `doctor --peer` says of the first that was
//! reached and each other.

mod facts;

use std::collections::BTreeSet;

use serde::Serialize;

use doctor::{Case, Verdict, peer};
use facts::{FACTS, Fact};

/// Hosts beside each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Table {
    /// In their order.
    pub rows: Vec<Row>,
    /// Where they differ, in words.
    pub differences: Vec<Difference>,
}

/// What is known of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Its name.
    pub host: String,
    /// Why nothing is known of it.
    pub unreached: Option<String>,
    /// One for each fact, in the order of [`Table::heads`]; none of a host that was not reached.
    pub cells: Vec<Cell>,
}

/// A fact of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cell {
    /// Which.
    pub fact: &'static str,
    /// What it is there, if it is known or there is any.
    pub value: Option<String>,
    /// Whether others have something else.
    pub mark: Mark,
}

/// How a host's fact stands to those of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// As most have it.
    Same,
    /// Differs, which is worth knowing.
    Differs,
    /// Differs, and a job across these hosts will suffer from it.
    Matters,
}

/// Something in which hosts differ, or do not fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The fact, or `fit`.
    pub fact: &'static str,
    /// Whether a job across these hosts will suffer from it.
    pub matters: bool,
    /// Who differs.
    pub hosts: Vec<String>,
    /// One line.
    pub words: String,
}

impl Table {
    /// Compares hosts; of one that was not reached there is only the reason.
    pub fn new(hosts: &[(String, Result<Case<'_>, String>)]) -> Self {
        let mut rows: Vec<Row> = hosts.iter().map(row).collect();
        let mut differences = Vec::new();
        for (at, fact) in FACTS.iter().enumerate() {
            differences.extend(mark(&mut rows, at, fact));
        }
        differences.extend(fit(hosts));
        Table { rows, differences }
    }

    /// What the columns are called.
    pub fn heads() -> impl Iterator<Item = &'static str> {
        FACTS.iter().map(|fact| fact.name)
    }

    /// Whether a job across these hosts will suffer.
    pub fn matters(&self) -> bool {
        self.differences.iter().any(|difference| difference.matters)
    }

    /// How many hosts were not reached.
    pub fn unreached(&self) -> usize {
        self.rows.iter().filter(|row| row.unreached.is_some()).count()
    }
}

fn row((host, case): &(String, Result<Case<'_>, String>)) -> Row {
    let cell = |case: &Case<'_>, fact: &Fact| {
        let value = (fact.read)(case).map(|value| doctor::one_line(&value));
        Cell { fact: fact.name, value, mark: Mark::Same }
    };
    let (cells, unreached) = match case {
        Ok(case) => (FACTS.iter().map(|fact| cell(case, fact)).collect(), None),
        Err(why) => (Vec::new(), Some(why.clone())),
    };
    Row { host: host.clone(), unreached, cells }
}

/// Marks hosts that differ from most, and lists the differences.
fn mark(rows: &mut [Row], at: usize, fact: &Fact) -> Vec<Difference> {
    let compared = |row: &Row| row.cells.get(at).map(|cell| cell.value.clone());
    let values: Vec<Option<Option<String>>> = rows.iter().map(compared).collect();
    let values: Vec<Option<String>> =
        values.into_iter().map(|value| value?.or_else(|| fact.none.map(str::to_owned))).collect();
    let Some(usual) = usual(&values) else { return Vec::new() };
    let having = |value: &str| -> Vec<String> {
        let hosts = rows.iter().zip(&values).filter(|(_, other)| other.as_deref() == Some(value));
        hosts.map(|(row, _)| row.host.clone()).collect()
    };
    let most = having(&usual);
    let mut odd: Vec<&String> = values.iter().flatten().filter(|value| **value != usual).collect();
    let mut seen = BTreeSet::new();
    odd.retain(|value| seen.insert(*value));
    let difference = |value: &&String| {
        let hosts = having(value);
        let (who, others, name, why) = (list(&hosts), list(&most), fact.name, fact.why);
        let words = format!(
            "{name}: {} {value}, where {} {usual}; {why}",
            has(&who, &hosts),
            has(&others, &most)
        );
        Difference { fact: name, matters: fact.matters, hosts, words }
    };
    let differences: Vec<Difference> = odd.iter().map(difference).collect();
    for row in rows.iter_mut() {
        let is_odd = differences.iter().any(|difference| difference.hosts.contains(&row.host));
        if let Some(cell) = row.cells.get_mut(at).filter(|_| is_odd) {
            cell.mark = if fact.matters { Mark::Matters } else { Mark::Differs };
        }
    }
    differences
}

fn has(who: &str, hosts: &[String]) -> String {
    format!("{who} {}", if hosts.len() == 1 { "has" } else { "have" })
}

/// What most have; of equals, what the first has.
fn usual(values: &[Option<String>]) -> Option<String> {
    let values: Vec<&String> = values.iter().flatten().collect();
    let having = |value: &&&String| values.iter().filter(|other| other == value).count();
    // The last of equals is taken, so the first comes last.
    values.iter().rev().max_by_key(having).map(|value| (*value).clone())
}

/// Whether the first host that was reached and each other fit together.
fn fit(hosts: &[(String, Result<Case<'_>, String>)]) -> Vec<Difference> {
    let mut reached = hosts.iter().filter_map(|(host, case)| Some((host, case.as_ref().ok()?)));
    let Some((first, ours)) = reached.next() else { return Vec::new() };
    let is_none = |case: &Case<'_>| case.active_ports().next().is_none();
    let mut found: Vec<Difference> = Vec::new();
    for (host, theirs) in reached {
        // Where both have no fabric they fit as well as can be, and where one has none the table says so.
        if is_none(ours) || is_none(theirs) {
            continue;
        }
        let findings = peer::compare(ours, theirs).into_iter();
        for finding in findings.filter(|finding| finding.verdict >= Verdict::Warning) {
            let words = finding.summary;
            match found.iter_mut().find(|difference| difference.words == words) {
                Some(known) if known.hosts.last() == Some(host) => {}
                Some(known) => known.hosts.push(host.clone()),
                None => found.push(Difference {
                    fact: "fit",
                    matters: true,
                    hosts: vec![host.clone()],
                    words,
                }),
            }
        }
    }
    for difference in &mut found {
        let (who, words) = (list(&difference.hosts), &difference.words);
        difference.words = format!("fit: {first} (here) and {who} (there): {words}");
    }
    found
}

/// Hosts for people: the first few by name.
fn list(hosts: &[String]) -> String {
    match hosts.len() {
        0..=MAX_NAMED => hosts.join(", "),
        many => {
            format!("{} and {} more", hosts[..MAX_NAMED - 1].join(", "), many - MAX_NAMED + 1)
        }
    }
}

const MAX_NAMED: usize = 4;

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
        let case = |(tree, node)| Ok(Case::new(node, tree));
        let cases = trees.iter().zip(&nodes).map(case);
        let names = names.iter().enumerate().map(|(at, name)| format!("{name}.{at}"));
        Table::new(&names.zip(cases).collect::<Vec<_>>())
    }

    #[test]
    fn equal_hosts_differ_in_nothing() {
        let table = table(&["ndr8", "ndr8", "ndr8"]);
        assert_eq!((table.differences.len(), table.matters(), table.unreached()), (0, false, 0));
    }

    #[test]
    fn one_of_three_is_the_odd_one_wherever_it_stands() {
        for names in [["mtu", "mlx5-roce", "mlx5-roce"], ["mlx5-roce", "mlx5-roce", "mtu"]] {
            let table = table(&names);
            let mtu = table.differences.iter().find(|one| one.fact == "mtu").expect("a difference");
            assert!(
                mtu.matters && mtu.hosts.len() == 1 && mtu.hosts[0].starts_with("mtu"),
                "{mtu:?}"
            );
        }
    }

    #[test]
    fn a_host_that_was_not_reached_is_no_measure_for_others() {
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
