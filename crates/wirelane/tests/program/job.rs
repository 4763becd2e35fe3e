//! `wirelane env` and `exec`: a job's environment, and that the command runs as if started directly.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::{copy, json, stderr, stdout, wirelane};

/// The device plugin's variable for the pod in `pod.json`.
const INFO: &str = r#"{"0000:3b:02.6":{"generic":{"deviceID":"0000:3b:02.6"},"rdma":{"rdma_cm":"/dev/infiniband/rdma_cm","rdma_dev":"mlx5_4","uverbs":"/dev/infiniband/uverbs4"}}}"#;

fn tree(name: &str) -> String {
    format!("{}/../node/tests/trees/{name}.json", env!("CARGO_MANIFEST_DIR"))
}

/// The program in a pod of the tree, with these variables and no others.
fn in_pod(variables: &[(&str, &str)], command: &str, arguments: &[&str]) -> Output {
    let tree = tree("pod");
    let mut program = wirelane(&[command, "--root", &tree]);
    program.env_clear().envs(variables.iter().copied()).args(arguments);
    program.output().expect("the program runs")
}

fn refused(variables: &[(&str, &str)], word: &str) {
    for (command, arguments) in [("env", &[][..]), ("exec", &["--", "/bin/true"])] {
        let output = in_pod(variables, command, arguments);
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert!(stderr(&output).contains(word), "{word}: {}", stderr(&output));
        assert_eq!(stdout(&output), "");
    }
}

#[test]
fn a_claimed_device_that_is_absent_is_refused() {
    refused(
        &[("PCIDEVICE_OPENSHIFT_IO_X", "0000:99:00.0")],
        "PCIDEVICE_OPENSHIFT_IO_X claims 0000:99:00.0",
    );
}

#[test]
fn a_command_in_a_pod_gets_its_device_by_exact_name_and_the_reasons() {
    let output =
        in_pod(&[("PCIDEVICE_OPENSHIFT_IO_RDMA_INFO", INFO)], "exec", &["--", "/usr/bin/env"]);
    assert_eq!(output.status.code(), Some(0));
    let lines: Vec<String> = stdout(&output).lines().map(str::to_owned).collect();
    for line in ["NCCL_IB_HCA==mlx5_4:1", "UCX_NET_DEVICES=mlx5_4:1", "OMPI_MCA_pml=ucx"] {
        assert!(lines.iter().any(|one| one == line), "{line} is not in {lines:?}");
    }
    let why = stderr(&output);
    assert!(why.contains("mlx5_4:1  kept"), "{why}");
    assert!(why.contains("assigned by PCIDEVICE_OPENSHIFT_IO_RDMA_INFO"), "{why}");
    assert!(
        why.lines().any(|line| line.starts_with("mlx5_0 ") && line.contains("dropped")),
        "{why}"
    );
}

#[test]
fn every_device_plugin_gives_the_same_environment() {
    let families: [&[(&str, &str)]; 5] = [
        &[],
        &[("PCIDEVICE_NVIDIA_COM_MLNX-RDMA", "0000:3b:02.6")],
        &[("PCIDEVICE_A_B", "0000:3b:02.6"), ("PCIDEVICE_A_B_INFO", "{\"0000")],
        &[(
            "PCIDEVICE_A_B_INFO",
            r#"{"0000:3b:02.6":{"rdma":{"uverbs":"/dev/infiniband/uverbs4"}}}"#,
        )],
        &[("SRIOVNETWORK_VF_DEVICE_vf", "0000:3b:02.6"), ("SRIOVNETWORK_vf_RDMA_DEVICE", "mlx5_4")],
    ];
    for family in families {
        let output = in_pod(family, "env", &["--format", "nccl.conf"]);
        let text = stdout(&output);
        assert!(
            text.starts_with("NCCL_IB_HCA==mlx5_4:1\n"),
            "{family:?}: {text}{}",
            stderr(&output)
        );
    }
}

#[test]
fn contradictory_claims_are_refused_with_the_reason() {
    refused(&[("PCIDEVICE_A_B_INFO", "{\"0000")], "PCIDEVICE_A_B_INFO is neither a JSON object");
    refused(
        &[("PCIDEVICE_A_B_INFO", &INFO.replace("mlx5_4", "mlx5_9"))],
        "this host's files show mlx5_4",
    );
    refused(
        &[("PCIDEVICE_A_B_INFO", &INFO.replace("uverbs4", "uverbs0"))],
        "this host's files show mlx5_4",
    );
    let elsewhere = INFO.replace("0000:3b:02.6", "0000:99:00.1").replace("mlx5_4", "mlx5_40");
    refused(&[("PCIDEVICE_A_B_INFO", &elsewhere)], "claims 0000:99:00.1, which is not in");
    refused(
        &[("PCIDEVICE_A_B", "../../etc/passwd")],
        "neither a PCI address nor an auxiliary device",
    );
}

