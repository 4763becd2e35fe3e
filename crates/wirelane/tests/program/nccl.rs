//! `bench nccl` and `bench torch`: parsed logs, and the commands of a dry run.

use super::*;

fn log(name: &str) -> String {
    format!("{}/../report/tests/nccl/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn tree(name: &str) -> String {
    format!("{}/../node/tests/trees/{name}.json", env!("CARGO_MANIFEST_DIR"))
}

/// `bench nccl --read` of a log, with further arguments.
fn read(name: &str, more: &[&str]) -> Output {
    run(&[&["bench", "nccl", "--read", &log(name)], more].concat())
}

#[track_caller]
fn ends(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{}{}", stdout(output), stderr(output));
    stdout(output)
}

#[test]
fn missing_gpu_direct_is_found_for_the_40g_cluster() {
    let root = tree("cx3-gpus");
    let text = ends(&read("sample-2x2-dual-40g.log", &["--root", &root]), 0);
    for words in [
        "1 MiB     782.50       1.34       2.01",
        "128 MiB   55462.00       2.42       3.63",
        "1 GiB  440058.00       2.44       3.66",
        "average 3.27 GB/s, peak 3.66 GB/s",
        "efficiency: 36.6 % of the ports' 80 Gb/s",
        "\nno GPUDirect: ",
        "modprobe nvidia-peermem",
    ] {
        assert!(text.contains(words), "`{words}` is missing in:\n{text}");
    }
}

/// Eight InfiniBand ports for the GPUs, and a RoCE port for storage that `wirelane env` does not use.
#[test]
fn a_run_is_compared_with_the_ports_of_a_job() {
    let text = ends(&read("sample-2x2-dual-40g.log", &["--root", &tree("ndr8")]), 0);
    assert!(text.contains("of the ports' 3200 Gb/s") && text.contains("of 8 ports"), "{text}");
}

#[test]
fn a_size_of_zero_is_in_bytes() {
    let text = ends(&read("sample-v1-all_reduce.log", &[]), 0);
    assert!(text.contains("\n        0 B      15.00"), "{text}");
}

#[test]
fn the_same_as_json_is_a_document_of_bench() {
    let root = tree("cx3-gpus");
    let text = ends(&read("sample-2x2-dual-40g.log", &["--root", &root, "--json"]), 0);
    let document = json(&text);
    assert_eq!(
        (&document["format"], &document["kind"]),
        (&"wirelane bench 1".into(), &"nccl".into())
    );
    assert_eq!(document["collective"]["average_bus_gb_per_second"], 3.27);
    assert_eq!(document["collective"]["rows"][10]["out_of_place"]["bus_gb_per_second"], 3.66);
    assert_eq!(document["verdict"]["bottlenecks"][0]["what"], "no GPUDirect");
    report::Document::parse(&text).expect("it is read again");
}

#[test]
fn expect_decides_the_exit_code() {
    let root = tree("cx3-gpus");
    let expect = |measurement: &str| {
        read("sample-2x2-dual-40g.log", &["--root", &root, "--expect", measurement])
    };
    ends(&expect("50%"), 0);
    ends(&expect("3.6GB/s"), 0);
    assert!(ends(&expect("90%"), 1).contains("expected 90%: not met (52.8%)"));
    ends(&expect("10us"), 2);
    let no_ports = read("sample-2x2-dual-40g.log", &["--expect", "90%"]);
    ends(&no_ports, 3);
    assert!(
        stderr(&no_ports).contains("bandwidth of this transport is unknown"),
        "{}",
        stderr(&no_ports)
    );
}

#[test]
fn a_log_of_other_hosts_is_not_compared_with_this_machine() {
    let text = ends(&read("sample-2x2-dual-40g.log", &[]), 0);
    assert!(text.contains("pass a snapshot") && !text.contains("efficiency"), "{text}");
}

#[test]
fn a_failed_run_is_exit_code_1_with_its_reason() {
    let text = ends(&read("v2.19.6-fail.log", &[]), 1);
    assert!(text.contains("the run failed: Invalid number of GPUs: 2 requested"), "{text}");
    let text = ends(&read("sample-failed.log", &[]), 1);
    assert!(text.contains("the peer did not answer") || text.contains("RETRY_EXC"), "{text}");
}

#[test]
fn json_of_nccl_tests_is_printed_without_its_environment() {
    let text = ends(&read("v2.19.6.json", &["--json"]), 0);
    assert!(!text.contains("EXAMPLE_TOKEN") && !text.contains("secret"), "{text}");
    assert_eq!(json(&text)["collective"]["rows"].as_array().map(Vec::len), Some(3));
}

#[test]
fn an_unreadable_log_is_one_line_and_exit_code_3() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("cut.json");
    std::fs::write(&file, "{\n \"version\": 3,\n \"results\": [").expect("a file");
    for (path, words) in [
        (file.to_str().expect("a plain path"), "cut off"),
        ("/nowhere/job.log", "No such file"),
        (concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"), "no table of nccl-tests"),
    ] {
        let output = run(&["bench", "nccl", "--read", path]);
        ends(&output, 3);
        let text = stderr(&output);
        assert!(text.contains(words) && text.trim_end().lines().count() == 1, "{text}");
    }
}

#[test]
fn a_log_is_read_from_stdin() {
    let log = std::fs::File::open(log("torch-1.13-gloo.log")).expect("a log");
    let mut command = wirelane(&["bench", "torch", "--read", "-", "--json"]);
    let output = command.stdin(log).output().expect("the program runs");
    let document = json(&ends(&output, 0));
    assert_eq!((&document["kind"], &document["collective"]["ranks"]), (&"torch".into(), &2.into()));
}

#[test]
fn one_rank_of_pytorch_has_no_verdict_on_links() {
    let output = run(&["bench", "torch", "--read", &log("torch-2.11-nccl-one-rank.log")]);
    let text = ends(&output, 0);
    for words in ["PyTorch 2.11.0+cu130, NCCL 2.28.9", "NVIDIA H200", "only one rank"] {
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn a_dry_run_shows_the_command_with_the_environment_of_a_job() {
    let root = tree("ndr8");
    let words =
        ["--hosts", "10.0.0.1:4,10.0.0.2:4", "--dry-run", "--root", &root, "--", "-d", "bfloat16"];
    let output = run(&[&["bench", "nccl"], &words[..]].concat());
    let command = ends(&output, 0);
    assert!(
        command.contains("OMPI_MCA_pml=ucx mpirun -np 8 --host 10.0.0.1:4,10.0.0.2:4 "),
        "{command}"
    );
    assert!(command.contains(" -x NCCL_IB_HCA==mlx5_0:1,"), "{command}");
    assert!(
        command.ends_with("all_reduce_perf -b 1M -e 1G -f 2 -g 1 -n 100 -d bfloat16\n"),
        "{command}"
    );
    let words =
        ["--op", "alltoall", "--gpus", "8", "--from", "8", "--to", "64KiB", "--iterations", "20"];
    let output = run(&[&["bench", "nccl", "--dry-run", "--root", &root], &words[..]].concat());
    let command = ends(&output, 0);
    assert!(command.ends_with("alltoall_perf -b 8 -e 64K -f 2 -g 8 -n 20\n"), "{command}");
    assert!(!command.contains("mpirun"), "{command}");
}

#[test]
fn pytorch_gets_the_script_on_its_command_line() {
    let root = tree("cx3-gpus");
    let output = run(&["bench", "torch", "--dry-run", "--root", &root]);
    let command = ends(&output, 0);
    assert!(
        command.contains(" python3 -c \"$(wirelane bench torch --print-script)\" --backend nccl"),
        "{command}"
    );
    assert!(command.ends_with("--iterations 20 --processes 2\n"), "{command}");
    let words = ["--hosts", "10.0.0.1:2,10.0.0.2:2", "--dry-run", "--root", &root];
    let output = run(&[&["bench", "torch"], &words[..]].concat());
    assert!(ends(&output, 0).contains("-x MASTER_ADDR=10.0.0.1 "), "{}", stdout(&output));
    assert!(ends(&run(&["bench", "torch", "--print-script"]), 0).contains("torch.distributed"));
}

#[test]
fn a_missing_program_is_reported_with_the_fix() {
    let output = wirelane(&["bench", "nccl", "--op", "hypercube"]).env("PATH", "").output();
    let output = output.expect("the program runs");
    ends(&output, 3);
    let text = stderr(&output);
    assert!(text.contains("hypercube_perf not found") && text.contains("bench torch"), "{text}");
    let output = run(&["bench", "torch", "--python", "/nowhere/python3", "--backend", "gloo"]);
    ends(&output, 3);
    assert!(stderr(&output).contains("run /nowhere/python3: No such file"), "{}", stderr(&output));
}

#[test]
fn invalid_usage_is_exit_code_2() {
    for words in [
        &["--op", "all"][..],
        &["--hosts", "a;reboot:1"],
        &["--gpus", "0"],
        &["--read", "x", "--dry-run"],
        &["--from", "2GiB", "--to", "1GiB", "--gpus", "1", "--dry-run"],
        &["--expect", "fast"],
    ] {
        ends(&run(&[&["bench", "nccl"], words].concat()), 2);
    }
}

#[test]
fn output_without_a_table_is_reported_with_its_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("run.log");
    let log = log.to_str().expect("a plain path");
    let words = ["--program", "/bin/true", "--gpus", "1", "--log", log];
    let output = run(&[&["bench", "nccl"], &words[..]].concat());
    ends(&output, 3);
    assert!(stderr(&output).contains(&format!("it is in {log}")), "{}", stderr(&output));
}

#[test]
fn a_program_that_hangs_is_killed() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("hangs");
    std::fs::write(&program, "#!/bin/sh\nexec sleep 600\n").expect("a file");
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o700)).expect("a mode");
    let program = program.to_str().expect("a plain path");
    let log = folder.path().join("run.log");
    let log = log.to_str().expect("a plain path");
    let words = ["--python", program, "--backend", "gloo", "--log", log, "--timeout", "0.5"];
    let output = run(&[&["bench", "torch"], &words[..]].concat());
    ends(&output, 3);
    assert!(stderr(&output).contains("was killed; raise --timeout"), "{}", stderr(&output));
}
