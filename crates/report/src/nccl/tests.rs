//! Real outputs, and samples of shapes that they do not have.

use super::*;

macro_rules! output {
    ($name:literal) => {
        include_str!(concat!("../../tests/nccl/", $name))
    };
}

/// Sizes and the better half's bus bandwidth.
fn bus(run: &Run) -> Vec<(u64, f64)> {
    let rows = run.collective.rows.iter();
    rows.map(|row| (row.size_bytes, row.bus_gb_per_second().expect("results"))).collect()
}

fn well_read(text: &str) -> Run {
    let run = read(text).expect("it is read");
    assert!(run.is_complete && !run.has_failed(), "{run:?}");
    assert_eq!((&run.warnings, &run.errors), (&vec![], &vec![]));
    run
}

#[test]
fn real_tables_of_two_versions_are_read() {
    let old = well_read(output!("v2.13.8-check.log"));
    let new = well_read(output!("v2.19.6-check.log"));
    for run in [&old, &new] {
        assert_eq!(run.collective.rows.len(), 4);
        assert_eq!((run.collective.ranks, run.collective.wrong), (Some(1), Some(0)));
        assert_eq!(run.collective.hosts, ["vm"]);
        assert_eq!(run.collective.average_bus_gb_per_second, Some(0.0));
        assert_eq!(run.gpus[0].name, "NVIDIA H200");
    }
    assert_eq!(old.collective.operation, None);
    assert_eq!(old.gpus[0].pci.as_deref(), Some("0x00"));
    assert_eq!(new.collective.operation.as_deref(), Some("all_reduce"));
    assert_eq!(new.collective.tool, "nccl-tests 2.19.6, NCCL 2.28.3");
    let largest = new.collective.rows[3].in_place.expect("results");
    assert_eq!((largest.time_us, largest.algorithm_gb_per_second), (0.35, 191_767.0));
}

#[test]
fn without_checks_the_number_of_wrong_values_is_unknown() {
    for text in [output!("v2.13.8-nocheck.log"), output!("v2.19.6-nocheck.log")] {
        let run = well_read(text);
        assert_eq!((run.collective.rows.len(), run.collective.wrong), (7, None));
        assert_eq!(run.collective.rows[0].in_place.map(|half| half.wrong), Some(None));
    }
}

#[test]
fn a_real_run_that_could_not_start_has_its_reason() {
    let run = read(output!("v2.19.6-fail.log")).expect("it is read");
    assert!(run.has_failed() && run.collective.rows.is_empty());
    assert!(run.errors[0].starts_with("Invalid number of GPUs: 2 requested"), "{run:?}");
}

#[test]
fn real_json_is_read_and_secrets_are_not_kept() {
    let run = well_read(output!("v2.19.6.json"));
    assert_eq!(run.collective.rows.len(), 3);
    assert_eq!(run.collective.operation.as_deref(), Some("all_reduce"));
    assert_eq!(run.collective.tool, "nccl-tests, NCCL 2.28.3");
    assert_eq!(
        run.collective.rows[2].in_place.map(|half| half.algorithm_gb_per_second),
        Some(21_293.585_48)
    );
    assert_eq!(run.collective.rows[0].root, None);
    assert_eq!(run.gpus[0].pci.as_deref(), Some("0000:00:06"));
    assert!(run.environment.is_empty());
    assert!(!format!("{run:?}").contains("secret"));
}

#[test]
fn odd_values_in_json_are_read() {
    let text = output!("v2.19.6.json")
        .replacen("\"bus_bw\": 0.0", "\"bus_bw\": \"nan\"", 1)
        .replacen("\"nwrong\": 0.0", "\"nwrong\": null", 6)
        .replace("\"ngpus\": 1", "\"ngpus\": 4")
        .replace("\"validation\": 1", "\"validation\": 0")
        .replace("\"okay\": \"unchecked\"", "\"okay\": \"false\"")
        .replace("PATH=/usr/bin", "NCCL_IB_HCA==mlx5_0:1");
    let run = read(&text).expect("it is read");
    assert_eq!(run.collective.rows[0].out_of_place, None);
    assert!(run.collective.rows[0].in_place.is_some());
    assert_eq!((run.collective.ranks, run.gpus.len(), run.collective.wrong), (Some(4), 4, None));
    assert_eq!(run.environment["NCCL_IB_HCA"].as_deref(), Some("=mlx5_0:1"));
    assert_eq!(run.errors.len(), 1);
    let newer = read(&text.replace("\"version\": 3", "\"version\": 4")).expect("it is read");
    assert!(newer.warnings[0].contains("version 4"), "{newer:?}");
}

#[test]
fn json_that_is_cut_off_is_refused() {
    let text = output!("v2.19.6.json");
    for end in [40, 600, 1200, text.len() - 1] {
        let why = read(&text[..end]).expect_err("it is cut");
        assert!(why.contains("cut off") && why.contains("pass the log"), "{end}: {why}");
    }
    assert!(read("{\n\"format\": \"something else\"\n}").is_err());
}

