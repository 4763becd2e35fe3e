//! What the doctor says of whole machines: those that are well, and those with a fault that was put there.
#![allow(missing_docs, reason = "a test")]

use std::path::Path;

use node::{Node, Tree};
use ops::doctor::{Case, Report, Settings, Verdict, examine};

fn tree(name: &str) -> Tree {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../node/tests/trees");
    let path = Path::new(folder).join(format!("{name}.json"));
    Tree::at(&path).unwrap_or_else(|error| panic!("{error}"))
}

fn report(name: &str) -> Report {
    let tree = tree(name);
    let node = Node::read(&tree);
    examine(&Case { node: &node, tree: &tree, settings: Settings::default() }, &[])
}

#[test]
fn show() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../node/tests/trees");
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .filter(|n| n.ends_with(".json"))
        .collect();
    names.sort();
    for name in names {
        let name = name.trim_end_matches(".json");
        let report = report(name);
        eprintln!("== {name}: {}", report.line());
        for f in &report.findings {
            if f.verdict != Verdict::Ok {
                eprintln!(
                    "   {} {} [{}] {} :: {:?}",
                    f.verdict.name(),
                    f.check,
                    f.subjects.join("|"),
                    f.summary,
                    f.evidence
                        .iter()
                        .map(|e| format!("{}={}", e.source, e.value))
                        .take(4)
                        .collect::<Vec<_>>()
                );
            }
        }
    }
}
