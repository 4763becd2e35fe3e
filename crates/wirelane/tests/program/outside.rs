//! Text from outside: names and values in trees, keys, logs, journals and documents. A terminal must not interpret it, it must not
//! look like lines of the program, and a page must not contain it as markup.

use std::fs;

use super::sweep::{World, all};
use super::*;

/// A colour, a title, C1 controls, another direction, a line and markup.
const TEXT: &str =
    "\u{1b}[8m\u{1b}]0;title\u{7}\u{9b}31m\u{202e}x\nFORGED <b>bold</b>\r\tand\u{7f} more";

/// Nothing of the text is written as it is.
fn check(line: &str, output: &Output) {
    for text in [stdout(output), stderr(output)] {
        let is_unsafe = |letter: char| {
            letter.is_control() && !"\n\t".contains(letter) || "\u{202e}".contains(letter)
        };
        assert!(!text.contains(is_unsafe), "{line}: {text:?}");
        let forged = text.lines().find(|line| line.starts_with("FORGED"));
        assert_eq!(forged, None, "{line}: {text}");
    }
}

/// Adds the text to every text of a document.
fn spoil(value: &mut Value) {
    match value {
        Value::String(text) => {
            let end = text.trim_end().len();
            text.insert_str(end, TEXT);
        }
        Value::Array(values) => values.iter_mut().for_each(spoil),
        Value::Object(values) => values.values_mut().for_each(spoil),
        _ => {}
    }
}

/// Names in answers; addresses and the like would be refused.
fn spoil_names(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(spoil_names),
        Value::Object(values) => values.iter_mut().for_each(|(name, value)| match name.as_str() {
            "name" | "driver" | "firmware" | "vendor" | "part" | "command" | "pod" => spoil(value),
            _ => spoil_names(value),
        }),
        _ => {}
    }
}

/// A tree in which some files or links have the text at their end.
fn spoiled(tree: &str, section: &str, is_spoiled: impl Fn(&str) -> bool) -> Value {
    let mut document = json(&fs::read_to_string(devices::tree(tree)).expect("a tree"));
    let values = document[section].as_object_mut().expect("a section").iter_mut();
    values.filter(|(name, _)| is_spoiled(name)).for_each(|(_, value)| spoil(value));
    document
}

#[test]
fn trees_of_other_machines() {
    let world = World::new();
    // Texts only; and everything, so that numbers are reported as invalid.
    let texts = ["hostname", "fw_ver", "node_desc", "board_id", "hca_type", "osrelease", "driver"];
    let is_text = |name: &str| texts.contains(&name.rsplit('/').next().unwrap_or_default());
    let mut names = spoiled("ndr8", "files", is_text);
    spoil_names(&mut names["answers"]);
    let trees = [
        names,
        spoiled("ndr8", "links", is_text),
        spoiled("mlx5-roce", "files", |_| true),
        spoiled("iommu", "files", |_| true),
    ];
    for (number, tree) in trees.iter().enumerate() {
        world.file(&format!("tree-{number}.json"), &tree.to_string());
    }
    all(|row| {
        if !row.1.contains("{tree}") && !row.1.contains("{iommu}") {
            return;
        }
        for number in 0..trees.len() {
            let tree = world.path(&format!("tree-{number}.json")).display().to_string();
            let line = row.line().replace("{tree}", &tree).replace("{iommu}", &tree);
            check(&line, &world.run(&line, ""));
        }
    });
    for line in ["devices --json", "doctor --json", "topo --json", "top --json --count 1"] {
        let line = format!("{line} --root {}", world.path("tree-0.json").display());
        let output = world.run(&line, "");
        check(&line, &output);
        json(&stdout(&output));
    }
    let line = format!("topo --svg - --root {}", world.path("tree-0.json").display());
    assert!(!stdout(&world.run(&line, "")).contains("<b>"), "markup in an image");
}

#[test]
fn keys_of_a_store() {
    let world = World::new();
    let key = format!("key{TEXT}");
    let kv = |arguments: &[&str]| {
        let server = ["kv", "--server", &world.server.links];
        run(&[&server[..], arguments].concat())
    };
    assert_eq!(kv(&["put", &key, "v"]).status.code(), Some(0));
    for arguments in [
        &["ls"][..],
        &["ls", "--long"],
        &["ls", "--unsorted"],
        &["ls", "--json"],
        &["ls", "--json", "--unsorted"],
        &["stat", &key],
        &["stat", &key, "--json"],
        &["mget", "--json", &key],
        &["get", &format!("no {key}")],
        &["delete", &format!("no {key}")],
    ] {
        check(&format!("{arguments:?}"), &kv(arguments));
    }
    let listed = json(&stdout(&kv(&["ls", "--json", "key"])));
    assert_eq!(listed[0]["key"], key, "JSON has the key as it is");
    let listed = json(&stdout(&kv(&["ls", "--json", "--unsorted", "key"])));
    assert_eq!(listed["key"], key, "JSON has the key as it is");
}