/// Two nodes with two GPUs each and two 40 Gb/s ports of a ConnectX-3.
#[test]
fn the_results_of_the_40g_cluster_are_read() {
    let run = well_read(output!("sample-2x2-dual-40g.log"));
    let bus = bus(&run);
    assert_eq!(bus.len(), 11);
    for measurement in [(1 << 20, 2.01), (128 << 20, 3.63), (1 << 30, 3.66)] {
        assert!(bus.contains(&measurement), "{measurement:?} of {bus:?}");
    }
    assert_eq!(run.average(), Some(3.27));
    assert_eq!(run.peak().map(|(row, bus)| (row.size_bytes, bus)), Some((1 << 30, 3.66)));
    assert_eq!((run.collective.ranks, run.ranks_on_a_host()), (Some(4), 2));
    assert_eq!(run.collective.hosts, ["node1", "node2"]);
    assert_eq!(run.operation(), Some(Operation::AllReduce), "by its factor");
}

#[test]
fn milliseconds_of_the_first_version_are_converted() {
    let run = well_read(output!("sample-v1-all_reduce.log"));
    assert_eq!(run.collective.rows.len(), 3);
    assert_eq!(run.collective.rows[2].out_of_place.map(|half| half.time_us), Some(1864.0));
    assert_eq!((run.collective.ranks, run.collective.wrong), (Some(2), Some(0)));
    assert_eq!(run.average(), Some(8.79626));
}

#[test]
fn tables_without_reduction_and_root_are_read() {
    let gather = well_read(output!("sample-v2.0-all_gather.log"));
    assert_eq!(bus(&gather)[1], (2_097_152, 28.49));
    assert_eq!((gather.collective.rows[0].reduction.as_deref(), gather.operation()), (None, None));
    let all = well_read(output!("sample-v2.10-alltoall.log"));
    assert_eq!(all.operation(), Some(Operation::AllToAll), "by the command above it");
    assert_eq!(all.collective.rows[0].reduction, None);
    assert_eq!(all.collective.rows[1].count, Some(131_072));
}

#[test]
fn scientific_notation_timestamps_and_iterations_are_read() {
    let run = well_read(output!("sample-scientific-timestamps.log"));
    assert_eq!(run.collective.rows[2].in_place.map(|half| half.time_us), Some(3.8e8));
    assert_eq!(run.collective.rows.len(), 3);
    let run = well_read(output!("sample-per-iteration.log"));
    assert_eq!(bus(&run), [(1_048_576, 17.25)]);
}

#[test]
fn nccls_transports_are_read_from_a_log_of_mpirun() {
    let run = read(output!("sample-mpirun-debug.log")).expect("it is read");
    // The first row has one of NCCL's lines in its middle.
    assert_eq!((run.collective.rows.len(), run.warnings.len()), (10, 1));
    assert!(
        run.warnings[0].starts_with("1 line of the table could not be read"),
        "{:?}",
        run.warnings
    );
    assert_eq!(run.nccl_log.ports.iter().collect::<Vec<_>>(), ["mlx4_0:1", "mlx4_0:2"]);
    assert_eq!((run.nccl_log.gpu_direct(), run.nccl_log.is_tcp()), (Some(false), false));
    assert_eq!(run.nccl_log.channels.staged, 3);
    assert_eq!(run.average(), Some(3.27));
    let tcp = well_read(output!("sample-tcp.log"));
    assert!(tcp.nccl_log.is_tcp());
}

#[test]
fn a_failed_run_keeps_its_results_and_errors() {
    let run = read(output!("sample-failed.log")).expect("it is read");
    assert!(run.has_failed() && !run.is_complete);
    assert_eq!(run.collective.rows.len(), 2);
    assert!(run.errors[0].contains("status=12"), "{:?}", run.errors);
    assert!(run.warnings[0].contains("up to 2097152 of 1073741824 bytes"), "{:?}", run.warnings);
}

/// Wherever a log is cut, the rows read are a prefix of all rows, and the cut is reported.
#[test]
fn a_truncated_log_is_read_up_to_the_last_whole_row() {
    let whole = output!("sample-2x2-dual-40g.log");
    let all = bus(&well_read(whole));
    let average = whole.find(": 3.27").expect("there") + ": 3.27".len();
    for end in 0..=average {
        match read(&whole[..end]) {
            Ok(run) => {
                let read = bus(&run);
                assert_eq!(read, all[..read.len()], "cut at {end}");
                assert!(!run.is_complete && !run.warnings.is_empty(), "cut at {end}: {run:?}");
                assert_eq!(run.collective.average_bus_gb_per_second, None);
            }
            Err(why) => assert!(!why.is_empty()),
        }
    }
}

#[test]
fn the_last_of_several_runs_is_read() {
    let both = format!("{}{}", output!("v2.19.6-check.log"), output!("sample-2x2-dual-40g.log"));
    let run = well_read(&both);
    assert_eq!((run.average(), run.earlier), (Some(3.27), 1));
    assert_eq!(run.collective.tool, "nccl-tests", "the first run's version is not the second's");
}

