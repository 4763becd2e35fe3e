//! Real verbs over a real wire: one test per family of calls, through libibverbs as it is.
//!
//! Needs the lab (`cargo xtask lab`): rxe0 and rxe1 are the two ends of a wire there.
//!
//! Unsafe here: a test is the caller that the crate's promises speak of. `End` owns what it made
//! and frees it in order; memory is registered before it is posted and outlives the queue pair.
#![allow(unsafe_code, missing_docs, reason = "a test of a C interface")]
#![allow(clippy::undocumented_unsafe_blocks, reason = "one keeper for all, named above: End")]

use std::ffi::{CStr, c_uint, c_void};
use std::path::Path;
use std::ptr::{NonNull, null_mut};
use std::time::{Duration, Instant};

use rdma_sys::consts::*;
use rdma_sys::device::*;
use rdma_sys::inline::*;
use rdma_sys::objects::*;
use rdma_sys::verbs::SONAME;
use rdma_sys::work::*;
use rdma_sys::{Errno, Verbs};

/// RoCE v2 of the IPv4 address; index 0 is the link-local one.
const GID_INDEX: u8 = 1;
const SIZE: usize = 16 * 1024;

/// Which of the two kinds of completion queue an end has.
#[derive(Clone, Copy)]
enum Cq {
    Plain,
    Extended,
}

/// One end of the wire: an open device, a queue pair, and memory the peer may use.
struct End {
    verbs: &'static Verbs,
    context: *mut ibv_context,
    pd: *mut ibv_pd,
    channel: *mut ibv_comp_channel,
    cq: *mut ibv_cq,
    qp: *mut ibv_qp,
    mr: *mut ibv_mr,
    memory: Box<[u64]>,
}

impl End {
    fn open(verbs: &'static Verbs, device: &str, kind: Cq) -> End {
        let context = open_device(verbs, device);
        unsafe {
            let pd = verbs.ibv_alloc_pd(context).unwrap().as_ptr();
            let channel = verbs.ibv_create_comp_channel(context).unwrap().as_ptr();
            let cq = match kind {
                Cq::Plain => verbs.ibv_create_cq(context, 64, null_mut(), channel, 0),
                Cq::Extended => create_cq_ex(context, channel),
            };
            let cq = cq.unwrap().as_ptr();
            let mut memory = vec![0u64; SIZE / 8].into_boxed_slice();
            let access = IBV_ACCESS_LOCAL_WRITE
                | IBV_ACCESS_REMOTE_WRITE
                | IBV_ACCESS_REMOTE_READ
                | IBV_ACCESS_REMOTE_ATOMIC
                | IBV_ACCESS_MW_BIND
                | IBV_ACCESS_RELAXED_ORDERING;
            let addr = memory.as_mut_ptr().cast::<c_void>();
            let mr = verbs.ibv_reg_mr_iova2(pd, addr, SIZE, addr.addr() as u64, access);
            let mr = mr.expect("rdma-core 28 or newer").unwrap().as_ptr();
            let qp = create_qp(verbs, context, pd, cq);
            End { verbs, context, pd, channel, cq, qp, mr, memory }
        }
    }

    fn gid(&self) -> ibv_gid {
        let mut gid = ibv_gid::default();
        unsafe { self.verbs.ibv_query_gid(self.context, 1, GID_INDEX.into(), &mut gid) }.unwrap();
        gid
    }

    /// RESET → INIT → RTR → RTS, towards `peer`.
    fn connect(&self, peer: &End) {
        let mut attr: ibv_qp_attr = unsafe { std::mem::zeroed() };
        attr.qp_state = IBV_QPS_INIT;
        attr.port_num = 1;
        attr.qp_access_flags =
            IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
        self.modify(attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);

        attr.qp_state = IBV_QPS_RTR;
        attr.path_mtu = IBV_MTU_4096;
        attr.dest_qp_num = unsafe { (*peer.qp).qp_num };
        attr.max_dest_rd_atomic = 4;
        attr.min_rnr_timer = 12;
        attr.ah_attr.is_global = 1;
        attr.ah_attr.port_num = 1;
        attr.ah_attr.grh.dgid = peer.gid();
        attr.ah_attr.grh.sgid_index = GID_INDEX;
        attr.ah_attr.grh.hop_limit = 64;
        self.modify(
            attr,
            IBV_QP_STATE
                | IBV_QP_AV
                | IBV_QP_PATH_MTU
                | IBV_QP_DEST_QPN
                | IBV_QP_RQ_PSN
                | IBV_QP_MAX_DEST_RD_ATOMIC
                | IBV_QP_MIN_RNR_TIMER,
        );

        attr.qp_state = IBV_QPS_RTS;
        attr.timeout = 14;
        attr.retry_cnt = 6;
        attr.rnr_retry = 6;
        attr.max_rd_atomic = 4;
        self.modify(
            attr,
            IBV_QP_STATE
                | IBV_QP_TIMEOUT
                | IBV_QP_RETRY_CNT
                | IBV_QP_RNR_RETRY
                | IBV_QP_SQ_PSN
                | IBV_QP_MAX_QP_RD_ATOMIC,
        );
    }

