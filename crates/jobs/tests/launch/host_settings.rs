//! Commands and variables of the hosts, where they differ.

use super::*;

#[test]
fn with_one_host_without_rdma_the_whole_job_uses_tcp() {
    let machines = [
        Machine::new("a", "mlx5-roce", "10.1.4.23", &debian()),
        Machine::new("b", "empty", "10.1.4.24", &debian()),
    ];
    let launch = planned(Framework::Mpi, Mode::Auto, &debian(), &machines).expect("a launch");
    assert_eq!(launch.mode, Mode::Tcp);
    assert!(
        launch.notes[0].starts_with("the whole job uses TCP: b: no RDMA device"),
        "{:?}",
        launch.notes
    );
    assert!(
        launcher_command(&launch).contains("--mca pml ob1 --mca btl self,vader,tcp"),
        "{}",
        launcher_command(&launch)
    );
    assert_eq!(variable(&launch, 0, "NCCL_IB_DISABLE"), Some("1"));
}

#[test]
fn each_host_has_its_own_devices() {
    let machines = [
        Machine::new("a", "mlx5-roce", "10.1.4.23", &debian()),
        Machine::new("b", "irdma", "192.168.85.4", &debian()),
    ];
    let launch = planned(Framework::Mpi, Mode::Rdma, &debian(), &machines).expect("a launch");
    assert_eq!(variable(&launch, 0, "NCCL_IB_HCA"), Some("=mlx5_0:1"));
    assert_eq!(variable(&launch, 1, "NCCL_IB_HCA"), Some("=rocep24s0:1"));
    assert_eq!(variable(&launch, 0, "OMPI_MCA_pml"), None, "it is an argument of mpirun");
    assert!(
        launcher_command(&launch).contains("opal_common_ucx_devices any"),
        "{}",
        launcher_command(&launch)
    );
    assert_ne!(launch.hosts[0].folder, launch.hosts[1].folder);
}

#[test]
fn without_ucx_libfabric_is_used() {
    let ofi = with_mpi("mpirun (Open MPI) 5.0.11", &["pml:cm", "mtl:ofi", "pml:ob1"]);
    let machines = pair("mlx5-roce", "10.1.4.23", &ofi);
    let launch = planned(Framework::Mpi, Mode::Rdma, &ofi, &machines).expect("a launch");
    let words = "--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include verbs;ofi_rxm";
    assert!(
        launcher_command(&launch).contains(words) && !launcher_command(&launch).contains("openib"),
        "{}",
        launcher_command(&launch)
    );
    assert_eq!(variable(&launch, 0, "FI_VERBS_DEVICE_NAME"), Some("mlx5_0"));
}

#[test]
fn efa_and_omni_path_have_their_own_transports() {
    let machines = pair("efa", "172.31.16.90", &five());
    let launch = planned(Framework::Mpi, Mode::Rdma, &five(), &machines).expect("a launch");
    assert!(
        launcher_command(&launch).contains("mtl_ofi_provider_include efa"),
        "{}",
        launcher_command(&launch)
    );
    let machines = pair("hfi1", "10.0.0.1", &debian());
    let launch = planned(Framework::Mpi, Mode::Rdma, &debian(), &machines).expect("a launch");
    assert!(
        launcher_command(&launch).contains("--mca pml cm --mca mtl psm2"),
        "{}",
        launcher_command(&launch)
    );
}

#[test]
fn hosts_without_a_common_network_get_their_own_interfaces() {
    let machines = [
        Machine::new("a", "mlx5-roce", "10.1.4.23", &five()),
        Machine::new("b", "rxe", "192.168.122.40", &five()),
    ];
    let launch = planned(Framework::Mpi, Mode::Tcp, &five(), &machines).expect("a launch");
    assert!(
        !launcher_command(&launch).contains("if_include")
            && launcher_command(&launch).contains("btl self,sm,tcp")
    );
    assert_eq!(variable(&launch, 0, "OMPI_MCA_btl_tcp_if_include"), Some("eno1"));
    assert_eq!(variable(&launch, 1, "OMPI_MCA_btl_tcp_if_include"), Some("eth0"));
}

#[test]
fn an_mpi_in_an_unusual_folder_is_called_by_its_path() {
    let mut tools = five();
    tools.mpi.as_mut().expect("MPI").mpirun = "/opt/venv/bin/mpirun".to_owned();
    let machines = pair("rxe", "192.168.122.40", &tools);
    let launch = planned(Framework::Mpi, Mode::Tcp, &tools, &machines).expect("a launch");
    assert!(launcher_command(&launch).starts_with("/opt/venv/bin/mpirun "));
}

#[test]
fn ranks_belong_to_hosts_in_their_order() {
    let mut machines = pair("rxe", "192.168.122.40", &debian());
    machines[0].slots = Some(3);
    let launch = planned(Framework::Mpi, Mode::Tcp, &debian(), &machines).expect("a launch");
    let host = |rank| launch.host_of(rank).map(|host| host.host.as_str());
    assert_eq!([host(0), host(2), host(3), host(5)], [Some("a"), Some("a"), Some("b"), None]);
    let after = launcher_command(&launch);
    assert!(after.contains("-n 3 --host a:3") && after.contains(": -n 2 --host b:2"), "{after}");
}

#[test]
fn variables_of_the_user_come_last() {
    let machines = pair("mlx5-roce", "10.1.4.23", &debian());
    let launch = planned(Framework::Mpi, Mode::Auto, &debian(), &machines).expect("a launch");
    assert_eq!(variable(&launch, 0, "WIRELANE_JOB"), Some("3f9a"));
    assert_eq!(
        launch.hosts[0].environment.last().map(|(name, _)| name.as_str()),
        Some("OMP_NUM_THREADS")
    );
}

