//! `install`: units, rules and dashboards are installed, can be removed, and are valid.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::*;

/// An empty machine, with files of other users.
struct Machine {
    folder: TempDir,
}

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("etc")).expect("a folder");
        Machine { folder }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).expect(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    /// A command on it: exit code, stdout, stderr.
    fn outcome(&self, words: &[&str]) -> (Option<i32>, String, String) {
        let root = self.folder.path().to_str().expect("a plain path");
        let output = run(&[words, &["--root", root]].concat());
        (output.status.code(), stdout(&output), stderr(&output))
    }

    #[track_caller]
    fn done(&self, words: &[&str]) -> String {
        let (code, text, error) = self.outcome(words);
        assert_eq!(code, Some(0), "{text}{error}");
        text
    }

    /// Every file and folder except the journal.
    fn contents(&self) -> BTreeMap<PathBuf, Option<String>> {
        let mut found = BTreeMap::new();
        let mut folders = vec![self.folder.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("a folder").flatten() {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path.clone());
                    found.insert(path, None);
                } else {
                    let text = fs::read_to_string(&path).expect("text");
                    found.insert(path, Some(text));
                }
            }
        }
        // The journal stays, and so do its folders.
        let journal = self.path("var/lib/wirelane/changes");
        found.retain(|path, _| !journal.starts_with(path));
        found
    }
}

const PROGRAM: &str = env!("CARGO_BIN_EXE_wirelane");
const UNIT: &str = "etc/systemd/system/wirelane-exporter.service";
const FLAGS: &str = "etc/default/wirelane-exporter";

#[test]
fn everything_is_installed_and_reverted() {
    let machine = Machine::new();
    let before = machine.contents();
    let plan = machine.done(&["install", "plan", "--program", "/usr/bin/wirelane"]);
    assert!(plan.contains("+ ExecStart=/usr/bin/wirelane exporter"), "{plan}");
    assert!(plan.contains("    systemctl enable --now wirelane-exporter\n"), "{plan}");
    assert_eq!(machine.contents(), before, "a plan changes nothing");
    let (code, _, error) = machine.outcome(&["install", "apply", "--program", "/usr/bin/wirelane"]);
    assert!(code == Some(2) && error.contains("--yes"), "{error}");

    machine.done(&["install", "apply", "--yes", "--program", "/usr/bin/wirelane"]);
    for (path, words) in [
        (UNIT, "ExecStart=/usr/bin/wirelane exporter $WIRELANE_EXPORTER_FLAGS"),
        (FLAGS, "WIRELANE_EXPORTER_FLAGS="),
        ("etc/systemd/system/wirelane.service", "ExecStart=/usr/bin/wirelane serve"),
        ("etc/default/wirelane", "WIRELANE_FLAGS="),
        ("etc/prometheus/rules/wirelane.rules.yml", "groups:"),
        ("etc/prometheus/wirelane-example.yml", "wirelane-exporter"),
        (
            "etc/grafana/provisioning/dashboards/wirelane.yaml",
            "/var/lib/grafana/dashboards/wirelane",
        ),
        ("var/lib/grafana/dashboards/wirelane/cluster.json", "\"panels\""),
    ] {
        assert!(machine.text(path).contains(words), "{path}");
    }
    let changes = machine.done(&["changes"]);
    assert!(changes.contains("install apply exporter serve prometheus grafana"), "{changes}");
    machine.done(&["revert", "--all"]);
    assert_eq!(machine.contents(), before, "files and folders");
}

#[test]
fn files_of_others_are_kept_unless_forced() {
    let machine = Machine::new();
    machine.write(UNIT, "mine\n");
    let apply = |more: &[&str]| {
        let usual = ["install", "apply", "exporter", "--yes", "--program", "/usr/bin/wirelane"];
        machine.done(&[&usual[..], more].concat())
    };
    let text = apply(&[]);
    assert!(text.contains("kept: /etc/systemd/system/wirelane-exporter.service"), "{text}");
    assert!(text.contains("it existed before") && text.contains("- mine"), "{text}");
    assert_eq!(machine.text(UNIT), "mine\n");
    machine.write(FLAGS, "WIRELANE_EXPORTER_FLAGS=\"--listen 10.0.0.1:9878\"\n");
    let text = apply(&["--json"]);
    let kept = &json(&text)["kept"];
    assert_eq!(kept[1]["path"], "/etc/default/wirelane-exporter");
    assert_eq!(kept[1]["why"], "it was changed since it was installed");
    apply(&["--force"]);
    assert!(machine.text(UNIT).contains("ExecStart="));
    machine.done(&["revert", "--last"]);
    assert_eq!(machine.text(UNIT), "mine\n");
    assert!(machine.text(FLAGS).contains("10.0.0.1"));
}

#[test]
fn unchanged_files_are_updated() {
    let machine = Machine::new();
    for program in ["/usr/bin/wirelane", "/opt/wirelane"] {
        machine.done(&["install", "apply", "serve", "--yes", "--program", program]);
        let unit = machine.text("etc/systemd/system/wirelane.service");
        assert!(unit.contains(&format!("ExecStart={program} serve")), "{unit}");
    }
    let text = machine.done(&["install", "apply", "serve", "--program", "/opt/wirelane"]);
    assert!(text.ends_with("nothing to change, 2 already done\n"), "{text}");
}

#[test]
fn a_program_that_no_unit_can_start_is_invalid_usage() {
    let machine = Machine::new();
    for program in ["wirelane", "/opt/a b/wirelane", "/opt/100%/wirelane"] {
        let (code, _, error) = machine.outcome(&["install", "plan", "--program", program]);
        assert!(code == Some(2) && error.contains("absolute path"), "{error}");
    }
    let there = machine.path("wirelane");
    copy(PROGRAM, &there);
    assert!(there.starts_with("/tmp"), "where units have a folder of their own");
    let output = Command::new(there).args(["install", "plan"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("the units have no access to /tmp:"), "{}", stderr(&output));
    let (code, _, error) =
        machine.outcome(&["install", "apply", "--start", "--program", "/usr/bin/wirelane"]);
    assert!(code == Some(2) && error.contains("cannot be used with --root"), "{error}");
}

#[test]
fn systemd_accepts_the_units_and_finds_little_exposed() {
    let machine = Machine::new();
    machine.done(&["install", "apply", "exporter", "serve", "--yes", "--program", PROGRAM]);
    for unit in ["wirelane-exporter", "wirelane"] {
        let file = machine.path(&format!("etc/systemd/system/{unit}.service"));
        let verify = analyze(&["verify"], &file);
        assert!(verify.status.success(), "{}", stderr(&verify));
        assert_eq!(stderr(&verify), "", "{unit}");
        // In tenths, as its option takes it: docs/install.md has the same values.
        let security = analyze(&["security", "--offline=true", "--threshold=17"], &file);
        let said = stdout(&security);
        let overall = said.lines().last().unwrap_or_default();
        assert!(security.status.success() && overall.contains("Overall exposure"), "{said}");
        for needed in ["PrivateDevices=", "PrivateUsers=", "ProcSubset="] {
            assert!(said.contains(&format!("✗ {needed}")), "{needed} would keep RDMA from working");
        }
    }
}

fn analyze(words: &[&str], unit: &Path) -> Output {
    let mut command = Command::new("systemd-analyze");
    command.args(words).arg(unit).env("LC_ALL", "C.UTF-8").env("SYSTEMD_COLORS", "0");
    command.output().expect("systemd-analyze runs: Debian has it in systemd")
}