    fn modify(&self, mut attr: ibv_qp_attr, mask: i32) {
        unsafe { self.verbs.ibv_modify_qp(self.qp, &mut attr, mask) }.unwrap();
    }

    fn extended(&self) -> *mut ibv_qp_ex {
        let extended = unsafe { self.verbs.ibv_qp_to_qp_ex(self.qp) };
        extended.expect("rdma-core 24 or newer").unwrap().as_ptr()
    }

    /// `length` bytes of our memory from word `word` on.
    fn piece(&self, word: usize, length: u32) -> ibv_sge {
        ibv_sge { addr: self.address(word), length, lkey: unsafe { (*self.mr).lkey } }
    }

    fn address(&self, word: usize) -> u64 {
        self.memory[word..].as_ptr().addr() as u64
    }

    fn rkey(&self) -> u32 {
        unsafe { (*self.mr).rkey }
    }

    /// What the NIC left in our memory; volatile, since it writes behind the compiler's back.
    fn word(&self, word: usize) -> u64 {
        unsafe { std::ptr::read_volatile(&self.memory[word]) }
    }

    fn post(&self, opcode: c_uint, mut piece: ibv_sge, wr: SendTarget, imm: u32) {
        let mut request: ibv_send_wr = unsafe { std::mem::zeroed() };
        request.wr_id = 42;
        request.opcode = opcode;
        request.sg_list = &mut piece;
        request.num_sge = 1;
        request.send_flags = IBV_SEND_SIGNALED;
        request.imm_data = imm.to_be();
        request.wr = wr;
        unsafe { ibv_post_send(self.qp, &mut request, &mut null_mut()) }.unwrap();
    }

    fn post_receive(&self, mut piece: ibv_sge) {
        let mut request =
            ibv_recv_wr { wr_id: 43, next: null_mut(), sg_list: &mut piece, num_sge: 1 };
        unsafe { ibv_post_recv(self.qp, &mut request, &mut null_mut()) }.unwrap();
    }

    fn completion(&self) -> ibv_wc {
        let mut wc: ibv_wc = unsafe { std::mem::zeroed() };
        let limit = Instant::now() + Duration::from_secs(20);
        while unsafe { ibv_poll_cq(self.cq, 1, &mut wc) }.unwrap() == 0 {
            assert!(Instant::now() < limit, "no completion");
        }
        wc
    }

    fn succeeded(&self) -> ibv_wc {
        let wc = self.completion();
        let (request, vendor) = (wc.wr_id, wc.vendor_err);
        assert_eq!(wc.status, IBV_WC_SUCCESS, "work request {request}, vendor error {vendor:#x}");
        wc
    }
}

impl Drop for End {
    fn drop(&mut self) {
        // A failed test must be told by its own message.
        if std::thread::panicking() {
            return;
        }
        unsafe {
            self.verbs.ibv_destroy_qp(self.qp).unwrap();
            self.verbs.ibv_dereg_mr(self.mr).unwrap();
            self.verbs.ibv_destroy_cq(self.cq).unwrap();
            self.verbs.ibv_destroy_comp_channel(self.channel).unwrap();
            self.verbs.ibv_dealloc_pd(self.pd).unwrap();
            self.verbs.ibv_close_device(self.context).unwrap();
        }
    }
}

fn open_device(verbs: &Verbs, wanted: &str) -> *mut ibv_context {
    let mut count = 0;
    let list = unsafe { verbs.ibv_get_device_list(&mut count) }.unwrap().as_ptr();
    let devices = unsafe { std::slice::from_raw_parts(list, count as usize) };
    let device = devices
        .iter()
        .find(|device| {
            let name = unsafe { CStr::from_ptr(verbs.ibv_get_device_name(**device)) };
            name.to_str() == Ok(wanted)
        })
        .unwrap_or_else(|| panic!("no {wanted}: run this in the lab"));
    let context = unsafe { verbs.ibv_open_device(*device) }.unwrap().as_ptr();
    unsafe { verbs.ibv_free_device_list(list) };
    context
}

