//! `wirelane k8s`: manifests from nodes. `tests/python.rs` checks them with the schemas of clusters.

use super::{run, stderr, stdout};

fn tree(name: &str) -> String {
    format!("{}/../node/tests/trees/{name}.json", env!("CARGO_MANIFEST_DIR"))
}

fn printed(arguments: &[&str]) -> String {
    let output = run(&[&["k8s"], arguments].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stdout(&output)
}

fn has(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(text.lines().any(|one| one.trim() == *line), "{line:?} is not in\n{text}");
    }
}

#[test]
fn a_policy_names_the_nics_of_the_node() {
    let text = printed(&["policy", "--root", &tree("ndr8"), "--all-nics"]);
    has(
        &text,
        &["kind: SriovNetworkNodePolicy", "linkType: ib", "vendor: \"15b3\"", "isRdma: true"],
    );
    // Eight InfiniBand NICs and one of Ethernet: jobs request the eight by the plain name.
    has(&text, &["resourceName: wirelane_rdma", "resourceName: wirelane_rdma_eth"]);
    let output = run(&["k8s", "policy", "--root", &tree("empty")]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("no NIC of this node"), "{}", stderr(&output));
}

/// Eight InfiniBand NICs for the GPUs, and a BlueField with RoCE for storage.
#[test]
fn nics_that_jobs_do_not_use_are_left_out() {
    let output = run(&["k8s", "policy", "--root", &tree("ndr8")]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stdout(&output).matches("kind: SriovNetworkNodePolicy").count(), 1);
    assert!(!stdout(&output).contains("ens7f0np0"), "{}", stdout(&output));
    assert!(stderr(&output).contains("note: mlx5_8 is left out: RoCE"), "{}", stderr(&output));
    let network = printed(&["network", "--root", &tree("ndr8")]);
    assert_eq!(network.matches("kind: Sriov").count(), 1, "{network}");
    has(&network, &["kind: SriovIBNetwork", "resourceName: wirelane_rdma"]);
    let all = run(&["k8s", "network", "--root", &tree("ndr8"), "--all-nics"]);
    assert_eq!(all.status.code(), Some(2));
    assert!(
        stderr(&all).contains("mlx5_8 is RoCE") && stderr(&all).contains("--range"),
        "{}",
        stderr(&all)
    );
}

#[test]
fn a_job_requests_a_nic_for_each_gpu() {
    let job = |more: &[&str]| {
        printed(
            &[&["job", "--root", &tree("ndr8"), "--image", "example/wirelane:1"], more].concat(),
        )
    };
    has(&job(&[]), &["openshift.io/wirelane_rdma: \"8\"", "nvidia.com/gpu: \"8\""]);
    has(&job(&["--gpus", "2"]), &["openshift.io/wirelane_rdma: \"2\"", "nvidia.com/gpu: \"2\""]);
    has(&job(&["--devices", "1"]), &["openshift.io/wirelane_rdma: \"1\"", "nvidia.com/gpu: \"8\""]);
    let arguments = ["k8s", "job", "--root", &tree("empty"), "--image", "i", "--gpus", "4"];
    let unknown = run(&arguments);
    assert!(
        stderr(&unknown).contains("requests 1 RDMA device; pass --devices"),
        "{}",
        stderr(&unknown)
    );
}

#[test]
fn infiniband_and_roce_have_separate_networks() {
    let text = printed(&[
        "network",
        "--all-nics",
        "--root",
        &tree("ndr8"),
        "--namespace",
        "train",
        "--range",
        "10.9.0.0/16",
    ]);
    has(&text, &["kind: SriovIBNetwork", "networkNamespace: train"]);
    let output = run(&["k8s", "network", "--root", &tree("mlx5-roce")]);
    assert_eq!(output.status.code(), Some(2), "{}", stdout(&output));
    assert!(stderr(&output).contains("pass an address range"), "{}", stderr(&output));
    let text = printed(&[
        "network",
        "--root",
        &tree("mlx5-roce"),
        "--range",
        "10.9.0.0/16",
        "--exclusive",
    ]);
    has(&text, &["kind: SriovNetwork", "kind: SriovNetworkPoolConfig", "rdmaMode: exclusive"]);
}

#[test]
fn a_machine_config_sets_passthrough_and_warns_of_the_reboot() {
    let output = run(&["k8s", "machineconfig", "--root", &tree("iommu"), "--memlock"]);
    has(
        &stdout(&output),
        &[
            "kind: MachineConfig",
            "- \"iommu=pt\"",
            "path: /etc/crio/crio.conf.d/99-wirelane-memlock.conf",
        ],
    );
    assert!(!stdout(&output).contains("intel_iommu"), "{}", stdout(&output));
    assert!(stderr(&output).contains("reboots every node"), "{}", stderr(&output));
}

