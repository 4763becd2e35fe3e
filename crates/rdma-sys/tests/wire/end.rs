//! One end of a connection: an open device, a queue pair, and memory that the peer may access.
//!
//! Unsafe here: `End` owns its objects and frees them in order, the device last. Its memory is
//! registered before anything is posted and outlives the queue pair; work requests are built from
//! its pieces only.
#![allow(unsafe_code, reason = "owns libibverbs' objects for the cases")]

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

/// The RoCE v2 GID of the IPv4 address; index 0 is link-local.
pub(crate) const GID_INDEX: u8 = 1;
const SIZE: usize = 16 * 1024;

/// The type of an end's completion queue.
#[derive(Clone, Copy)]
pub(crate) enum Cq {
    Plain,
    Extended,
}

pub(crate) struct End {
    pub(crate) verbs: &'static Verbs,
    pub(crate) context: *mut ibv_context,
    pub(crate) pd: *mut ibv_pd,
    pub(crate) channel: *mut ibv_comp_channel,
    pub(crate) cq: *mut ibv_cq,
    pub(crate) qp: *mut ibv_qp,
    pub(crate) mr: *mut ibv_mr,
    pub(crate) memory: Box<[u64]>,
}

/// Both ends of the first rail, connected.
pub(crate) fn wire(kind: Cq) -> (End, End) {
    let verbs = Verbs::load(Path::new(SONAME)).unwrap_or_else(|error| panic!("{error}"));
    let verbs: &'static Verbs = Box::leak(Box::new(verbs));
    let (near, far) = (End::open(verbs, "rxe0", kind), End::open(verbs, "rxe1", kind));
    near.connect(&far);
    far.connect(&near);
    (near, far)
}

