//! One end of a connection: an open provider with an endpoint, and memory that the peer may access.
//!
//! Unsafe here: `End` owns its objects and closes them in order, the fabric last. Its memory is
//! registered before anything is posted and outlives the endpoint; operations use only pieces of it,
//! and contexts that `End` owns too.
#![allow(unsafe_code, reason = "owns libfabric's objects for the cases")]

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ffi::{CStr, CString, c_int, c_void};
use std::mem::zeroed;
use std::ptr::{NonNull, null, null_mut};
use std::time::{Duration, Instant};

use rdma_sys::ofi::consts::*;
use rdma_sys::ofi::info::*;
use rdma_sys::ofi::inline::*;
use rdma_sys::ofi::objects::*;
use rdma_sys::ofi::work::*;
use rdma_sys::ofi::{Ofi, fi_addr_t};
use rdma_sys::{Errno, LoadError};

const SIZE: usize = 64 * 1024;

pub(crate) struct End {
    ofi: &'static Ofi,
    info: *mut fi_info,
    fabric: *mut fid_fabric,
    domain: *mut fid_domain,
    av: *mut fid_av,
    cq: *mut fid_cq,
    ep: *mut fid_ep,
    mr: *mut fid_mr,
    memory: Box<[u64]>,
    contexts: Box<[fi_context2]>,
    peer: fi_addr_t,
    arrived: RefCell<VecDeque<Completion>>,
}

/// A completion: its slot, flags, length and remote data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Completion {
    pub(crate) slot: Option<usize>,
    pub(crate) flags: u64,
    pub(crate) length: usize,
    pub(crate) data: u64,
}

/// The address and key of the peer's memory.
#[derive(Clone, Copy)]
pub(crate) struct Remote {
    pub(crate) start: u64,
    pub(crate) key: u64,
}

pub(crate) fn library() -> &'static Ofi {
    let ofi = Ofi::load(None).unwrap_or_else(|error: LoadError| panic!("{error}"));
    Box::leak(Box::new(ofi))
}

/// The entries of `provider` for reliable datagrams with `caps`; freed by the caller.
pub(crate) fn offers(ofi: &Ofi, provider: &str, caps: u64) -> Result<NonNull<fi_info>, Errno> {
    let hints = ofi.fi_allocinfo()?.as_ptr();
    let name = CString::new(provider).unwrap();
    // SAFETY: the hints were just allocated with all their parts, and are freed below; their
    // strings must be allocated by malloc, since `fi_freeinfo` frees them.
    unsafe {
        (*hints).caps = caps;
        (*hints).mode = FI_CONTEXT | FI_CONTEXT2;
        (*(*hints).ep_attr).r#type = FI_EP_RDM;
        (*(*hints).domain_attr).mr_mode =
            FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
        (*(*hints).fabric_attr).prov_name = libc::strdup(name.as_ptr());
    }
    // Over loopback.
    let (node, flags) = match provider {
        "shm" => (null(), 0),
        _ => (c"127.0.0.1".as_ptr(), FI_SOURCE),
    };
    let mut list = null_mut();
    // SAFETY: the strings and the hints are alive during the call; `list` is writable.
    let found = unsafe { ofi.fi_getinfo(ofi.api_version(), node, null(), flags, hints, &mut list) };
    // SAFETY: allocated above, and no longer used.
    unsafe { ofi.fi_freeinfo(hints) };
    found.map(|()| NonNull::new(list).expect("a list that was found is not empty"))
}

impl End {
    pub(crate) fn open(
        ofi: &'static Ofi,
        provider: &str,
        caps: u64,
        wait: u32,
    ) -> Result<End, Errno> {
        let mut end = End {
            ofi,
            info: offers(ofi, provider, caps)?.as_ptr(),
            fabric: null_mut(),
            domain: null_mut(),
            av: null_mut(),
            cq: null_mut(),
            ep: null_mut(),
            mr: null_mut(),
            memory: vec![0; SIZE / 8].into_boxed_slice(),
            // SAFETY: pointers that are null until the provider writes to them.
            contexts: vec![unsafe { zeroed() }; 8].into_boxed_slice(),
            peer: FI_ADDR_UNSPEC,
            arrived: RefCell::default(),
        };
        // If a later step fails, `Drop` closes what is open.
        end.open_objects(wait)?;
        end.register()?;
        Ok(end)
    }

