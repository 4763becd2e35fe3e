//! Clock and idle states of CPUs.

/// The governor that keeps CPUs at full clock: one that speeds up first answers late.
pub const GOVERNOR: &str = "performance";

/// An idle state that takes this many microseconds to leave, or more, is worth a note on any machine: C6 of servers takes
/// less.
pub const LONG_IDLE_US: u32 = 200;

/// For low latency, idle states that take longer than this are switched off: C1 and C1E take at most this long.
pub const LATENCY_IDLE_US: u32 = 10;