impl End {
    fn open(verbs: &'static Verbs, device: &str, kind: Cq) -> End {
        let context = open_device(verbs, device);
        // SAFETY: the device is open until `Drop` closes it, after all objects created here.
        let pd = unsafe { verbs.ibv_alloc_pd(context) }.unwrap().as_ptr();
        // SAFETY: the device is open until `Drop` closes it, after the channel.
        let channel = unsafe { verbs.ibv_create_comp_channel(context) }.unwrap().as_ptr();
        let cq = match kind {
            // SAFETY: device and channel are alive until `Drop`, which destroys the queue before them.
            Cq::Plain => unsafe { verbs.ibv_create_cq(context, 64, null_mut(), channel, 0) },
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
        // SAFETY: the memory moves into `End`, whose `Drop` unregisters it first.
        let mr = unsafe { verbs.ibv_reg_mr_iova2(pd, addr, SIZE, addr.addr() as u64, access) };
        let mr = mr.expect("rdma-core 28 or newer").unwrap().as_ptr();
        let qp = create_qp(verbs, context, pd, cq);
        End { verbs, context, pd, channel, cq, qp, mr, memory }
    }

    pub(crate) fn gid(&self) -> ibv_gid {
        let mut gid = ibv_gid::default();
        // SAFETY: the device is open; `gid` is writable.
        unsafe { self.verbs.ibv_query_gid(self.context, 1, GID_INDEX.into(), &mut gid) }.unwrap();
        gid
    }

    /// RESET → INIT → RTR → RTS, towards `peer`.
    fn connect(&self, peer: &End) {
        let mut attr: ibv_qp_attr = zeroed();
        attr.qp_state = IBV_QPS_INIT;
        attr.port_num = 1;
        attr.qp_access_flags =
            IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
        let init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
        self.modify(self.qp, attr, init);

        attr.qp_state = IBV_QPS_RTR;
        attr.path_mtu = IBV_MTU_4096;
        attr.dest_qp_num = peer.qp_num();
        attr.max_dest_rd_atomic = 4;
        attr.min_rnr_timer = 12;
        attr.ah_attr = self.address_of(peer);
        let ready_to_receive = IBV_QP_STATE
            | IBV_QP_AV
            | IBV_QP_PATH_MTU
            | IBV_QP_DEST_QPN
            | IBV_QP_RQ_PSN
            | IBV_QP_MAX_DEST_RD_ATOMIC
            | IBV_QP_MIN_RNR_TIMER;
        self.modify(self.qp, attr, ready_to_receive);

        attr.qp_state = IBV_QPS_RTS;
        attr.timeout = 14;
        attr.retry_cnt = 6;
        attr.rnr_retry = 6;
        attr.max_rd_atomic = 4;
        let ready_to_send = IBV_QP_STATE
            | IBV_QP_TIMEOUT
            | IBV_QP_RETRY_CNT
            | IBV_QP_RNR_RETRY
            | IBV_QP_SQ_PSN
            | IBV_QP_MAX_QP_RD_ATOMIC;
        self.modify(self.qp, attr, ready_to_send);
    }

    pub(crate) fn address_of(&self, peer: &End) -> ibv_ah_attr {
        let mut address: ibv_ah_attr = zeroed();
        address.is_global = 1;
        address.port_num = 1;
        address.grh.dgid = peer.gid();
        address.grh.sgid_index = GID_INDEX;
        address.grh.hop_limit = 64;
        address
    }

    pub(crate) fn modify(&self, qp: *mut ibv_qp, mut attr: ibv_qp_attr, mask: i32) {
        // SAFETY: `qp` is the end's, or a second one that a case created and has not destroyed yet.
        unsafe { self.verbs.ibv_modify_qp(qp, &mut attr, mask) }.unwrap();
    }

    pub(crate) fn qp_num(&self) -> u32 {
        // SAFETY: alive until `Drop`.
        unsafe { (*self.qp).qp_num }
    }

    pub(crate) fn rkey(&self) -> u32 {
        // SAFETY: alive until `Drop`.
        unsafe { (*self.mr).rkey }
    }

    /// `length` bytes of the end's memory, starting at word `word`.
    pub(crate) fn piece(&self, word: usize, length: u32) -> ibv_sge {
        // SAFETY: alive until `Drop`.
        let lkey = unsafe { (*self.mr).lkey };
        ibv_sge { addr: self.address(word), length, lkey }
    }

    pub(crate) fn address(&self, word: usize) -> u64 {
        self.memory[word..].as_ptr().addr() as u64
    }

    /// A word of the end's memory; read as volatile, since the NIC writes it.
    pub(crate) fn word(&self, word: usize) -> u64 {
        // SAFETY: an element of the end's memory.
        unsafe { std::ptr::read_volatile(&self.memory[word]) }
    }

    /// Posts one operation on one piece, signalled.
    pub(crate) fn post(&self, opcode: c_uint, mut piece: ibv_sge, wr: SendTarget, imm: u32) {
        let mut request: ibv_send_wr = zeroed();
        request.wr_id = 42;
        request.opcode = opcode;
        request.sg_list = &mut piece;
        request.num_sge = 1;
        request.imm_data = imm.to_be();
        request.wr = wr;
        self.post_on(self.qp, request);
    }

    /// Posts a request unchanged, but signalled.
    pub(crate) fn post_on(&self, qp: *mut ibv_qp, mut request: ibv_send_wr) {
        request.send_flags = IBV_SEND_SIGNALED;
        // SAFETY: a live queue pair; the request and the piece it points to are alive during the call,
        // and the memory of the piece until `Drop`.
        unsafe { ibv_post_send(qp, &mut request, &mut null_mut()) }.unwrap();
    }

    pub(crate) fn post_receive(&self, piece: ibv_sge) {
        self.post_receive_on(self.qp, piece);
    }

    pub(crate) fn post_receive_on(&self, qp: *mut ibv_qp, mut piece: ibv_sge) {
        let mut request =
            ibv_recv_wr { wr_id: 43, next: null_mut(), sg_list: &mut piece, num_sge: 1 };
        // SAFETY: a live queue pair; the request and its piece are alive during the call, and the memory of the piece until `Drop`.
        unsafe { ibv_post_recv(qp, &mut request, &mut null_mut()) }.unwrap();
    }

    pub(crate) fn completion(&self) -> ibv_wc {
        let mut wc: ibv_wc = zeroed();
        // SAFETY: a live completion queue; space for the one requested completion.
        let mut poll = || unsafe { ibv_poll_cq(self.cq, 1, &mut wc) }.unwrap();
        let limit = Instant::now() + Duration::from_secs(20);
        while poll() == 0 {
            assert!(Instant::now() < limit, "no completion");
        }
        wc
    }

    pub(crate) fn succeeded(&self) -> ibv_wc {
        let wc = self.completion();
        let (request, vendor) = (wc.wr_id, wc.vendor_err);
        assert_eq!(wc.status, IBV_WC_SUCCESS, "work request {request}, vendor error {vendor:#x}");
        wc
    }

    /// The extended queue pair, for the `ibv_wr_*` calls.
    pub(crate) fn extended(&self) -> *mut ibv_qp_ex {
        // SAFETY: alive until `Drop`.
        let extended = unsafe { self.verbs.ibv_qp_to_qp_ex(self.qp) };
        extended.expect("rdma-core 24 or newer").unwrap().as_ptr()
    }

    /// The extended completion queue of an end opened with [`Cq::Extended`].
    pub(crate) fn extended_cq(&self) -> *mut ibv_cq_ex {
        self.cq.cast()
    }
}

impl Drop for End {
    fn drop(&mut self) {
        // After a failed test, its own message must be reported.
        if std::thread::panicking() {
            return;
        }
        // SAFETY: each was created in `open` and is freed here only, in reverse order.
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
    // SAFETY: `count` is writable; the list is freed below, after its last use.
    let list = unsafe { verbs.ibv_get_device_list(&mut count) }.unwrap().as_ptr();
    // SAFETY: the library returned this many entries.
    let devices = unsafe { std::slice::from_raw_parts(list, count as usize) };
    let is_wanted = |device: &&*mut ibv_device| {
        // SAFETY: an entry of the list, with a NUL-terminated name.
        let name = unsafe { CStr::from_ptr(verbs.ibv_get_device_name(**device)) };
        name.to_str() == Ok(wanted)
    };
    let device = devices.iter().find(is_wanted);
    let device = device.unwrap_or_else(|| panic!("no {wanted}: run this in the lab"));
    // SAFETY: an entry of the list.
    let context = unsafe { verbs.ibv_open_device(*device) }.unwrap().as_ptr();
    // SAFETY: returned by `ibv_get_device_list`, freed once.
    unsafe { verbs.ibv_free_device_list(list) };
    context
}

/// An extended completion queue, as the plain one that it begins with.
fn create_cq_ex(
    context: *mut ibv_context,
    channel: *mut ibv_comp_channel,
) -> Result<NonNull<ibv_cq>, Errno> {
    let mut attr: ibv_cq_init_attr_ex = zeroed();
    attr.cqe = 64;
    attr.channel = channel;
    attr.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM;
    // SAFETY: `End::open` passes its open device and channel.
    unsafe { ibv_create_cq_ex(context, &mut attr) }.map(NonNull::cast)
}

/// A reliable queue pair that supports the `ibv_wr_*` calls and `ibv_post_send`.
fn create_qp(
    verbs: &Verbs,
    context: *mut ibv_context,
    pd: *mut ibv_pd,
    cq: *mut ibv_cq,
) -> *mut ibv_qp {
    let mut attr: ibv_qp_init_attr_ex = zeroed();
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
    // SAFETY: `End::open` passes its open device, domain and queue.
    unsafe { ibv_create_qp_ex(verbs, context, &mut attr) }.unwrap().as_ptr()
}

/// A C struct with all fields zero.
pub(crate) fn zeroed<T: Zero>() -> T {
    // SAFETY: `Zero` is implemented below for structs of numbers and pointers only.
    unsafe { std::mem::zeroed() }
}

/// A struct for which all zero bits are a valid value.
pub(crate) trait Zero {}
impl Zero for ibv_ah_attr {}
impl Zero for ibv_async_event {}
impl Zero for ibv_cq_init_attr_ex {}
impl Zero for ibv_device_attr_ex {}
impl Zero for ibv_qp_attr {}
impl Zero for ibv_qp_init_attr {}
impl Zero for ibv_qp_init_attr_ex {}
impl Zero for ibv_send_wr {}
impl Zero for ibv_wc {}