    fn open_objects(&mut self, wait: u32) -> Result<(), Errno> {
        // SAFETY: the list is alive until `Drop`, and every entry has fabric attributes.
        let attr = unsafe { (*self.info).fabric_attr };
        // SAFETY: the attributes are part of the list, which is alive until `Drop`; `Drop` closes the fabric.
        unsafe { self.ofi.fi_fabric(attr, &mut self.fabric, null_mut()) }?;
        // SAFETY: fabric and list are alive until `Drop`, which closes the domain before the fabric.
        unsafe { fi_domain(self.fabric, self.info, &mut self.domain, null_mut()) }?;
        // SAFETY: numbers and null pointers, for which zero selects the provider's default.
        let mut attr: fi_av_attr = unsafe { zeroed() };
        // SAFETY: the domain is alive until `Drop`, which closes the address vector before it.
        unsafe { fi_av_open(self.domain, &mut attr, &mut self.av, null_mut()) }?;
        // SAFETY: numbers and null pointers, for which zero selects the provider's default.
        let mut attr: fi_cq_attr = unsafe { zeroed() };
        attr.format = FI_CQ_FORMAT_DATA;
        attr.wait_obj = wait;
        // SAFETY: the domain is alive until `Drop`, which closes the queue before it.
        unsafe { fi_cq_open(self.domain, &mut attr, &mut self.cq, null_mut()) }?;
        // SAFETY: domain and list are alive until `Drop`, which closes the endpoint before the domain.
        unsafe { fi_endpoint(self.domain, self.info, &mut self.ep, null_mut()) }?;
        // SAFETY: both are alive until `Drop`, which closes the endpoint before the address vector.
        unsafe { fi_ep_bind(self.ep, self.av.cast(), 0) }?;
        // SAFETY: both are alive until `Drop`, which closes the endpoint before the queue.
        unsafe { fi_ep_bind(self.ep, self.cq.cast(), FI_TRANSMIT | FI_RECV) }?;
        // SAFETY: the endpoint is alive until `Drop`, and bound to its queue and address vector.
        unsafe { fi_enable(self.ep) }
    }

    /// Registers the memory as the provider's `mr_mode` requires.
    fn register(&mut self) -> Result<(), Errno> {
        let mode = self.mr_mode();
        let piece = libc::iovec { iov_base: self.memory.as_mut_ptr().cast(), iov_len: SIZE };
        // SAFETY: numbers and null pointers, for which zero is valid.
        let mut attr: fi_mr_attr = unsafe { zeroed() };
        attr.mr_iov = &raw const piece;
        attr.iov_count = 1;
        attr.access = FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
        attr.requested_key = if mode & FI_MR_PROV_KEY == 0 { 77 } else { 0 };
        // SAFETY: the memory belongs to `End`, whose `Drop` unregisters it before it is freed.
        unsafe { fi_mr_regattr(self.domain, &attr, 0, &mut self.mr) }?;
        if mode & FI_MR_ENDPOINT != 0 {
            // SAFETY: both are alive.
            unsafe { fi_mr_bind(self.mr, self.ep.cast(), 0) }?;
            // SAFETY: the registration is alive until `Drop`, and bound to the endpoint.
            unsafe { fi_mr_enable(self.mr) }?;
        }
        Ok(())
    }

    pub(crate) fn info(&self) -> &fi_info {
        // SAFETY: allocated by the library, freed by `Drop`.
        unsafe { &*self.info }
    }

    pub(crate) fn domain_attr(&self) -> &fi_domain_attr {
        // SAFETY: a part of the list, which is alive until `Drop`.
        unsafe { &*self.info().domain_attr }
    }

    pub(crate) fn mr_mode(&self) -> c_int {
        self.domain_attr().mr_mode
    }