#[test]
fn errors_of_an_earlier_run_are_ignored() {
    let both = format!("{}\n{}", output!("v2.19.6-fail.log"), output!("v2.19.6-check.log"));
    assert_eq!(well_read(&both).earlier, 1);
    let twice = output!("torch-1.13-gloo.log").repeat(2);
    assert_eq!(well_read(&twice).collective.rows.len(), 5);
}

#[test]
fn wrong_values_are_a_failure() {
    let text = output!("sample-2x2-dual-40g.log").replace("values : 0 OK", "values : 12 FAILED");
    let run = read(&text).expect("it is read");
    assert!(run.has_failed() && run.collective.wrong == Some(12));
}

#[test]
fn other_text_is_refused() {
    for text in ["", "  \n", "hello\nworld\n", "BW average 4555 MB/sec", "# Using devices\n"] {
        assert!(read(text).is_err(), "{text:?}");
    }
}

#[test]
fn output_of_the_pytorch_script_is_read() {
    let run = well_read(output!("torch-1.13-gloo.log"));
    assert_eq!(run.collective.tool, "PyTorch 1.13.0a0, gloo");
    assert_eq!((run.operation(), run.collective.ranks), (Some(Operation::AllReduce), Some(2)));
    assert_eq!((run.collective.rows.len(), run.collective.wrong), (5, Some(0)));
    assert!(
        run.collective.rows.iter().all(|row| row.in_place.is_some() && row.out_of_place.is_none())
    );
    assert!(run.nccl_log.is_tcp() && run.peak().is_some_and(|(_, peak)| peak > 0.0));
    let failed = read(output!("torch-1.13-fail.log")).expect("it is read");
    assert!(failed.has_failed() && failed.errors[0].contains("no support"), "{failed:?}");
}

/// mpirun starts four processes of an nccl-tests that was built without MPI: each prints its own table.
#[test]
fn mixed_outputs_of_several_programs_are_refused() {
    let lines = output!("v2.13.8-check.log").lines();
    let by_line: String = lines.flat_map(|line| [line, "\n"].repeat(4)).collect();
    let (head, table) = output!("v2.13.8-check.log").split_once("#  ").expect("a list of GPUs");
    let (list, table) = table.split_once('\n').expect("a table");
    let heads = format!("{head}#  {list}\n").repeat(2);
    let after_heads = format!(
        "{heads}{}",
        table.lines().flat_map(|line| [line, "\n"].repeat(2)).collect::<String>()
    );
    let footer = table.find("# Out of bounds").expect("a footer");
    let (rows, footer) = table.split_at(footer);
    let last_row = rows.lines().last().expect("a row");
    let late_row = format!("{heads}{rows}{footer}{last_row}\n");
    let two_averages = format!("{heads}{rows}{footer}{footer}");
    for (text, evidence) in [
        (by_line, "rank 0 is listed twice"),
        (after_heads, "the table's header is repeated"),
        (late_row, "rows follow the average"),
        (two_averages, "it has two averages"),
    ] {
        let why = read(&text).expect_err(evidence);
        assert!(why.starts_with(evidence) && why.contains("MPI=1"), "{why}");
    }
}

#[test]
fn a_second_run_without_its_first_lines_is_another_run() {
    let whole = output!("sample-2x2-dual-40g.log");
    let later = whole.split_once("# Using devices\n").expect("a list of GPUs").1;
    let run = well_read(&format!("{whole}{later}"));
    assert_eq!((run.collective.ranks, run.collective.rows.len(), run.earlier), (Some(4), 11, 1));
}

#[test]
fn a_truncated_log_with_a_warning_has_not_failed() {
    let whole = output!("sample-2x2-dual-40g.log");
    let end = whole.find("    16777216").expect("a row");
    for (warning, is_kept) in [
        (
            "n1:41:43 [0] misc/ibvwrap.cc:94 NCCL WARN dlvsym failed on ibv_query_ece - undefined symbol",
            false,
        ),
        (
            "n1:41:43 [0] transport/net_ib.cc:9 NCCL WARN NET/IB : libibverbs: Warning: no driver",
            false,
        ),
        (
            "n1:41:43 [0] transport/net_ib.cc:9 NCCL WARN NET/IB : Unable to open device mlx5_3",
            true,
        ),
    ] {
        let run = read(&format!("{warning}\n{}", &whole[..end])).expect("it is read");
        assert!(!run.has_failed() && !run.is_complete, "{warning}");
        assert_eq!((run.errors.len(), run.warnings.len()), (usize::from(is_kept), 1), "{warning}");
        let nothing =
            format!("{warning}\n{}", &whole[..whole.find("     1048576").expect("a row")]);
        assert_eq!(read(&nothing).is_ok_and(|run| run.has_failed()), is_kept, "{warning}");
    }
}
