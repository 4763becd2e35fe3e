//! Which row explains a line that matches several.

use crate::explain::{ErrorClass, parse};

#[track_caller]
fn is_about(line: &str, class: ErrorClass) {
    let errors = parse(line);
    let found: Vec<_> = errors.iter().map(|error| (error.class, &error.title)).collect();
    assert_eq!(found.first().map(|(class, _)| *class), Some(class), "{line}: {found:?}");
}

#[test]
fn an_event_comes_before_a_completion_and_a_completion_before_words() {
    is_about(
        "NCCL WARN NET/IB : mlx5_0:1 Got async fatal event: QP fatal error",
        ErrorClass::Flushed,
    );
    is_about(
        "NCCL WARN NET/IB : Got completion from peer 10.0.0.1<1> with status=12 vendor err 129, connect failed",
        ErrorClass::RetryExceeded,
    );
}

#[test]
fn the_limit_that_a_line_names_comes_before_the_call() {
    is_about(
        "ibv_create_cq() failed: Cannot allocate memory. Please set max locked memory (ulimit -l)",
        ErrorClass::Registration,
    );
    is_about("ibv_create_cq() failed: Cannot allocate memory", ErrorClass::Creation);
}

#[test]
fn the_call_comes_before_the_error_number() {
    for error in ["Connection timed out", "Connection refused", "errno 110"] {
        is_about(&format!("agent: ibv_create_cq failed: {error}"), ErrorClass::Creation);
    }
    is_about("agent: ibv_query_gid failed: Connection timed out", ErrorClass::WrongGid);
}

#[test]
fn the_error_number_selects_among_the_rows_of_a_call() {
    is_about("ibv_open_device(mlx5_0) failed: Permission denied", ErrorClass::Restricted);
    is_about("ibv_open_device(mlx5_0) failed: No such file or directory", ErrorClass::NoDevice);
    is_about("ibv_modify_qp failed: Connection timed out", ErrorClass::NoAnswer);
    is_about("ibv_modify_qp failed: Invalid argument", ErrorClass::WrongGid);
    is_about("rdma_create_event_channel failed: No such file or directory", ErrorClass::NoDevice);
    is_about("rdma_create_event_channel failed", ErrorClass::Creation);
}

#[test]
fn wrappers_of_a_call_are_explained_like_the_call() {
    for name in ["ibv_create_qp", "wrap_ibv_create_qp", "ibv_cmd_create_qp", "ibvCreateQp"] {
        is_about(&format!("plugin.c:12 {name}() failed with 22"), ErrorClass::Creation);
    }
}

#[test]
fn the_object_comes_before_the_error_number() {
    is_about("rdma agent: could not create the completion queue (errno 110)", ErrorClass::Creation);
    is_about("rdma agent: failed: Connection timed out", ErrorClass::NoAnswer);
    is_about("rdma agent: failed: Connection refused", ErrorClass::OutOfBand);
    is_about("rdma agent: failed: No such device", ErrorClass::NoDevice);
    is_about("rdma agent: failed: Operation not permitted", ErrorClass::Restricted);
}

#[test]
fn a_failure_without_a_known_reason_is_named_last() {
    is_about("rdma agent: unexpected value in header", ErrorClass::Other);
    assert_eq!(parse("agent: unexpected value in header"), []);
}

#[test]
fn host_memory_is_not_explained_as_gpu_memory() {
    let line = |kind: &str| {
        format!(
            "UCX  ERROR failed to register address 0x1 ({kind}) length 4096 on md[4]=mlx5_1: Input/output error (md supports: host|cuda)"
        )
    };
    is_about(&line("host"), ErrorClass::Registration);
    is_about(&line("cuda"), ErrorClass::GpuRegistration);
}

#[test]
fn lines_that_inform_are_not_errors() {
    for line in [
        "NCCL INFO NET/IB : peer 3 connection closed, no error",
        "UCX  DEBUG  rdma endpoint 0x1: send timeout set to 10",
        "libfabric:1:2::core:core:ofi_hmem_init():665<info> Hmem iface FI_HMEM_ROCR not supported",
        "rdma test: 128 passed, 0 failed",
    ] {
        assert_eq!(parse(line), [], "{line}");
    }
}

#[test]
fn a_letter_names_the_severity_of_glog() {
    let line =
        |letter: char| format!("{letter}0131 12:00:00.1 7 rdma_context.cpp:9] segment dropped");
    is_about(&line('E'), ErrorClass::Other);
    assert_eq!(parse(&line('I')), []);
    is_about("E20260131 12:00:00.1 7 rdma_context.cpp:9] segment dropped", ErrorClass::Other);
    assert_eq!(parse("I0131 12:00:00.1 7 rdma_context.cpp:9] waiting for the peer's request"), []);
}

#[test]
fn lines_of_a_job_need_no_word_of_rdma() {
    let cases = [
        ("ssh: connect to host node2 port 22: No route to host", ErrorClass::OutOfBand),
        ("Command 'ssh node2 hostname' returned non-zero exit status 255.", ErrorClass::OutOfBand),
        (
            "[Warning] Connecting to rank 1 failed, waiting for 200 milliseconds",
            ErrorClass::OutOfBand,
        ),
        ("raylet: Connection refused", ErrorClass::OutOfBand),
        ("/job:jax_worker/replica:0/task:3 heartbeat timeout", ErrorClass::NoAnswer),
        ("Memory access fault by GPU node-1", ErrorClass::Gpu),
        ("segfault at 40 ip 00007f sp 00007f error 4 in libucp.so.0[7f+1000]", ErrorClass::Other),
    ];
    for (line, class) in cases {
        is_about(line, class);
    }
    for line in [
        "Connecting to the database failed",
        "git@github.com: Permission denied (publickey).",
        "2025-06-12 10:00:00 INFO worker.py:1 -- reconnect of rank 1, connection closed",
        "segfault at 40 ip 00007f sp 00007f error 4 in libc.so.6[7f+1000]",
    ] {
        assert_eq!(parse(line), [], "{line}");
    }
}

#[test]
fn a_program_that_does_not_build_lacks_a_library_not_a_queue() {
    for line in [
        "cm.c:146:9: error: implicit declaration of function 'rdma_init_qp_attr' [-Werror=implicit]",
        "uct/ib/verbs.h:14:30: fatal error: infiniband/verbs.h: No such file or directory",
        "configure: error: 'infiniband/mad.h not found'",
        "a.so: undefined symbol: _ZN12nixlDescListI",
        "RuntimeError: mpi4py is not installed",
    ] {
        is_about(line, ErrorClass::NoLibrary);
    }
}