    /// The provider's name and version.
    pub(crate) fn provider(&self) -> (String, u32) {
        // SAFETY: a part of the list, which is alive until `Drop`.
        let attr = unsafe { &*self.info().fabric_attr };
        // SAFETY: every entry has its provider's name.
        let name = unsafe { CStr::from_ptr(attr.prov_name) };
        (name.to_string_lossy().into_owned(), attr.prov_version)
    }

    /// The address that a peer inserts.
    pub(crate) fn name(&self) -> Vec<u8> {
        let mut name = vec![0; 256];
        let mut length = name.len();
        // SAFETY: the endpoint is open; `name` has `length` writable bytes.
        unsafe { fi_getname(self.ep, name.as_mut_ptr().cast(), &mut length) }.unwrap();
        name.truncate(length);
        name
    }

    pub(crate) fn connect(&mut self, name: &[u8]) {
        // SAFETY: `name` is the address of an endpoint of the same provider.
        let inserted = unsafe {
            fi_av_insert(self.av, name.as_ptr().cast(), 1, &mut self.peer, 0, null_mut())
        };
        assert_eq!(inserted, Ok(1));
    }

    pub(crate) fn remote(&self) -> Remote {
        let by_address = self.mr_mode() & FI_MR_VIRT_ADDR != 0;
        let start = if by_address { self.memory.as_ptr().addr() as u64 } else { 0 };
        // SAFETY: the registration is ours and alive.
        Remote { start, key: unsafe { fi_mr_key(self.mr) } }
    }

    /// The number at `index`; read as volatile, since the provider writes it.
    pub(crate) fn number(&self, index: usize) -> u64 {
        // SAFETY: a reference into the end's memory is a valid address.
        unsafe { std::ptr::read_volatile(&self.memory[index]) }
    }

    pub(crate) fn set(&mut self, index: usize, value: u64) {
        self.memory[index] = value;
    }

    fn piece(&self, index: usize) -> *mut c_void {
        self.memory[index..].as_ptr().cast_mut().cast()
    }

    fn desc(&self) -> *mut c_void {
        // SAFETY: the registration is ours and alive.
        unsafe { fi_mr_desc(self.mr) }
    }

    fn context(&self, slot: usize) -> *mut c_void {
        (&raw const self.contexts[slot]).cast_mut().cast()
    }

    pub(crate) fn recv(&self, slot: usize, index: usize, length: usize) -> Result<(), Errno> {
        let (piece, desc, context) = (self.piece(index), self.desc(), self.context(slot));
        // SAFETY: `self` owns memory, registration and context until `Drop` closes the endpoint.
        unsafe { fi_recv(self.ep, piece, length, desc, FI_ADDR_UNSPEC, context) }
    }

    pub(crate) fn send(&self, slot: usize, index: usize, length: usize) -> Result<(), Errno> {
        let (piece, desc, context) = (self.piece(index), self.desc(), self.context(slot));
        let piece = libc::iovec { iov_base: piece, iov_len: length };
        let mut desc = [desc];
        let msg = fi_msg {
            msg_iov: &piece,
            desc: desc.as_mut_ptr(),
            iov_count: 1,
            addr: self.peer,
            context,
            data: 0,
        };
        // SAFETY: `self` owns memory, registration and context until `Drop` closes the endpoint; the message itself is read during
        // the call.
        unsafe { fi_sendmsg(self.ep, &msg, FI_COMPLETION) }
    }

    pub(crate) fn write(
        &self,
        slot: usize,
        index: usize,
        length: usize,
        to: Remote,
        data: Option<u64>,
    ) -> Result<(), Errno> {
        let piece = libc::iovec { iov_base: self.piece(index), iov_len: length };
        let mut desc = [self.desc()];
        let target = fi_rma_iov { addr: to.start, len: length, key: to.key };
        let msg = fi_msg_rma {
            msg_iov: &piece,
            desc: desc.as_mut_ptr(),
            iov_count: 1,
            addr: self.peer,
            rma_iov: &target,
            rma_iov_count: 1,
            context: self.context(slot),
            data: data.unwrap_or(0),
        };
        let flags = data.map_or(0, |_| FI_REMOTE_CQ_DATA) | FI_COMPLETION | FI_DELIVERY_COMPLETE;
        // SAFETY: `self` owns memory, registration and context until `Drop` closes the endpoint; the message itself is read during
        // the call, and the peer's provider checks the access to its memory.
        unsafe { fi_writemsg(self.ep, &msg, flags) }
    }

