//! CPU time.

use rustix::time::{ClockId, clock_gettime};

/// Seconds of CPU time of this thread, user and system.
pub(crate) fn seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
