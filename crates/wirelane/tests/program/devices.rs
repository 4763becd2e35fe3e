//! `devices` and `topo` with the trees of machines in `node`, compared with their known output.

use std::path::{Path, PathBuf};

use super::*;

fn trees() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../node/tests/trees")
}

pub(super) fn tree(name: &str) -> String {
    trees().join(format!("{name}.json")).to_str().expect("a plain path").to_owned()
}

/// Every tree, by name.
pub(super) fn names() -> Vec<String> {
    let files = std::fs::read_dir(trees()).expect("trees").map(|entry| entry.expect("a file"));
    let names = files.map(|file| file.file_name().into_string().expect("a plain name"));
    let mut names: Vec<String> =
        names.filter_map(|name| name.strip_suffix(".json").map(str::to_owned)).collect();
    names.sort();
    names
}

/// Compares output with the file; `WIRELANE_GOLDEN=write` writes it instead, for review.
pub(super) fn is_as_in(file: &str, printed: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file);
    if std::env::var_os("WIRELANE_GOLDEN").is_some_and(|value| value == "write") {
        std::fs::write(&path, printed).expect("is written");
        return;
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        printed, known,
        "golden/{file} is not what is printed; if what is printed is right, renew the file by \
         WIRELANE_GOLDEN=write cargo nextest run -p wirelane --test program known"
    );
}

fn printed(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
    stdout(&output)
}

#[test]
fn devices_of_every_tree_are_as_known() {
    let names = names();
    assert!(names.len() > 20, "{names:?}");
    for name in names {
        let text = printed(&["devices", "--root", &tree(&name)]);
        is_as_in(&format!("{name}.devices.txt"), &text);
    }
}

#[test]
fn wide_shows_everything() {
    for name in ["pcie-narrow", "mlx5-roce", "pod"] {
        let text = printed(&["devices", "--wide", "--root", &tree(name)]);
        is_as_in(&format!("{name}.devices.wide.txt"), &text);
    }
}

#[test]
fn json_is_as_documented() {
    for name in ["rxe", "cx3-10g"] {
        let text = printed(&["devices", "--json", "--root", &tree(name)]);
        is_as_in(&format!("{name}.devices.json"), &text);
    }
}

#[test]
fn the_topology_is_as_known() {
    for name in ["ndr8", "efa", "mlx5-roce"] {
        is_as_in(&format!("{name}.topo.txt"), &printed(&["topo", "--root", &tree(name)]));
    }
    let json = json(&printed(&["topo", "--json", "--root", &tree("ndr8")]));
    assert_eq!(json["assignment"][5]["device"], "mlx5_5");
    assert_eq!(
        (&json["distances"][5][6], &json["distances"][5][0]),
        (&"PIX".into(), &"SYS".into())
    );
    assert_eq!(json["gpus"][0]["pcie_gbps"], 504.0);
}

#[test]
fn the_topology_is_drawn() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("topo.svg");
    let path = file.to_str().expect("a plain path");
    assert_eq!(printed(&["topo", "--svg", path, "--root", &tree("ndr8")]), "");
    let drawn = std::fs::read_to_string(&file).expect("a picture");
    is_as_in("ndr8.topo.svg", &drawn);
    for words in ["GPU 7", "mlx5_7", "NUMA 1", "PIX"] {
        assert!(drawn.contains(words), "`{words}` is missing");
    }
    let nowhere = run(&["topo", "--svg", "/nowhere/topo.svg", "--root", &tree("efa")]);
    assert_eq!(nowhere.status.code(), Some(3));
    assert!(stderr(&nowhere).contains("/nowhere/topo.svg"));
}

#[test]
fn another_machine_needs_no_settings_or_library() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("settings.yaml");
    std::fs::write(&file, "no such setting: [").expect("a file");
    let config = file.to_str().expect("a plain path");
    let output = run(&["devices", "--json", "--config", config, "--root", &tree("mlx5-roce")]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let answer = json(&stdout(&output));
    assert_eq!(answer["rdma"], Value::Null, "nothing is asked of this machine");
    assert_eq!(answer["devices"][0]["verbs"], Value::Null);
    assert_eq!(answer["devices"][0]["ports"][0]["gids"][3]["gid"], "::ffff:200.0.209.6");
    assert_eq!(answer["pci"]["0000:38:00.0"]["link"]["width"], 16);
}

#[test]
fn a_minimal_tree_is_enough() {
    let folder = tempfile::tempdir().expect("a folder");
    let port = folder.path().join("sys/class/infiniband/mlx4_0/ports/1");
    std::fs::create_dir_all(port.join("counters")).expect("folders");
    std::fs::write(port.join("state"), "4: ACTIVE\n").expect("a file");
    std::fs::write(port.join("rate"), "not a rate\n").expect("a file");
    std::fs::write(port.join("counters/port_rcv_data"), "N/A (no PMA)\n").expect("a file");
    let root = folder.path().to_str().expect("a plain path");
    let text = printed(&["devices", "--root", root]);
    assert!(text.contains("port 1  ACTIVE, not found  reads \"not a rate\""), "{text}");
    let answer = json(&printed(&["devices", "--json", "--root", root]));
    let port = &answer["devices"][0]["ports"][0];
    assert_eq!(port["phys_state"], Value::Null);
    assert_eq!(port["counters"][0]["value"]["invalid"], "N/A (no PMA)");
}

#[test]
fn a_missing_root_is_a_failure() {
    let output = run(&["devices", "--root", "/nowhere/at/all"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("--root /nowhere/at/all"));
}
