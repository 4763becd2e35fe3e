//! Refusals name the host and the reason before anything is started.

use super::*;

#[track_caller]
fn refused(framework: Framework, mode: Mode, here: &Tools, machines: &[Machine]) -> String {
    planned(framework, mode, here, machines).expect_err("a refusal").to_string()
}

#[test]
fn rdma_is_refused_where_a_host_has_none() {
    let machines = [
        Machine::new("a", "mlx5-roce", "10.1.4.23", &debian()),
        Machine::new("b", "empty", "10.1.4.24", &debian()),
    ];
    let why = refused(Framework::Mpi, Mode::Rdma, &debian(), &machines);
    assert!(why.starts_with("b: no RDMA device can be used"), "{why}");
    let why = refused(Framework::Torch, Mode::Rdma, &with_programs(), &machines);
    assert!(why.starts_with("b: no RDMA device can be used"), "{why}");
}

#[test]
fn a_port_that_is_not_up_is_named_with_its_state() {
    let machines = pair("ib-init", "10.1.4.23", &debian());
    let why = refused(Framework::Mpi, Mode::Rdma, &debian(), &machines);
    assert!(why.starts_with("a: ") && why.contains("INIT"), "{why}");
}

#[test]
fn fabrics_that_cannot_connect_are_refused() {
    let machines = [
        Machine::new("a", "mlx5-roce", "10.1.4.23", &debian()),
        Machine::new("b", "ndr8", "10.10.0.21", &debian()),
    ];
    let why = refused(Framework::Mpi, Mode::Rdma, &debian(), &machines);
    assert_eq!(
        why,
        "b: InfiniBand there, RoCE on a: they cannot connect; --mode tcp works without RDMA"
    );
}

#[test]
fn an_mpi_without_an_rdma_transport_is_refused() {
    let bare = with_mpi("mpirun (Open MPI) 5.0.11", &["pml:ob1"]);
    let machines = pair("mlx5-roce", "10.1.4.23", &bare);
    let why = refused(Framework::Mpi, Mode::Rdma, &bare, &machines);
    assert!(
        why.starts_with("a: mpirun (Open MPI) 5.0.11 there was built without UCX or libfabric"),
        "{why}"
    );
}

#[test]
fn different_or_unsupported_mpi_versions_are_refused() {
    let two = [
        Machine::new("a", "rxe", "192.168.122.40", &debian()),
        Machine::new("b", "rxe", "192.168.122.40", &five()),
    ];
    let why = refused(Framework::Mpi, Mode::Auto, &debian(), &two);
    assert!(why.starts_with("b: mpirun (Open MPI) 5.0.11 there") && why.contains("4.1.4"), "{why}");
    let why = refused(Framework::Mpi, Mode::Auto, &Tools::default(), &two);
    assert!(why.starts_with("this machine has no mpirun"), "{why}");
    let hydra = with_mpi("HYDRA build details:", &[]);
    let why = refused(Framework::Mpi, Mode::Auto, &hydra, &two);
    assert!(why.contains("HYDRA") && why.contains("Open MPI 4 and 5"), "{why}");
    let old = with_mpi("mpirun (Open MPI) 3.1.6", &[]);
    assert!(refused(Framework::Mpi, Mode::Auto, &old, &two).contains("too old"));
    let without = Machine::new("c", "rxe", "192.168.122.40", &with_programs());
    let why = refused(Framework::Mpi, Mode::Auto, &debian(), &[without]);
    assert!(why.starts_with("c: it has no mpirun"), "{why}");
}

#[test]
fn a_program_that_a_host_lacks_is_named() {
    let mut machines = pair("rxe", "192.168.122.40", &debian());
    machines[1].tools.program = None;
    let why = refused(Framework::Mpi, Mode::Auto, &debian(), &machines);
    assert!(why.starts_with("b: it has no program ./solve: neither in /srv/job"), "{why}");
}

#[test]
fn torch_and_horovod_must_be_installed() {
    let machines = pair("mlx5-roce", "10.1.4.23", &debian());
    let bare = Tools { torch: None, horovodrun: None, ..debian() };
    let without = pair("mlx5-roce", "10.1.4.23", &bare);
    let why = refused(Framework::Torch, Mode::Auto, &debian(), &without);
    assert!(why.starts_with("a: it has no PyTorch (checked with /usr/bin/python3)"), "{why}");
    let why = refused(Framework::Horovod, Mode::Auto, &bare, &machines);
    assert!(why.contains("no horovodrun") && why.contains("torch`"), "{why}");
    let why = refused(Framework::Horovod, Mode::Auto, &debian(), &without);
    assert!(why.starts_with("a: it has no horovodrun"), "{why}");
}

#[test]
fn more_servers_than_hosts_are_refused() {
    let machines = pair("mlx5-roce", "10.1.4.23", &with_programs());
    let framework = Framework::Tensorflow { ps: 2, chief: false, shared: false };
    let why = refused(framework, Mode::Auto, &with_programs(), &machines);
    assert!(why.contains("2 hosts are too few"), "{why}");
}
