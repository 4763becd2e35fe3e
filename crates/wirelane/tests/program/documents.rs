//! The documents: every command line in them is valid, and what they show is what the program prints.

use std::fs;
use std::path::{Path, PathBuf};

use super::*;

fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let entries = fs::read_dir(root.join("docs")).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut documents: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|end| end == "md")).collect();
    // Generated, with examples that have a test of their own.
    documents.retain(|path| !path.ends_with("commands.md"));
    documents.push(root.join("README.md"));
    documents.sort();
    documents
}

/// The blocks of code of a document.
fn blocks(document: &Path) -> Vec<String> {
    let text = fs::read_to_string(document).expect("a document");
    text.split("\n```")
        .skip(1)
        .step_by(2)
        .map(|block| block[block.find('\n').unwrap_or(0)..].to_owned())
        .collect()
}

/// The words of a command line, up to a comment, a redirection or another command. Quotes are removed.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    for letter in line.chars().chain([' ']) {
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (Some(_), letter) => word.push(letter),
            (None, '\'' | '"') => quote = Some(letter),
            (None, ' ') if word == "#" => return words,
            (None, ' ') if word.is_empty() => {}
            (None, ' ') => words.push(std::mem::take(&mut word)),
            (None, '|' | '>' | '<' | ';' | '&' | ')') => break,
            (None, letter) => word.push(letter),
        }
    }
    words.extend(Some(word).filter(|word| !word.is_empty()));
    words
}

/// The command lines of the program in a block: after a prompt, sudo or another command.
fn command_lines(block: &str) -> Vec<Vec<String>> {
    let mut lines = Vec::new();
    for line in block.lines() {
        let is_command = |at: usize| {
            let before = line[..at].trim_end();
            let ends = ["$", "#", "&&", "sudo", "$(", ";", "ssh node7"];
            before.is_empty() || ends.iter().any(|end| before.ends_with(end))
        };
        let found = line.match_indices("wirelane ").map(|(at, _)| at).filter(|at| is_command(*at));
        // The rest of a comment is no command.
        let found = found.filter(|at| !line[..*at].contains(" # ") && !line[..*at].contains("`"));
        lines.extend(found.map(|at| words(&line[at..])));
    }
    lines
}

#[test]
fn every_command_line_is_valid() {
    let mut count = 0;
    for document in documents() {
        for line in blocks(&document).iter().flat_map(|block| command_lines(block)) {
            // Ranges of hosts are for the shell too; the screen of `top` is no command.
            let is_text = |word: &String| word.contains(['[', '…']) || word == "every";
            if line.iter().any(is_text) || line.len() < 2 || !is_name(&line[1]) {
                continue;
            }
            count += 1;
            if let Err(error) = wirelane::command().try_get_matches_from(&line) {
                panic!("{}: {}: {error}", document.display(), line.join(" "));
            }
        }
    }
    assert!(count > 50, "{count} command lines");
}

fn is_name(word: &str) -> bool {
    word.starts_with('-') || wirelane::command().find_subcommand(word).is_some()
}

/// Documents, commands in them, and the arguments with the machine (`@`) and log (`%`) that they are about.
const SHOWN: &[(&str, &str, &str)] = &[
    ("devices.md", "wirelane devices", "devices --root @mlx5-roce"),
    ("doctor.md", "wirelane doctor", "doctor --root @cx3-10g"),
    (
        "doctor.md",
        "wirelane explain 'IBV_WC_LOC_PROT_ERR(4) vendor_err=81'",
        "explain --root @iommu IBV_WC_LOC_PROT_ERR(4) vendor_err=81",
    ),
    (
        "nccl.md",
        "wirelane bench nccl --read job.log --root node1.json",
        "bench nccl --read %sample-2x2-dual-40g --root @cx3-gpus",
    ),
    ("tuning.md", "wirelane tune plan --only mtu", "tune plan --only mtu --root @mtu"),
];

#[test]
fn what_is_shown_is_printed() {
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let path = |word: &str| match (word.strip_prefix('@'), word.strip_prefix('%')) {
        (Some(tree), _) => devices::tree(tree),
        (_, Some(log)) => {
            format!("{}/../report/tests/nccl/{log}.log", env!("CARGO_MANIFEST_DIR"))
        }
        _ => word.to_owned(),
    };
    for (name, command, arguments) in SHOWN {
        let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
        let prompt = format!("$ {command}\n");
        let blocks = blocks(&document);
        let block = blocks.iter().find_map(|block| Some(block.split_once(&prompt)?.1));
        let shown = block.unwrap_or_else(|| panic!("{name} has no {command}"));
        let arguments: Vec<String> = arguments.split_whitespace().map(path).collect();
        let output = run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        let printed = plain(&stdout(&output));
        // What was left out is marked.
        for part in shown.split('…').flat_map(|part| part.split('\n')).map(plain) {
            assert!(printed.contains(&part), "{name}: {command} does not print: {part}");
        }
    }
}