#[test]
fn jobs_copy_the_program_and_may_lock_memory() {
    let base =
        ["job", "--root", &tree("empty"), "--namespace", "train", "--image", "example/wirelane:1"];
    let single = printed(&[&base[..], &["--gpus", "2", "--", "python", "train.py"]].concat());
    has(
        &single,
        &[
            "kind: Job",
            "- IPC_LOCK",
            "nvidia.com/gpu: \"2\"",
            "medium: Memory",
            "- train.py",
            "kind: SecurityContextConstraints",
        ],
    );
    let multi = printed(&[&base[..], &["--type", "multi", "--replicas", "3"]].concat());
    has(
        &multi,
        &[
            "kind: StatefulSet",
            "kind: Service",
            "clusterIP: None",
            "replicas: 3",
            "value: wirelane-job-0.wirelane-job.train.svc",
        ],
    );
    let tcp = printed(&[&base[..], &["--mode", "tcp", "--platform", "kubernetes"]].concat());
    has(&tcp, &["- tcp", "kind: ServiceAccount"]);
    assert!(!tcp.contains("IPC_LOCK") && !tcp.contains("SecurityContextConstraints"), "{tcp}");
}

#[test]
fn a_job_of_several_pods_uses_a_launcher() {
    let base =
        ["job", "--root", &tree("empty"), "--image", "example/wirelane:1", "--type", "multi"];
    let torch = printed(&[&base[..], &["--launch", "torch", "--", "train.py"]].concat());
    has(&torch, &["- torchrun", "- train.py", "- name: PET_NODE_RANK", "- name: PET_NNODES"]);
    assert!(!torch.contains("--no_python"), "{torch}");
    let program = printed(&[&base[..], &["--launch", "torch", "--", "./train"]].concat());
    has(&program, &["- \"--no_python\""]);
    let tensorflow =
        printed(&[&base[..], &["--launch", "tensorflow", "--", "python3", "train.py"]].concat());
    has(&tensorflow, &["- name: TF_CONFIG"]);
    for part in ["wirelane-job-1.wirelane-job.default.svc:29500", "$(NODE_RANK)"] {
        assert!(tensorflow.contains(part), "{tensorflow}");
    }
    let rank = tensorflow.find("name: NODE_RANK").expect("a rank");
    assert!(rank < tensorflow.find("name: TF_CONFIG").expect("TF_CONFIG"), "{tensorflow}");
    let single = run(&["k8s", "job", "--image", "i", "--launch", "torch", "--", "train.py"]);
    assert_eq!(single.status.code(), Some(2));
    assert!(stderr(&single).contains("--type multi"), "{}", stderr(&single));
}

#[test]
fn a_check_fails_for_problems_and_not_for_warnings_of_the_host() {
    let text = printed(&["verify", "--image", "example/wirelane:1"]);
    assert!(text.contains("doctor --require rdma;"), "{text}");
    assert!(!text.contains("--strict"), "{text}");
}

#[test]
fn an_exporter_runs_on_every_node_and_is_scraped() {
    let output = run(&["k8s", "exporter", "--image", "example/wirelane:1"]);
    has(
        &stdout(&output),
        &["kind: DaemonSet", "kind: PodMonitor", "path: /healthz", "- \"--no-gpu\""],
    );
    assert_eq!(stderr(&output), "");
    let with_gpus = printed(&["exporter", "--image", "example/wirelane:1", "--gpu"]);
    has(&with_gpus, &["runtimeClassName: nvidia", "- name: NVIDIA_VISIBLE_DEVICES", "value: all"]);
    assert!(!with_gpus.contains("--no-gpu"), "{with_gpus}");
}

#[test]
fn invalid_kubernetes_names_are_refused() {
    for (flag, value) in
        [("--namespace", "Train"), ("--name", "a_b"), ("--image", "a b"), ("--resource", "a/b/c")]
    {
        let mut arguments = vec!["k8s", "job", "--image", "example/wirelane:1"];
        if flag == "--image" {
            arguments.truncate(2);
        }
        arguments.extend([flag, value]);
        let output = run(&arguments);
        assert_eq!(output.status.code(), Some(2), "{flag} {value}");
        assert!(stderr(&output).contains(flag), "{}", stderr(&output));
    }
}
