//! Complete launches, compared with golden files.

use super::*;
use jobs::launch::{Reason, explain};

/// Compares the output with a golden file; `WIRELANE_GOLDEN=write` writes the file instead, for review.
#[track_caller]
fn assert_golden(file: &str, printed: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/launch/golden").join(file);
    if std::env::var_os("WIRELANE_GOLDEN").is_some_and(|value| value == "write") {
        std::fs::write(&path, printed).expect("is written");
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        printed, expected,
        "the output differs from golden/{file}; if the output is right, update the file with \
         WIRELANE_GOLDEN=write cargo nextest run -p wirelane-jobs --test launch golden"
    );
}

#[track_caller]
fn assert_launch(
    file: &str,
    framework: Framework,
    mode: Mode,
    tools: &Tools,
    machines: &[Machine],
) {
    let launch = planned(framework, mode, tools, machines).unwrap_or_else(|why| panic!("{why}"));
    assert_golden(file, &text(&launch));
}

/// Every host's script, the local command, and the notes.
fn text(launch: &Launch) -> String {
    let mut text = format!("{}, {:?}\n", launch.method, launch.mode);
    for host in &launch.hosts {
        let starter = host.starter().join(" ");
        text +=
            &format!("\non {}, {} ranks, `{starter}`:\n{}", host.host, host.slots, host.script());
    }
    if let Some(launcher) = &launch.launcher {
        let words = launcher.command.iter().map(|word| jobs::environment::shell_word(word));
        text += &format!(
            "\nhere, with {:?}:\n{}\n\n",
            launcher.environment,
            words.collect::<Vec<_>>().join(" ")
        );
    }
    text + &launch.notes.iter().map(|note| format!("note: {note}\n")).collect::<String>()
}

fn paragraphs(reasons: &[Reason]) -> String {
    reasons.iter().map(|reason| format!("{}\n    {}\n", reason.what, reason.why)).collect()
}

#[test]
fn open_mpi_4_over_ucx_on_roce() {
    let (four, machines) = (debian(), pair("mlx5-roce", "10.1.4.23", &debian()));
    assert_launch("mpi4-roce.txt", Framework::Mpi, Mode::Auto, &four, &machines);
}

#[test]
fn open_mpi_5_over_ucx_on_infiniband() {
    let (five, machines) = (five(), pair("ndr8", "10.10.0.21", &five()));
    assert_launch("mpi5-infiniband.txt", Framework::Mpi, Mode::Rdma, &five, &machines);
}

#[test]
fn open_mpi_4_over_tcp() {
    let root = Tools { uid: Some(0), ..debian() };
    assert_launch(
        "mpi4-tcp.txt",
        Framework::Mpi,
        Mode::Tcp,
        &root,
        &pair("rxe", "192.168.122.40", &root),
    );
}

#[test]
fn open_mpi_4_on_soft_roce() {
    let machines = pair("rxe", "192.168.122.40", &debian());
    assert_launch("mpi4-rxe.txt", Framework::Mpi, Mode::Rdma, &debian(), &machines);
}

#[test]
fn torchrun_on_infiniband() {
    let mut machines = pair("ndr8", "10.10.0.21", &with_programs());
    machines.iter_mut().for_each(|machine| machine.slots = None);
    assert_launch(
        "torch-infiniband.txt",
        Framework::Torch,
        Mode::Auto,
        &with_programs(),
        &machines,
    );
}

#[test]
fn tensorflow_with_a_parameter_server() {
    let tools = with_programs();
    let machine = |name, address| Machine::new(name, "mlx5-roce", address, &tools);
    let machines =
        [machine("a", "10.1.4.23"), machine("b", "10.1.4.24"), machine("c", "10.1.4.25")];
    let framework = Framework::Tensorflow { ps: 1, chief: false, shared: false };
    assert_launch("tensorflow-ps.txt", framework, Mode::Auto, &tools, &machines);
}

#[test]
fn horovod_is_noted_as_legacy() {
    let machines = pair("mlx5-roce", "10.1.4.23", &with_programs());
    assert_launch("horovod.txt", Framework::Horovod, Mode::Auto, &with_programs(), &machines);
}

#[test]
fn wrong_advice_of_guides_is_explained() {
    let tensorflow = Framework::Tensorflow { ps: 0, chief: false, shared: false };
    for (file, framework, tools) in [
        ("explain-mpi4.txt", Framework::Mpi, debian()),
        ("explain-mpi5.txt", Framework::Mpi, five()),
        ("explain-mpi.txt", Framework::Mpi, Tools::default()),
        ("explain-torch.txt", Framework::Torch, with_programs()),
        ("explain-tensorflow.txt", tensorflow, with_programs()),
        ("explain-horovod.txt", Framework::Horovod, with_programs()),
    ] {
        assert_golden(file, &paragraphs(&explain(framework, &tools)));
    }
}

#[test]
fn each_part_of_a_command_line_has_its_reason() {
    let launch =
        planned(Framework::Mpi, Mode::Auto, &debian(), &pair("irdma", "192.168.85.4", &debian()));
    assert_golden("reasons-mpi4.txt", &paragraphs(&launch.expect("a launch").explain));
}