/// An extended completion queue, seen as the plain one it begins with.
fn create_cq_ex(
    context: *mut ibv_context,
    channel: *mut ibv_comp_channel,
) -> Result<NonNull<ibv_cq>, Errno> {
    let mut attr: ibv_cq_init_attr_ex = unsafe { std::mem::zeroed() };
    attr.cqe = 64;
    attr.channel = channel;
    attr.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM;
    unsafe { ibv_create_cq_ex(context, &mut attr) }.map(NonNull::cast)
}

/// A reliable queue pair that has the `ibv_wr_*` calls beside `ibv_post_send`.
fn create_qp(
    verbs: &Verbs,
    context: *mut ibv_context,
    pd: *mut ibv_pd,
    cq: *mut ibv_cq,
) -> *mut ibv_qp {
    let mut attr: ibv_qp_init_attr_ex = unsafe { std::mem::zeroed() };
    attr.send_cq = cq;
    attr.recv_cq = cq;
    attr.cap = ibv_qp_cap {
        max_send_wr: 16,
        max_recv_wr: 16,
        max_send_sge: 2,
        max_recv_sge: 2,
        max_inline_data: 64,
    };
    attr.qp_type = IBV_QPT_RC;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.pd = pd;
    attr.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE
        | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM
        | IBV_QP_EX_WITH_SEND
        | IBV_QP_EX_WITH_SEND_WITH_IMM
        | IBV_QP_EX_WITH_RDMA_READ
        | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP
        | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
    unsafe { ibv_create_qp_ex(verbs, context, &mut attr) }.unwrap().as_ptr()
}

/// Both ends of the first wire, connected.
fn wire() -> (End, End) {
    wire_with(Cq::Plain)
}

fn wire_with(kind: Cq) -> (End, End) {
    let verbs = Verbs::load(Path::new(SONAME)).unwrap_or_else(|error| panic!("{error}"));
    let verbs: &'static Verbs = Box::leak(Box::new(verbs));
    let (near, far) = (End::open(verbs, "rxe0", kind), End::open(verbs, "rxe1", kind));
    near.connect(&far);
    far.connect(&near);
    (near, far)
}

fn rdma(far: &End, word: usize) -> SendTarget {
    SendTarget { rdma: RdmaTarget { remote_addr: far.address(word), rkey: far.rkey() } }
}

fn atomic(far: &End, word: usize, compare_add: u64, swap: u64) -> SendTarget {
    let remote_addr = far.address(word);
    SendTarget { atomic: AtomicTarget { remote_addr, compare_add, swap, rkey: far.rkey() } }
}

#[test]
fn write_and_read() {
    let (mut near, mut far) = wire();
    near.memory[0] = 0xfeed;
    near.post(IBV_WR_RDMA_WRITE, near.piece(0, 8), rdma(&far, 5), 0);
    assert_eq!(near.succeeded().wr_id, 42);
    assert_eq!(far.word(5), 0xfeed);

    far.memory[9] = 0xcafe;
    near.post(IBV_WR_RDMA_READ, near.piece(1, 8), rdma(&far, 9), 0);
    let wc = near.succeeded();
    assert_eq!(wc.opcode, IBV_WC_RDMA_READ);
    assert_eq!(near.word(1), 0xcafe);
}

