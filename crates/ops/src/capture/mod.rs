//! Which program can capture a device's packets, and what it will see.
