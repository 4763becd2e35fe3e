//! `wirelane snapshot`, and reading it.

use std::os::unix::fs::PermissionsExt;

use super::{json, run, stderr, stdout, wirelane};

#[test]
fn a_snapshot_is_complete_private_and_without_secrets() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("facts.json");
    let path = file.to_str().expect("a plain path");
    let output = wirelane(&["snapshot", path, "--note", "before the repair"])
        .env("NCCL_IB_HCA", "=mlx5_4:1")
        .env("NCCL_NET_TOKEN", "hunter2")
        .env("DATABASE_URL", "hunter3")
        .output()
        .expect("the program runs");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stdout(&output), "");
    assert!(stderr(&output).contains("$NCCL_NET_TOKEN"), "{}", stderr(&output));
    let mode = std::fs::metadata(&file).expect("the file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let text = std::fs::read_to_string(&file).expect("text");
    assert!(!text.contains("hunter"), "a secret is in it");
    let document = json(&text);
    assert_eq!(document["format"], "wirelane snapshot 1");
    assert_eq!(document["about"], "before the repair");
    assert_eq!(document["wirelane"], env!("CARGO_PKG_VERSION"));
    assert!(document["taken"].as_str().is_some_and(|taken| taken.ends_with('Z')), "{text}");
    assert_eq!(document["environment"]["NCCL_IB_HCA"], "=mlx5_4:1");
    assert!(document["answers"]["interfaces"].as_array().is_some_and(|all| !all.is_empty()));
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1, "nothing is left");
}

#[test]
fn a_snapshot_of_a_snapshot_is_the_same() {
    let tree = concat!(env!("CARGO_MANIFEST_DIR"), "/../node/tests/trees/ndr8.json");
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join("copy.json");
    let copy = copy.to_str().expect("a plain path");
    assert_eq!(run(&["snapshot", copy, "--root", tree]).status.code(), Some(0));
    let again = run(&["snapshot", "-", "--root", copy]);
    assert_eq!(stdout(&again), std::fs::read_to_string(copy).expect("text"));
    assert!(stderr(&again).contains("RDMA devices"), "{}", stderr(&again));
}

#[test]
fn an_existing_file_is_replaced_only_on_request() {
    let tree = concat!(env!("CARGO_MANIFEST_DIR"), "/../node/tests/trees/ndr8.json");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("before.json");
    let path = file.to_str().expect("a plain path");
    std::fs::write(&file, "evidence").expect("a file");
    let output = run(&["snapshot", path, "--root", tree]);
    assert_eq!(output.status.code(), Some(3));
    let text = stderr(&output);
    assert!(text.contains("before.json") && text.contains("--force"), "{text}");
    assert_eq!(std::fs::read_to_string(&file).expect("text"), "evidence");
    assert_eq!(run(&["snapshot", path, "--force", "--root", tree]).status.code(), Some(0));
    assert!(json(&std::fs::read_to_string(&file).expect("text"))["files"].is_object());
}

#[test]
fn unwritable_and_unreadable_files_are_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("a plain path");
    let output = run(&["snapshot", path]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("not a regular file"), "{}", stderr(&output));
    assert_eq!(run(&["snapshot", &format!("{path}/none/f.json")]).status.code(), Some(3));

    let newer = folder.path().join("newer.json");
    std::fs::write(&newer, r#"{"format": "wirelane snapshot 9"}"#).expect("a file");
    let output = run(&["snapshot", "-", "--root", newer.to_str().expect("a plain path")]);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(3), ""));
    assert!(stderr(&output).contains("\"wirelane snapshot 9\""), "{}", stderr(&output));
}