#[test]
fn write_with_immediate_and_send() {
    let (mut near, far) = wire();
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
    let (near, mut far) = wire();
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
    let (mut near, mut far) = wire();
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
        (*qp).wr_id = 5;
        ibv_wr_atomic_cmp_swp(qp, far.rkey(), far.address(10), 50, 51);
        ibv_wr_set_sge(qp, piece.lkey, near.address(3), 8);
        (*qp).wr_id = 6;
        ibv_wr_rdma_write_imm(qp, far.rkey(), far.address(6), 66u32.to_be());
        ibv_wr_set_sge(qp, piece.lkey, piece.addr, piece.length);
        (*qp).wr_id = 7;
        ibv_wr_send(qp);
        ibv_wr_set_sge(qp, piece.lkey, piece.addr, piece.length);
        (*qp).wr_id = 4;
        // The manual does not ask for the inline flag here, but soft-RoCE does (rdma-core 44).
        (*qp).wr_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
        ibv_wr_send_imm(qp, 77u32.to_be());
        ibv_wr_set_inline_data(qp, inline.as_mut_ptr().cast(), inline.len());
        ibv_wr_complete(qp).unwrap();
    }
    assert_eq!(near.succeeded().wr_id, 4, "only the last was signalled");
    assert_eq!(far.word(4), 11);
    assert_eq!(near.word(1), 22);
    assert_eq!((near.word(2), far.word(9)), (30, 33));
    assert_eq!((near.word(3), far.word(10)), (50, 51));
    assert_eq!(u32::from_be(far.succeeded().imm_data), 66);
    assert_eq!(far.word(6), 11);
    assert_eq!((far.succeeded().opcode, far.word(24)), (IBV_WC_RECV, 11));
    assert_eq!(u32::from_be(far.succeeded().imm_data), 77);
    assert_eq!(far.word(32).to_ne_bytes(), *b"inlined!");

    unsafe {
        ibv_wr_start(qp);
        ibv_wr_rdma_write(qp, far.rkey(), far.address(40));
        ibv_wr_set_sge(qp, piece.lkey, piece.addr, piece.length);
        ibv_wr_abort(qp);
    }
    near.post(IBV_WR_RDMA_WRITE, near.piece(0, 8), rdma(&far, 41), 0);
    near.succeeded();
    assert_eq!((far.word(40), far.word(41)), (0, 11), "what was aborted never went");
}