    pub(crate) fn read(
        &self,
        slot: usize,
        index: usize,
        length: usize,
        from: Remote,
    ) -> Result<(), Errno> {
        let (piece, desc, context) = (self.piece(index), self.desc(), self.context(slot));
        // SAFETY: `self` owns memory, registration and context until `Drop` closes the endpoint.
        unsafe { fi_read(self.ep, piece, length, desc, self.peer, from.start, from.key, context) }
    }

    /// Adds to the peer's number, or swaps it if it equals `compare`; the old value is stored
    /// in `result`.
    pub(crate) fn atomic(
        &self,
        slot: usize,
        operand: usize,
        compare: Option<usize>,
        result: usize,
        at: Remote,
    ) -> Result<(), Errno> {
        let number = |index| fi_ioc { addr: self.piece(index), count: 1 };
        let (operand, mut result) = (number(operand), number(result));
        let (mut desc, mut result_desc) = ([self.desc()], [self.desc()]);
        let target = fi_rma_ioc { addr: at.start, count: 1, key: at.key };
        let msg = fi_msg_atomic {
            msg_iov: &operand,
            desc: desc.as_mut_ptr(),
            iov_count: 1,
            addr: self.peer,
            rma_iov: &target,
            rma_iov_count: 1,
            datatype: FI_UINT64,
            op: if compare.is_some() { FI_CSWAP } else { FI_SUM },
            context: self.context(slot),
            data: 0,
        };
        let Some(compare) = compare else {
            // SAFETY: the endpoint was opened with FI_ATOMIC; `self` owns memory, registration and context until `Drop` closes
            // it, and the lists are read during the call.
            return unsafe {
                fi_fetch_atomicmsg(
                    self.ep,
                    &msg,
                    &mut result,
                    result_desc.as_mut_ptr(),
                    1,
                    FI_COMPLETION,
                )
            };
        };
        let compare = number(compare);
        let mut compare_desc = [self.desc()];
        // SAFETY: the endpoint was opened with FI_ATOMIC; `self` owns memory, registration and context until `Drop` closes it, and
        // the lists are read during the call.
        unsafe {
            fi_compare_atomicmsg(
                self.ep,
                &msg,
                &compare,
                compare_desc.as_mut_ptr(),
                1,
                &mut result,
                result_desc.as_mut_ptr(),
                1,
                FI_COMPLETION,
            )
        }
    }

    /// Whether the provider supports 64-bit add and compare-and-swap.
    pub(crate) fn supports_atomics(&self) -> bool {
        let mut count = 0;
        // SAFETY: the endpoint was opened with FI_ATOMIC; `count` is writable.
        let adds = unsafe { fi_fetch_atomicvalid(self.ep, FI_UINT64, FI_SUM, &mut count) };
        // SAFETY: the endpoint was opened with FI_ATOMIC; `count` is writable.
        let swaps = unsafe { fi_compare_atomicvalid(self.ep, FI_UINT64, FI_CSWAP, &mut count) };
        adds.is_ok() && swaps.is_ok()
    }

    /// Drives progress and stores completions. The error: an operation that failed.
    pub(crate) fn poll(&self) -> Result<(), Failed> {
        // SAFETY: numbers and pointers, for which zero is valid.
        let mut entries: [fi_cq_data_entry; 4] = unsafe { zeroed() };
        // SAFETY: the queue has this format, and the array has four entries.
        match unsafe { fi_cq_read(self.cq, entries.as_mut_ptr().cast(), 4) } {
            Ok(count) => {
                self.arrived.borrow_mut().extend(entries[..count].iter().map(|entry| Completion {
                    slot: self.slot(entry.op_context),
                    flags: entry.flags,
                    length: entry.len,
                    data: entry.data,
                }))
            }
            Err(Errno(FI_EAVAIL)) => return Err(self.failed()),
            Err(errno) => panic!("reading completions: {errno}"),
        }
        Ok(())
    }

