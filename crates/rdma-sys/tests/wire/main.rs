//! libibverbs over soft-RoCE: one test per family of calls.
//!
//! Needs the lab (`cargo xtask lab`): rxe0 and rxe1 are the two ends of a wire there. The tests share
//! the wire, so run with `--test-threads=1`, as `cargo xtask test` does.
//!
//! Unsafe here: the calls under test, on the live objects of an [`End`].
#![allow(unsafe_code, missing_docs, reason = "a test of a C interface")]

mod end;

use std::process::Command;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use end::{Cq, End, wire, zeroed};
use rdma_sys::Errno;
use rdma_sys::consts::*;
use rdma_sys::device::*;
use rdma_sys::inline::*;
use rdma_sys::objects::*;
use rdma_sys::work::*;

fn rdma(far: &End, word: usize) -> SendTarget {
    SendTarget { rdma: RdmaTarget { remote_addr: far.address(word), rkey: far.rkey() } }
}

fn atomic(far: &End, word: usize, compare_add: u64, swap: u64) -> SendTarget {
    let remote_addr = far.address(word);
    SendTarget { atomic: AtomicTarget { remote_addr, compare_add, swap, rkey: far.rkey() } }
}

#[test]
fn write_and_read() {
    let (mut near, mut far) = wire(Cq::Plain);
    near.memory[0] = 0xfeed;
    near.post(IBV_WR_RDMA_WRITE, near.piece(0, 8), rdma(&far, 5), 0);
    assert_eq!(near.succeeded().wr_id, 42);
    assert_eq!(far.word(5), 0xfeed);

    far.memory[9] = 0xcafe;
    near.post(IBV_WR_RDMA_READ, near.piece(1, 8), rdma(&far, 9), 0);
    assert_eq!(near.succeeded().opcode, IBV_WC_RDMA_READ);
    assert_eq!(near.word(1), 0xcafe);
}