#[test]
fn datagrams() {
    const QKEY: u32 = 0x1111;
    let (near, far) = wire();
    let datagram_qp = |end: &End| {
        let mut init: ibv_qp_init_attr = unsafe { std::mem::zeroed() };
        (init.send_cq, init.recv_cq, init.qp_type) = (end.cq, end.cq, IBV_QPT_UD);
        (init.cap.max_send_wr, init.cap.max_recv_wr) = (4, 4);
        (init.cap.max_send_sge, init.cap.max_recv_sge) = (1, 1);
        let qp = unsafe { end.verbs.ibv_create_qp(end.pd, &mut init) }.unwrap().as_ptr();
        let mut attr: ibv_qp_attr = unsafe { std::mem::zeroed() };
        (attr.port_num, attr.qkey) = (1, QKEY);
        for (state, mask) in [
            (IBV_QPS_INIT, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
            (IBV_QPS_RTR, IBV_QP_STATE),
            (IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_SQ_PSN),
        ] {
            attr.qp_state = state;
            unsafe { end.verbs.ibv_modify_qp(qp, &mut attr, mask) }.unwrap();
        }
        qp
    };
    let (from, to) = (datagram_qp(&near), datagram_qp(&far));
    assert_eq!(
        unsafe { near.verbs.ibv_qp_to_qp_ex(from) }.expect("rdma-core 24 or newer").err(),
        Some(Errno(95)), // EOPNOTSUPP
    );

    let mut address: ibv_ah_attr = unsafe { std::mem::zeroed() };
    (address.is_global, address.port_num) = (1, 1);
    (address.grh.dgid, address.grh.sgid_index, address.grh.hop_limit) = (far.gid(), GID_INDEX, 64);
    let ah = unsafe { near.verbs.ibv_create_ah(near.pd, &mut address) }.unwrap().as_ptr();
    let mut room = far.piece(0, 40 + 64);
    let mut receive = ibv_recv_wr { wr_id: 1, next: null_mut(), sg_list: &mut room, num_sge: 1 };
    unsafe { ibv_post_recv(to, &mut receive, &mut null_mut()) }.unwrap();
    let mut piece = near.piece(0, 16);
    let mut send: ibv_send_wr = unsafe { std::mem::zeroed() };
    (send.opcode, send.send_flags) = (IBV_WR_SEND, IBV_SEND_SIGNALED);
    (send.sg_list, send.num_sge) = (&mut piece, 1);
    send.wr.ud = UdTarget { ah, remote_qpn: unsafe { (*to).qp_num }, remote_qkey: QKEY };
    unsafe { ibv_post_send(from, &mut send, &mut null_mut()) }.unwrap();
    near.succeeded();
    let arrived = far.succeeded();
    assert_eq!(arrived.byte_len, 40 + 16, "a datagram arrives behind its global header");
    assert_ne!(arrived.wc_flags & IBV_WC_GRH, 0);
    assert_eq!(arrived.src_qp, unsafe { (*from).qp_num });
    unsafe {
        near.verbs.ibv_destroy_ah(ah).unwrap();
        near.verbs.ibv_destroy_qp(from).unwrap();
        far.verbs.ibv_destroy_qp(to).unwrap();
    }
}

#[test]
fn a_memory_window_opens_and_closes() {
    let (near, mut far) = wire();
    far.memory[8] = 88;
    let mw = unsafe { ibv_alloc_mw(far.pd, IBV_MW_TYPE_2) }.unwrap().as_ptr();
    let window_key = unsafe { (*mw).rkey } + 1;
    let mut bind: ibv_send_wr = unsafe { std::mem::zeroed() };
    (bind.opcode, bind.send_flags) = (IBV_WR_BIND_MW, IBV_SEND_SIGNALED);
    bind.bind_mw = BindMw {
        mw,
        rkey: window_key,
        bind_info: ibv_mw_bind_info {
            mr: far.mr,
            addr: far.address(8),
            length: 8,
            mw_access_flags: IBV_ACCESS_REMOTE_READ,
        },
    };
    unsafe { ibv_post_send(far.qp, &mut bind, &mut null_mut()) }.unwrap();
    far.succeeded();
    let window = SendTarget { rdma: RdmaTarget { remote_addr: far.address(8), rkey: window_key } };
    near.post(IBV_WR_RDMA_READ, near.piece(0, 8), window, 0);
    near.succeeded();
    assert_eq!(near.word(0), 88);

    let mut close: ibv_send_wr = unsafe { std::mem::zeroed() };
    (close.opcode, close.send_flags, close.imm_data) =
        (IBV_WR_LOCAL_INV, IBV_SEND_SIGNALED, window_key);
    unsafe { ibv_post_send(far.qp, &mut close, &mut null_mut()) }.unwrap();
    far.succeeded();
    near.post(IBV_WR_RDMA_READ, near.piece(1, 8), window, 0);
    assert_eq!(near.completion().status, IBV_WC_REM_ACCESS_ERR);
    unsafe { ibv_dealloc_mw(mw) }.unwrap();
}

#[test]
fn small_calls() {
    let (near, _far) = wire();
    let (verbs, context) = (near.verbs, near.context);
    let mut pkey = 0;
    unsafe { verbs.ibv_query_pkey(context, 1, 0, &mut pkey) }.unwrap();
    assert_eq!(u16::from_be(pkey), 0xffff, "the default partition");
    assert_eq!(unsafe { verbs.ibv_get_pkey_index(context, 1, pkey) }, Some(Ok(0)));

    let mut memory = vec![0u8; 4096];
    let addr = memory.as_mut_ptr().cast();
    let mr = unsafe { verbs.ibv_reg_mr(near.pd, addr, 4096, 0) }.unwrap().as_ptr();
    assert_eq!(unsafe { (*mr).length }, 4096);
    unsafe { verbs.ibv_dereg_mr(mr) }.unwrap();

    // What NCCL asks to learn whether dma-buf works here: no such file is "yes", and so far "no".
    let no_file = unsafe { verbs.ibv_reg_dmabuf_mr(near.pd, 0, 4096, 0, -1, 0) };
    let errno = no_file.expect("rdma-core 34 or newer").unwrap_err().0;
    assert!(matches!(errno, 9 | 95 | 93), "EBADF, EOPNOTSUPP or EPROTONOSUPPORT: {errno}");

    let mut attr: ibv_device_attr_ex = unsafe { std::mem::zeroed() };
    unsafe { ibv_query_device_ex(verbs, context, &mut attr) }.unwrap();
    assert_eq!(attr.orig_attr.phys_port_cnt, 1);
}

#[test]
fn a_cut_wire_is_an_event() {
    let (near, _far) = wire();
    let cut_and_mended = |verb: &str| std::process::Command::new("wire").args([verb, "0"]).status();
    assert!(cut_and_mended("cut").expect("wire runs").success());
    assert!(cut_and_mended("mend").expect("wire runs").success());
    let mut seen = Vec::new();
    while !seen.contains(&IBV_EVENT_PORT_ACTIVE) {
        let mut event: ibv_async_event = unsafe { std::mem::zeroed() };
        unsafe { near.verbs.ibv_get_async_event(near.context, &mut event) }.unwrap();
        seen.push(event.event_type);
        unsafe { near.verbs.ibv_ack_async_event(&mut event) };
    }
    assert!(seen.contains(&IBV_EVENT_PORT_ERR), "{seen:?}");
}

#[test]
fn a_completion_queue_read_field_by_field() {
    const EMPTY: Result<(), Errno> = Err(Errno(2)); // ENOENT
    let (near, far) = wire_with(Cq::Extended);
    let cq = near.cq.cast::<ibv_cq_ex>();
    let mut poll = ibv_poll_cq_attr { comp_mask: 0 };
    assert_eq!(unsafe { ibv_start_poll(cq, &mut poll) }, EMPTY);

    near.post(IBV_WR_RDMA_WRITE, near.piece(0, 24), rdma(&far, 0), 0);
    let limit = Instant::now() + Duration::from_secs(20);
    while unsafe { ibv_start_poll(cq, &mut poll) }.is_err() {
        assert!(Instant::now() < limit, "no completion");
    }
    unsafe {
        assert_eq!(((*cq).status, (*cq).wr_id), (IBV_WC_SUCCESS, 42));
        assert_eq!(ibv_wc_read_opcode(cq), IBV_WC_RDMA_WRITE);
        assert_eq!(ibv_wc_read_qp_num(cq), (*near.qp).qp_num);
        assert_eq!(ibv_wc_read_vendor_err(cq), 0);
        assert_eq!(ibv_next_poll(cq), EMPTY);
        ibv_end_poll(cq);
    }

    let far_cq = far.cq.cast::<ibv_cq_ex>();
    far.post_receive(far.piece(0, 64));
    near.post(IBV_WR_SEND_WITH_IMM, near.piece(0, 24), rdma(&far, 0), 0x77);
    while unsafe { ibv_start_poll(far_cq, &mut poll) }.is_err() {
        assert!(Instant::now() < limit, "no completion");
    }
    unsafe {
        assert_eq!(ibv_wc_read_opcode(far_cq), IBV_WC_RECV);
        assert_eq!(ibv_wc_read_byte_len(far_cq), 24);
        assert_eq!(u32::from_be(ibv_wc_read_imm_data(far_cq)), 0x77);
        assert_ne!(ibv_wc_read_wc_flags(far_cq) & IBV_WC_WITH_IMM, 0);
        ibv_end_poll(far_cq);
    }
}

#[test]
fn a_sleeper_is_woken_by_the_event_channel() {
    let (near, far) = wire();
    unsafe { ibv_req_notify_cq(far.cq, 0) }.unwrap();
    far.post_receive(far.piece(0, 64));
    near.post(IBV_WR_SEND, near.piece(0, 8), rdma(&far, 0), 0);
    let (mut cq, mut context) = (null_mut(), null_mut());
    unsafe { far.verbs.ibv_get_cq_event(far.channel, &mut cq, &mut context) }.unwrap();
    assert_eq!(cq, far.cq);
    unsafe { far.verbs.ibv_ack_cq_events(cq, 1) };
    far.succeeded();
}

#[test]
fn a_wrong_key_is_refused_and_both_ends_stop() {
    let (near, mut far) = wire();
    far.memory[0] = 5;
    let wrong = SendTarget {
        rdma: RdmaTarget { remote_addr: far.address(0), rkey: far.rkey() ^ 0x0101_0100 },
    };
    near.post(IBV_WR_RDMA_WRITE, near.piece(0, 8), wrong, 0);
    assert_eq!(near.completion().status, IBV_WC_REM_ACCESS_ERR);
    assert_eq!(far.word(0), 5);
    let (mut attr, mut init): (ibv_qp_attr, ibv_qp_init_attr) = unsafe { std::mem::zeroed() };
    unsafe { near.verbs.ibv_query_qp(near.qp, &mut attr, IBV_QP_STATE, &mut init) }.unwrap();
    assert_eq!(attr.qp_state, IBV_QPS_ERR);
}

#[test]
fn a_shared_receive_queue() {
    let (_near, far) = wire();
    let mut attr = ibv_srq_init_attr {
        srq_context: null_mut(),
        attr: ibv_srq_attr { max_wr: 8, max_sge: 1, srq_limit: 0 },
    };
    let srq = unsafe { far.verbs.ibv_create_srq(far.pd, &mut attr) }.unwrap().as_ptr();
    let mut piece = far.piece(0, 64);
    let mut request = ibv_recv_wr { wr_id: 1, next: null_mut(), sg_list: &mut piece, num_sge: 1 };
    unsafe { ibv_post_srq_recv(srq, &mut request, &mut null_mut()) }.unwrap();
    let mut limit = ibv_srq_attr { max_wr: 0, max_sge: 0, srq_limit: 1 };
    unsafe { far.verbs.ibv_modify_srq(srq, &mut limit, IBV_SRQ_LIMIT as i32) }.unwrap();
    unsafe { far.verbs.ibv_destroy_srq(srq) }.unwrap();
}