#[test]
fn stdout_has_only_the_environment_and_quiet_prints_nothing() {
    let output = in_pod(&[], "env", &["--quiet"]);
    assert_eq!(stderr(&output), "");
    let script = format!("{}\nprintf %s \"$NCCL_IB_HCA $OMPI_MCA_btl\"", stdout(&output));
    let shell = Command::new("sh").args(["-c", &script]).output().expect("a shell");
    assert_eq!(stdout(&shell), "=mlx5_4:1 ^openib");
    let answer = json(&stdout(&in_pod(&[], "env", &["--format", "json"])));
    assert_eq!(answer["mode"], "rdma");
    assert_eq!(answer["devices"][0]["device"], "mlx5_4");
    assert_eq!(answer["devices"][0]["verdict"], "kept");
    let mca = in_pod(&[], "env", &["--format", "mca", "--mode", "tcp"]);
    assert_eq!(stdout(&mca), "pml = ob1\nbtl = ^openib,uct\n");
}

#[test]
fn variables_set_by_the_user_are_kept() {
    let output = in_pod(&[("NCCL_IB_HCA", "=mlx5_7:1")], "exec", &["--", "/usr/bin/env"]);
    assert!(stdout(&output).contains("NCCL_IB_HCA==mlx5_7:1\n"), "{}", stdout(&output));
    assert!(stderr(&output).contains("is kept"), "{}", stderr(&output));
}

#[test]
fn mode_rdma_is_refused_without_rdma() {
    let tree = tree("empty");
    let output = wirelane(&["exec", "--root", &tree, "--mode", "rdma", "--", "true"]).output();
    assert_eq!(output.expect("the program runs").status.code(), Some(1));
    let output =
        wirelane(&["exec", "--root", &tree, "--", "true"]).output().expect("the program runs");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn the_command_replaces_the_program() {
    let exits = |arguments: &[&str]| {
        let output = in_pod(&[("PATH", "/usr/bin:/bin")], "exec", arguments);
        (output.status.code(), stderr(&output))
    };
    assert_eq!(exits(&["--", "sh", "-c", "exit 42"]).0, Some(42));
    assert_eq!(exits(&["sh", "-c", "exit 7", "--mode"]).0, Some(7));
    let (code, said) = exits(&["--", "no-such-command"]);
    assert!(code == Some(127) && said.contains("no-such-command: not found"), "{said}");
    let (code, said) = exits(&["--", "/etc/passwd"]);
    assert!(code == Some(126) && said.contains("/etc/passwd: cannot be run"), "{said}");
    let tree = tree("pod");
    let mut program =
        wirelane(&["exec", "-q", "--root", &tree, "--", "sh", "-c", "echo $$; kill -TERM $$"]);
    let child = program.stdout(Stdio::piped()).spawn().expect("the program runs");
    let (id, output) = (child.id(), child.wait_with_output().expect("it ends"));
    assert_eq!(stdout(&output).trim(), id.to_string(), "the same process");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&output.status), Some(15));
}

#[test]
fn a_dry_run_is_the_script_of_what_would_be_done() {
    let output = in_pod(&[], "exec", &["--dry-run", "--", "echo", "a b", "$HOME"]);
    let script = stdout(&output);
    assert!(script.starts_with("export NCCL_IB_HCA='=mlx5_4:1'\n"), "{script}");
    assert!(script.ends_with("exec echo 'a b' '$HOME'\n"), "{script}");
}

#[test]
fn the_soft_memlock_limit_is_raised_and_a_low_one_is_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let (program, tree) = for_everybody(folder.path());
    // A hard limit of 64 KiB, a soft limit of half of it, and no capability that helps.
    let script = format!(
        "ulimit -S -l 32; ulimit -H -l 64; \
         exec {program} exec --root {tree} -- sh -c 'ulimit -S -l; ulimit -H -l'"
    );
    let (uid, output) = without_rights(&script);
    assert_eq!(stdout(&output), "64\n64\n", "{}", stderr(&output));
    let said = stderr(&output);
    for word in [&*format!("user {uid}"), "64 KiB", "CapEff 0000000000000000", "memlock"] {
        assert!(said.contains(word), "{word}: {said}");
    }
}

/// Copies the program and a tree to where any user can read them.
fn for_everybody(folder: &Path) -> (String, String) {
    let place = |name: &str, of: &str| {
        let path = folder.join(name);
        copy(of, &path);
        path.to_str().expect("a plain path").to_owned()
    };
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder, open).expect("a mode");
    (place("wirelane", env!("CARGO_BIN_EXE_wirelane")), place("pod.json", &tree("pod")))
}

/// A shell of an unprivileged user: `nobody` if this runs as root, else the current user.
fn without_rights(script: &str) -> (u32, Output) {
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).current_dir("/");
    let mut uid = rustix::process::geteuid().as_raw();
    if uid == 0 {
        uid = 65534;
        shell.uid(uid).gid(uid);
    }
    (uid, shell.output().expect("a shell"))
}