#[test]
fn a_script_runs_its_command_in_its_folder_with_its_variables() {
    let machines = pair("rxe", "192.168.122.40", &with_programs());
    let framework = Framework::Tensorflow { ps: 0, chief: false, shared: false };
    let mut launch = planned(framework, Mode::Tcp, &with_programs(), &machines).expect("a launch");
    let host = &mut launch.hosts[1];
    host.directory = "/".to_owned();
    host.command = ["sh", "-c", "pwd; echo $TF_CONFIG; echo \"$1\"", "x", "it's a file"]
        .map(str::to_owned)
        .to_vec();
    let run = |script: &str| {
        let output = std::process::Command::new("sh").args(["-c", script]).output().expect("sh");
        (
            output.status.code(),
            [output.stdout, output.stderr].map(|text| String::from_utf8(text).expect("text")),
        )
    };
    let (code, [stdout, _]) = run(&host.script());
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!((code, lines[0], lines[2]), (Some(0), "/", "it's a file"));
    let config: serde_json::Value = serde_json::from_str(lines[1]).expect("JSON");
    assert_eq!(config["task"], serde_json::json!({ "type": "worker", "index": 1 }));
    assert_eq!(config["cluster"]["worker"].as_array().map(Vec::len), Some(2));
    host.command = vec!["no-such-program".to_owned()];
    let (code, [_, stderr]) = run(&host.script());
    assert_eq!(code, Some(127));
    assert!(stderr.starts_with("wirelane: b has no program no-such-program in / or "), "{stderr}");
}

#[test]
fn torchrun_of_pytorch_1_gets_another_redirect_default() {
    let command = |version: &str| {
        let mut tools = with_programs();
        tools.torch.as_mut().expect("torch").version = Some(version.to_owned());
        let machines = pair("rxe", "192.168.122.40", &tools);
        let launch = planned(Framework::Torch, Mode::Tcp, &tools, &machines).expect("a launch");
        launch.hosts[1].command.join(" ")
    };
    assert!(command("1.13.0a0+gitunknown").contains("--redirects=9:0 --tee=9:0"));
    assert!(!command("2.9.1").contains("--redirects"));
    assert!(command("2.9.1").contains("--node_rank=1 --nproc_per_node=2"));
}

#[test]
fn fewer_ranks_than_slots_fill_the_hosts_in_order() {
    let tools = with_programs();
    let machines = pair("mlx5-roce", "10.1.4.23", &tools);
    let slots = |framework, here: &Tools, ranks| {
        let launch = planned_ranks(framework, Mode::Auto, here, &machines, ranks)?;
        Ok::<_, Refusal>(launch.hosts.iter().map(|host| host.slots).collect::<Vec<_>>())
    };
    for (ranks, expected) in [(None, vec![2, 2]), (Some(3), vec![2, 1]), (Some(2), vec![2])] {
        assert_eq!(slots(Framework::Torch, &tools, ranks), Ok(expected), "{ranks:?}");
    }
    let why = slots(Framework::Torch, &tools, Some(5)).expect_err("refused").to_string();
    assert!(why.starts_with("5 ranks: the hosts have 4 slots"), "{why}");
    let machines = pair("mlx5-roce", "10.1.4.23", &debian());
    let mpi = planned_ranks(Framework::Mpi, Mode::Auto, &debian(), &machines, Some(3));
    let command = launcher_command(&mpi.expect("a launch"));
    assert!(
        command.contains("-n 2 --host a:2 ") && command.contains("-n 1 --host b:1 "),
        "{command}"
    );
}

#[test]
fn a_parameter_server_shares_its_host_with_a_worker() {
    let tools = with_programs();
    let machine = |name, address| Machine::new(name, "mlx5-roce", address, &tools);
    let machines = [machine("a", "10.1.4.23"), machine("b", "10.1.4.24")];
    let framework = Framework::Tensorflow { ps: 1, chief: false, shared: true };
    let launch = planned(framework, Mode::Auto, &tools, &machines).expect("a launch");
    let parts: Vec<_> =
        launch.hosts.iter().map(|host| (host.host.as_str(), host.host_index)).collect();
    assert_eq!(parts, [("a", 0), ("b", 1), ("b-ps", 1)]);
    let config = variable(&launch, 2, "TF_CONFIG").expect("a task");
    let cluster = r#"{"ps":["10.1.4.24:21875"],"worker":["10.1.4.23:21874","10.1.4.24:21874"]}"#;
    assert!(config.contains(cluster) && config.contains(r#""type":"ps""#), "{config}");
    assert_eq!(variable(&launch, 2, "CUDA_VISIBLE_DEVICES"), Some(""));
    assert_eq!(variable(&launch, 1, "CUDA_VISIBLE_DEVICES"), None);
    assert_ne!(launch.hosts[1].folder, launch.hosts[2].folder);
}

/// The notes name what `launch` has, not options of `env`.
#[test]
fn notes_of_a_launch_name_no_option_that_it_lacks() {
    let tools = with_programs();
    let machines = pair("mlx5-roce", "10.1.4.23", &tools);
    for machines in [&machines[..], &machines[..1]] {
        let launch = planned(Framework::Torch, Mode::Auto, &tools, machines).expect("a launch");
        let notes = launch.notes.join("\n");
        assert!(
            !notes.contains("--peers") && !notes.contains("pass the peers' addresses to"),
            "{notes}"
        );
    }
}
