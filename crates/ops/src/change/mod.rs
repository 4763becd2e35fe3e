//! Changes to a machine: planned, shown, made, written down, and taken back.