    fn slot(&self, context: *mut c_void) -> Option<usize> {
        (0..self.contexts.len()).find(|slot| self.context(*slot) == context)
    }

    fn failed(&self) -> Failed {
        // SAFETY: numbers and pointers, for which zero is valid.
        let mut entry: fi_cq_err_entry = unsafe { zeroed() };
        // SAFETY: the queue is alive, the entry writable.
        assert_eq!(unsafe { fi_cq_readerr(self.cq, &mut entry, 0) }, Ok(1));
        // SAFETY: the queue is alive, and the entry is of this queue; the result is the provider's text.
        let text =
            unsafe { fi_cq_strerror(self.cq, entry.prov_errno, entry.err_data, null_mut(), 0) };
        // SAFETY: not null, checked here, so a string that the provider owns.
        let text = (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) });
        Failed {
            slot: self.slot(entry.op_context),
            flags: entry.flags,
            errno: Errno::of_entry(entry.err),
            text: text.map(|text| text.to_string_lossy().into_owned()),
        }
    }

    /// The next completion, while polling both ends.
    pub(crate) fn next(&self, peer: &End) -> Completion {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            self.poll().unwrap_or_else(|failed| panic!("{failed:?}"));
            peer.poll().unwrap_or_else(|failed| panic!("{failed:?}"));
            if let Some(completion) = self.arrived.borrow_mut().pop_front() {
                return completion;
            }
            assert!(Instant::now() < deadline, "nothing completed in 20 s");
        }
    }

    pub(crate) fn take(&self) -> Option<Completion> {
        self.arrived.borrow_mut().pop_front()
    }

    /// The descriptor that becomes readable with a completion.
    pub(crate) fn wait_fd(&self) -> Result<c_int, Errno> {
        let mut fd: c_int = -1;
        // SAFETY: the queue is alive; this command writes an int for FI_WAIT_FD.
        unsafe { fi_control(self.cq.cast(), FI_GETWAIT, (&raw mut fd).cast()) }?;
        Ok(fd)
    }

    /// Whether the queue may be waited on now, or must be read first.
    pub(crate) fn may_wait(&self) -> bool {
        let mut fids = [self.cq.cast::<fid>()];
        // SAFETY: fabric and queue are alive.
        match unsafe { fi_trywait(self.fabric, fids.as_mut_ptr(), 1) } {
            Ok(()) => true,
            Err(Errno(libc::EAGAIN)) => false,
            Err(errno) => panic!("fi_trywait: {errno}"),
        }
    }
}

/// An operation that failed.
#[derive(Debug)]
#[allow(dead_code, reason = "printed by the panic")]
pub(crate) struct Failed {
    pub(crate) slot: Option<usize>,
    pub(crate) flags: u64,
    pub(crate) errno: Errno,
    pub(crate) text: Option<String>,
}

impl Drop for End {
    fn drop(&mut self) {
        // An endpoint with memory bound to it must outlive the registration.
        let bound = self.mr_mode() & FI_MR_ENDPOINT != 0;
        let (first, second) = (self.mr.cast::<fid>(), self.ep.cast::<fid>());
        let (first, second) = if bound { (first, second) } else { (second, first) };
        let rest = [self.cq.cast::<fid>(), self.av.cast(), self.domain.cast(), self.fabric.cast()];
        for fid in [first, second].into_iter().chain(rest).filter(|fid| !fid.is_null()) {
            // SAFETY: opened by `open`, and closed here, in reverse order.
            let closed = unsafe { fi_close(fid) };
            if !std::thread::panicking() {
                assert_eq!(closed, Ok(()));
            }
        }
        // SAFETY: returned by `offers`, and everything opened with it is closed.
        unsafe { self.ofi.fi_freeinfo(self.info) };
    }
}
