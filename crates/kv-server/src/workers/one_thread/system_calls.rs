//! Counts the system calls of one thread: a seccomp filter reports each of them to another thread, which counts it and lets it continue.
#![allow(unsafe_code, reason = "seccomp has no safe interface")]

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// The system calls of a thread, without those that read the clock: where the vDSO can read it, there are none.
pub(super) struct SystemCalls(Arc<Counted>);

struct Counted {
    count: AtomicU64,
    last: AtomicI64,
    /// The descriptor by which calls are reported, when there is one.
    listener: AtomicI32,
}

impl SystemCalls {
    pub(super) fn count(&self) -> u64 {
        self.0.count.load(SeqCst)
    }

    /// The number of the last one, as in `<asm/unistd.h>`.
    pub(super) fn last(&self) -> i64 {
        self.0.last.load(SeqCst)
    }
}

/// Counts this thread's calls until it ends.
pub(super) fn count_of_this_thread() -> SystemCalls {
    let counted = Arc::new(Counted {
        count: AtomicU64::new(0),
        last: AtomicI64::new(-1),
        listener: AtomicI32::new(-1),
    });
    // Before the filter, which it would inherit.
    let of_thread = counted.clone();
    std::thread::spawn(move || count(&of_thread));
    let listener = install();
    // Without a call: the other thread could not let it continue yet.
    counted.listener.store(listener, SeqCst);
    SystemCalls(counted)
}

/// Counts calls and lets them continue, as long as there is the thread that makes them.
fn count(counted: &Counted) {
    let mut listener = -1;
    while listener < 0 {
        std::thread::sleep(Duration::from_millis(1));
        listener = counted.listener.load(SeqCst);
    }
    loop {
        // SAFETY: zeros are a valid `seccomp_notif`, and the kernel wants them.
        let mut call: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        // SAFETY: the request fills a `seccomp_notif`, which `call` is.
        if unsafe { libc::ioctl(listener, NOTIF_RECEIVE, &raw mut call) } != 0 {
            match std::io::Error::last_os_error().kind() {
                std::io::ErrorKind::Interrupted => continue,
                // The thread has ended; otherwise, its calls fail from now on.
                _ => break,
            }
        }
        counted.last.store(i64::from(call.data.nr), SeqCst);
        counted.count.fetch_add(1, SeqCst);
        let mut answer = libc::seccomp_notif_resp {
            id: call.id,
            val: 0,
            error: 0,
            flags: libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32,
        };
        // SAFETY: the request reads a `seccomp_notif_resp`, which `answer` is. It fails if a signal has ended the call.
        let _ = unsafe { libc::ioctl(listener, NOTIF_SEND, &raw mut answer) };
    }
    // SAFETY: this thread owns the descriptor.
    unsafe { libc::close(listener) };
}

/// Installs the filter for this thread; returns the descriptor that reports its calls.
fn install() -> i32 {
    let code = |code: u32, k: u32, skipped: u8| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: skipped,
        k,
    };
    let mut filter = [
        // The number of the call is the first word of its data.
        code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        code(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, libc::SYS_clock_gettime as u32, 1),
        code(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0),
        code(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_USER_NOTIF, 0),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: both calls change this thread only, and the kernel copies `program` and `filter`, which live until then.
    let listener = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
            &raw const program,
        )
    };
    assert!(listener >= 0, "seccomp: {}", std::io::Error::last_os_error());
    listener as i32
}

/// `SECCOMP_IOCTL_NOTIF_RECV` and `SECCOMP_IOCTL_NOTIF_SEND`: read and write, the size, `!`, the number.
const NOTIF_RECEIVE: libc::c_ulong =
    3 << 30 | (size_of::<libc::seccomp_notif>() as libc::c_ulong) << 16 | 0x2100;
const NOTIF_SEND: libc::c_ulong =
    3 << 30 | (size_of::<libc::seccomp_notif_resp>() as libc::c_ulong) << 16 | 0x2101;

#[test]
fn a_call_is_counted() {
    let calls = count_of_this_thread();
    let before = calls.count();
    let _ = rustix::process::getppid();
    assert_eq!((calls.count() - before, calls.last()), (1, libc::SYS_getppid));
}