#[test]
fn error_lines_and_logs() {
    let world = World::new();
    let tree = devices::tree("iommu");
    for error in [
        "IBV_WC_LOC_PROT_ERR(4) vendor_err=81",
        "gpu1:7:9 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.1<3> with status=12 opcode=0 len=0 vendor err 129",
        "UCX ERROR ibv_reg_mr(address=0x7f) failed: Cannot allocate memory",
    ] {
        for text in [format!("{error}{TEXT}"), format!("{TEXT}{error}")] {
            for json in [&[][..], &["--json"]] {
                let line = [&["explain", "--root", &tree, &text][..], json].concat();
                check(&text, &run(&line));
            }
        }
    }
    let sample =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../report/tests/nccl/sample-mpirun-debug.log");
    let sample = fs::read_to_string(sample).expect("a log");
    let one_line = TEXT.replace('\n', " ");
    for (number, text) in [
        sample.lines().map(|line| format!("{line}{one_line}\n")).collect::<String>(),
        sample.replace("node1", &format!("node1{one_line}")),
        sample.replace("NVIDIA", &format!("NVIDIA{one_line}")),
    ]
    .iter()
    .enumerate()
    {
        world.file("log", text);
        let log = world.path("log").display().to_string();
        let page = world.path(&format!("page-{number}.html"));
        let line = format!("bench nccl --read {log} --report {}", page.display());
        check(&line, &world.run(&line, ""));
        let line = format!("bench nccl --json --read {log}");
        check(&line, &world.run(&line, ""));
        if let Ok(page) = fs::read_to_string(&page) {
            assert!(!page.contains("<b>bold") && !page.contains('\u{1b}'), "{line}: a page");
        }
    }
}

#[test]
fn documents_and_journals() {
    let world = World::new();
    let mut document = json(&reports::result("2026-11-03T10:00:00Z", 20.0));
    for name in ["host", "peer"] {
        spoil(&mut document[name]);
    }
    for name in ["why", "from", "to"] {
        spoil(&mut document["points"][0][name]);
    }
    world.file("document", &document.to_string());
    world.file("state/wirelane/bench/20261103-100000-bw.json", &document.to_string());
    for line in [
        "bench history",
        "bench history --json",
        "bench history show last",
        "bench history show last --json",
        "bench history compare 20261102 last",
        "bench report {document} --output {document}.html",
    ] {
        check(line, &world.run(line, ""));
    }
    let page = fs::read_to_string(world.path("document.html")).expect("a page");
    assert!(page.contains("FORGED"), "the page has the name");
    assert!(!page.contains("<b>bold") && !page.contains('\u{1b}'), "{page}");

    let journal = world.path("machine/var/lib/wirelane/changes");
    let spoil_texts = |line: &str| {
        let mut line = json(line);
        for pointer in ["/command", "/why", "/target/path"] {
            line.pointer_mut(pointer).into_iter().for_each(spoil);
        }
        format!("{line}\n")
    };
    let lines = fs::read_to_string(&journal).expect("a journal");
    fs::write(&journal, lines.lines().map(spoil_texts).collect::<String>()).expect("a file");
    for line in [
        "changes --all --root {machine}",
        "changes --json --root {machine}",
        "revert --all --dry-run --root {machine}",
        "revert --all --json --root {machine}",
        "revert --all --root {machine}",
    ] {
        check(line, &world.run(line, ""));
    }

    let token = fs::read_to_string(world.path("tokens")).expect("a token");
    let token = token.split_whitespace().nth(1).expect("a token").to_owned();
    for name in ["a\u{202e}b", "a\u{9b}31m", "a\u{1b}[8mb"] {
        world.file("tokens", &format!("{name} {token}\n"));
        check(name, &world.run("token check {tokens}", ""));
        check(name, &world.run("token check --json {tokens}", ""));
    }
}

#[test]
fn names_of_hosts() {
    for list in [&["hosts", "check", "--hosts"][..], &["bench", "mesh", "--hosts"]] {
        let hosts = format!("a{},b", TEXT.replace('\n', ""));
        check("--hosts", &run(&[list, &[&hosts]].concat()));
    }
}
