//! Clock and idle states of CPUs.

/// The governor that keeps CPUs at full clock: with others, a CPU must speed up first.
pub const GOVERNOR: &str = "performance";

/// An idle state with this exit latency or more is worth a note on any machine: C6 of servers takes less.
pub const LONG_IDLE_US: u32 = 200;

/// For low latency, idle states with a longer exit latency than this are disabled: C1 and C1E take at most this long.
pub const LATENCY_IDLE_US: u32 = 10;