#[test]
fn write_with_immediate_and_send() {
    let (mut near, far) = wire(Cq::Plain);
    near.memory[0] = 7;
    far.post_receive(far.piece(0, 0));
    near.post(IBV_WR_RDMA_WRITE_WITH_IMM, near.piece(0, 8), rdma(&far, 3), 0x1234);
    near.succeeded();
    let arrived = far.succeeded();
    assert_eq!(arrived.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    assert_eq!(u32::from_be(arrived.imm_data), 0x1234);
    assert_ne!(arrived.wc_flags & IBV_WC_WITH_IMM, 0);
    assert_eq!(far.word(3), 7);

    far.post_receive(far.piece(16, 64));
    near.post(IBV_WR_SEND, near.piece(0, 16), rdma(&far, 0), 0);
    near.succeeded();
    let arrived = far.succeeded();
    assert_eq!((arrived.opcode, arrived.byte_len, arrived.wr_id), (IBV_WC_RECV, 16, 43));
    assert_eq!(far.word(16), 7);
}

#[test]
fn atomics() {
    let (near, mut far) = wire(Cq::Plain);
    far.memory[0] = 40;
    near.post(IBV_WR_ATOMIC_FETCH_AND_ADD, near.piece(0, 8), atomic(&far, 0, 2, 0), 0);
    near.succeeded();
    assert_eq!((near.word(0), far.word(0)), (40, 42));
    near.post(IBV_WR_ATOMIC_CMP_AND_SWP, near.piece(1, 8), atomic(&far, 0, 42, 99), 0);
    near.succeeded();
    assert_eq!((near.word(1), far.word(0)), (42, 99));
    near.post(IBV_WR_ATOMIC_CMP_AND_SWP, near.piece(1, 8), atomic(&far, 0, 42, 7), 0);
    near.succeeded();
    assert_eq!((near.word(1), far.word(0)), (99, 99), "a failed compare changes nothing");
}

#[test]
fn the_extended_work_requests() {
    let (mut near, mut far) = wire(Cq::Plain);
    near.memory[0] = 11;
    far.memory[8] = 22;
    far.memory[9] = 30;
    far.memory[10] = 50;
    for word in [16, 24, 32] {
        far.post_receive(far.piece(word, 64));
    }
    let qp = near.extended();
    let piece = near.piece(0, 8);
    let mut inline = *b"inlined!";
    // SAFETY: the queue pair was created with these operations; every piece is registered memory of an
    // end that is alive until the end of the test, and the inline data is copied immediately.
    unsafe {
        ibv_wr_start(qp);
        (*qp).wr_flags = 0;
        (*qp).wr_id = 1;
        ibv_wr_rdma_write(qp, far.rkey(), far.address(4));
        ibv_wr_set_sge(qp, piece.lkey, piece.addr, piece.length);
        (*qp).wr_id = 2;
        ibv_wr_rdma_read(qp, far.rkey(), far.address(8));
        ibv_wr_set_sge(qp, piece.lkey, near.address(1), 8);
        (*qp).wr_id = 3;
        ibv_wr_atomic_fetch_add(qp, far.rkey(), far.address(9), 3);
        ibv_wr_set_sge_list(qp, 1, &near.piece(2, 8));
        (*qp).wr_id = 4;
        ibv_wr_atomic_cmp_swp(qp, far.rkey(), far.address(10), 50, 51);
        ibv_wr_set_sge(qp, piece.lkey, near.address(3), 8);
        (*qp).wr_id = 5;
        ibv_wr_rdma_write_imm(qp, far.rkey(), far.address(6), 66u32.to_be());
        ibv_wr_set_sge(qp, piece.lkey, piece.addr, piece.length);
        (*qp).wr_id = 6;
        ibv_wr_send(qp);
        ibv_wr_set_sge(qp, piece.lkey, piece.addr, piece.length);
        (*qp).wr_id = 7;
        // The manual does not require the inline flag here, but soft-RoCE does (rdma-core 44).
        (*qp).wr_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
        ibv_wr_send_imm(qp, 77u32.to_be());
        ibv_wr_set_inline_data(qp, inline.as_mut_ptr().cast(), inline.len());
        ibv_wr_complete(qp).unwrap();
    }
    assert_eq!(near.succeeded().wr_id, 7, "only the last was signalled");
    assert_eq!(far.word(4), 11);
    assert_eq!(near.word(1), 22);
    assert_eq!((near.word(2), far.word(9)), (30, 33));
    assert_eq!((near.word(3), far.word(10)), (50, 51));
    assert_eq!(u32::from_be(far.succeeded().imm_data), 66);
    assert_eq!(far.word(6), 11);
    assert_eq!((far.succeeded().opcode, far.word(24)), (IBV_WC_RECV, 11));
    assert_eq!(u32::from_be(far.succeeded().imm_data), 77);
    assert_eq!(far.word(32).to_ne_bytes(), *b"inlined!");
}

#[test]
fn aborted_work_requests_are_not_posted() {
    let (mut near, far) = wire(Cq::Plain);
    near.memory[0] = 11;
    let (qp, piece) = (near.extended(), near.piece(0, 8));
    // SAFETY: the queue pair was created with these operations; the piece is registered memory of an end that is alive until the
    // end of the test.
    unsafe {
        ibv_wr_start(qp);
        ibv_wr_rdma_write(qp, far.rkey(), far.address(40));
        ibv_wr_set_sge(qp, piece.lkey, piece.addr, piece.length);
        ibv_wr_abort(qp);
    }
    near.post(IBV_WR_RDMA_WRITE, near.piece(0, 8), rdma(&far, 41), 0);
    near.succeeded();
    assert_eq!((far.word(40), far.word(41)), (0, 11));
}

#[test]
fn a_completion_queue_read_field_by_field() {
    const EMPTY: Result<(), Errno> = Err(Errno(2)); // ENOENT
    let (near, far) = wire(Cq::Extended);
    let (cq, far_cq) = (near.extended_cq(), far.extended_cq());
    let mut poll = ibv_poll_cq_attr { comp_mask: 0 };
    // SAFETY: a live extended queue, here and below.
    let mut start = |cq| unsafe { ibv_start_poll(cq, &mut poll) };
    assert_eq!(start(cq), EMPTY);
    let mut wait = |cq| {
        let limit = Instant::now() + Duration::from_secs(20);
        while start(cq).is_err() {
            assert!(Instant::now() < limit, "no completion");
        }
    };

    near.post(IBV_WR_RDMA_WRITE, near.piece(0, 24), rdma(&far, 0), 0);
    wait(cq);
    // SAFETY: polling was started, so there is a completion to read.
    unsafe {
        assert_eq!(((*cq).status, (*cq).wr_id), (IBV_WC_SUCCESS, 42));
        assert_eq!(ibv_wc_read_opcode(cq), IBV_WC_RDMA_WRITE);
        assert_eq!(ibv_wc_read_qp_num(cq), near.qp_num());
        assert_eq!(ibv_wc_read_vendor_err(cq), 0);
        assert_eq!(ibv_next_poll(cq), EMPTY);
        ibv_end_poll(cq);
    }

    far.post_receive(far.piece(0, 64));
    near.post(IBV_WR_SEND_WITH_IMM, near.piece(0, 24), rdma(&far, 0), 0x77);
    wait(far_cq);
    // SAFETY: polling of this queue was started too, so there is a completion to read.
    unsafe {
        assert_eq!(ibv_wc_read_opcode(far_cq), IBV_WC_RECV);
        assert_eq!(ibv_wc_read_byte_len(far_cq), 24);
        assert_eq!(u32::from_be(ibv_wc_read_imm_data(far_cq)), 0x77);
        assert_ne!(ibv_wc_read_wc_flags(far_cq) & IBV_WC_WITH_IMM, 0);
        ibv_end_poll(far_cq);
    }
}

#[test]
fn the_event_channel_wakes_a_waiting_thread() {
    let (near, far) = wire(Cq::Plain);
    // SAFETY: a live queue.
    unsafe { ibv_req_notify_cq(far.cq, 0) }.unwrap();
    far.post_receive(far.piece(0, 64));
    near.post(IBV_WR_SEND, near.piece(0, 8), rdma(&far, 0), 0);
    let (mut cq, mut context) = (null_mut(), null_mut());
    // SAFETY: a live channel; both places are writable.
    unsafe { far.verbs.ibv_get_cq_event(far.channel, &mut cq, &mut context) }.unwrap();
    assert_eq!(cq, far.cq);
    // SAFETY: the event taken above.
    unsafe { far.verbs.ibv_ack_cq_events(cq, 1) };
    far.succeeded();
}

#[test]
fn a_wrong_key_is_refused_and_the_queue_pair_stops() {
    let (near, mut far) = wire(Cq::Plain);
    far.memory[0] = 5;
    let rkey = far.rkey() ^ 0x0101_0100;
    let wrong = SendTarget { rdma: RdmaTarget { remote_addr: far.address(0), rkey } };
    near.post(IBV_WR_RDMA_WRITE, near.piece(0, 8), wrong, 0);
    assert_eq!(near.completion().status, IBV_WC_REM_ACCESS_ERR);
    assert_eq!(far.word(0), 5);
    let (mut attr, mut init): (ibv_qp_attr, ibv_qp_init_attr) = (zeroed(), zeroed());
    // SAFETY: a live queue pair; both structs are writable.
    unsafe { near.verbs.ibv_query_qp(near.qp, &mut attr, IBV_QP_STATE, &mut init) }.unwrap();
    assert_eq!(attr.qp_state, IBV_QPS_ERR);
}

/// Changes the wire between both devices, with the lab's `wire` command.
fn set_wire(arguments: &[&str]) {
    assert!(Command::new("wire").args(arguments).status().expect("wire runs").success());
}

#[test]
fn a_write_over_a_wire_that_loses_everything_fails() {
    let (mut near, far) = wire(Cq::Plain);
    near.memory[0] = 1;
    set_wire(&["loss", "0", "100%"]);
    near.post(IBV_WR_RDMA_WRITE, near.piece(0, 8), rdma(&far, 0), 0);
    let status = near.completion().status;
    set_wire(&["repair", "0"]);
    // On soft-RoCE the following flush may be reported first.
    assert!(matches!(status, IBV_WC_RETRY_EXC_ERR | IBV_WC_WR_FLUSH_ERR), "status {status}");
    assert_eq!(far.word(0), 0);
}

#[test]
fn a_shared_receive_queue() {
    let (_near, far) = wire(Cq::Plain);
    let mut attr = ibv_srq_init_attr {
        srq_context: null_mut(),
        attr: ibv_srq_attr { max_wr: 8, max_sge: 1, srq_limit: 0 },
    };
    let mut piece = far.piece(0, 64);
    let mut request = ibv_recv_wr { wr_id: 1, next: null_mut(), sg_list: &mut piece, num_sge: 1 };
    let mut limit = ibv_srq_attr { max_wr: 0, max_sge: 0, srq_limit: 1 };
    // SAFETY: the domain is alive; the shared queue is destroyed here, before its memory is freed.
    unsafe {
        let srq = far.verbs.ibv_create_srq(far.pd, &mut attr).unwrap().as_ptr();
        ibv_post_srq_recv(srq, &mut request, &mut null_mut()).unwrap();
        far.verbs.ibv_modify_srq(srq, &mut limit, IBV_SRQ_LIMIT as i32).unwrap();
        far.verbs.ibv_destroy_srq(srq).unwrap();
    }
}

#[test]
fn datagrams() {
    const QKEY: u32 = 0x1111;
    let (near, far) = wire(Cq::Plain);
    let (from, to) = (datagram_qp(&near, QKEY), datagram_qp(&far, QKEY));
    // SAFETY: a live queue pair, created by `ibv_create_qp`.
    let extended = unsafe { near.verbs.ibv_qp_to_qp_ex(from) };
    assert_eq!(extended.expect("rdma-core 24 or newer").err(), Some(Errno(95))); // EOPNOTSUPP

    // SAFETY: the domain is alive; destroyed below, after its last use.
    let ah = unsafe { near.verbs.ibv_create_ah(near.pd, &mut near.address_of(&far)) };
    let ah = ah.unwrap().as_ptr();
    far.post_receive_on(to, far.piece(0, 40 + 64));
    let mut piece = near.piece(0, 16);
    let mut send: ibv_send_wr = zeroed();
    send.opcode = IBV_WR_SEND;
    (send.sg_list, send.num_sge) = (&mut piece, 1);
    // SAFETY: a live queue pair.
    let remote_qpn = unsafe { (*to).qp_num };
    send.wr.ud = UdTarget { ah, remote_qpn, remote_qkey: QKEY };
    near.post_on(from, send);
    near.succeeded();
    let arrived = far.succeeded();
    assert_eq!(arrived.byte_len, 40 + 16, "a datagram arrives after its global header");
    assert_ne!(arrived.wc_flags & IBV_WC_GRH, 0);
    // SAFETY: each was created above and is freed once; a live queue pair is read first.
    unsafe {
        assert_eq!(arrived.src_qp, (*from).qp_num);
        near.verbs.ibv_destroy_ah(ah).unwrap();
        near.verbs.ibv_destroy_qp(from).unwrap();
        far.verbs.ibv_destroy_qp(to).unwrap();
    }
}

fn datagram_qp(end: &End, qkey: u32) -> *mut ibv_qp {
    let mut init: ibv_qp_init_attr = zeroed();
    (init.send_cq, init.recv_cq, init.qp_type) = (end.cq, end.cq, IBV_QPT_UD);
    (init.cap.max_send_wr, init.cap.max_recv_wr) = (4, 4);
    (init.cap.max_send_sge, init.cap.max_recv_sge) = (1, 1);
    // SAFETY: the domain and the queues are alive.
    let qp = unsafe { end.verbs.ibv_create_qp(end.pd, &mut init) }.unwrap().as_ptr();
    let mut attr: ibv_qp_attr = zeroed();
    (attr.port_num, attr.qkey) = (1, qkey);
    for (state, mask) in [
        (IBV_QPS_INIT, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
        (IBV_QPS_RTR, IBV_QP_STATE),
        (IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_SQ_PSN),
    ] {
        attr.qp_state = state;
        end.modify(qp, attr, mask);
    }
    qp
}

#[test]
fn a_memory_window_opens_and_closes() {
    let (near, mut far) = wire(Cq::Plain);
    far.memory[8] = 88;
    // SAFETY: the domain is alive; freed at the end of the case.
    let mw = unsafe { ibv_alloc_mw(far.pd, IBV_MW_TYPE_2) }.unwrap().as_ptr();
    // SAFETY: alive until freed below.
    let rkey = unsafe { (*mw).rkey } + 1;
    let mut bind: ibv_send_wr = zeroed();
    bind.opcode = IBV_WR_BIND_MW;
    let bind_info = ibv_mw_bind_info {
        mr: far.mr,
        addr: far.address(8),
        length: 8,
        mw_access_flags: IBV_ACCESS_REMOTE_READ,
    };
    bind.bind_mw = BindMw { mw, rkey, bind_info };
    far.post_on(far.qp, bind);
    far.succeeded();
    let window = SendTarget { rdma: RdmaTarget { remote_addr: far.address(8), rkey } };
    near.post(IBV_WR_RDMA_READ, near.piece(0, 8), window, 0);
    near.succeeded();
    assert_eq!(near.word(0), 88);

    let mut close: ibv_send_wr = zeroed();
    (close.opcode, close.imm_data) = (IBV_WR_LOCAL_INV, rkey);
    far.post_on(far.qp, close);
    far.succeeded();
    near.post(IBV_WR_RDMA_READ, near.piece(1, 8), window, 0);
    assert_eq!(near.completion().status, IBV_WC_REM_ACCESS_ERR);
    // SAFETY: created above, freed once.
    unsafe { ibv_dealloc_mw(mw) }.unwrap();
}

#[test]
fn small_calls() {
    let (near, _far) = wire(Cq::Plain);
    let (verbs, context) = (near.verbs, near.context);
    let mut pkey = 0;
    // SAFETY: the device is open; `pkey` is writable.
    unsafe { verbs.ibv_query_pkey(context, 1, 0, &mut pkey) }.unwrap();
    assert_eq!(u16::from_be(pkey), 0xffff, "the default partition");
    // SAFETY: the device is open.
    assert_eq!(unsafe { verbs.ibv_get_pkey_index(context, 1, pkey) }, Some(Ok(0)));

    let mut memory = vec![0u8; 4096];
    let addr = memory.as_mut_ptr().cast();
    // SAFETY: the domain is alive, and the memory longer than its registration.
    unsafe {
        let mr = verbs.ibv_reg_mr(near.pd, addr, 4096, 0).unwrap().as_ptr();
        assert_eq!((*mr).length, 4096);
        verbs.ibv_dereg_mr(mr).unwrap();
    }

    // As NCCL probes for dma-buf support: EBADF means supported, the others mean not supported.
    // SAFETY: the domain is alive.
    let no_file = unsafe { verbs.ibv_reg_dmabuf_mr(near.pd, 0, 4096, 0, -1, 0) };
    let errno = no_file.expect("rdma-core 34 or newer").unwrap_err().0;
    assert!(matches!(errno, 9 | 95 | 93), "EBADF, EOPNOTSUPP or EPROTONOSUPPORT: {errno}");

    let mut attr: ibv_device_attr_ex = zeroed();
    // SAFETY: the device is open; `attr` is writable.
    unsafe { ibv_query_device_ex(verbs, context, &mut attr) }.unwrap();
    assert_eq!(attr.orig_attr.phys_port_cnt, 1);
}

#[test]
fn a_cut_wire_raises_an_event() {
    let (near, _far) = wire(Cq::Plain);
    set_wire(&["cut", "0"]);
    set_wire(&["repair", "0"]);
    let mut seen = Vec::new();
    while !seen.contains(&IBV_EVENT_PORT_ACTIVE) {
        let mut event: ibv_async_event = zeroed();
        // SAFETY: the device is open; `event` is writable, and acknowledged once.
        unsafe {
            near.verbs.ibv_get_async_event(near.context, &mut event).unwrap();
            near.verbs.ibv_ack_async_event(&mut event);
        }
        seen.push(event.event_type);
    }
    assert!(seen.contains(&IBV_EVENT_PORT_ERR), "{seen:?}");
}
