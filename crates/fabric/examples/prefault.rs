//! Measures prefaulting, by number of threads: `cargo run --release --example prefault -- GIB`.
#![allow(clippy::print_stdout, reason = "prints its result")]

use std::time::Instant;

use fabric::{Memory, Pages};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let gib: usize = std::env::args().nth(1).map_or(Ok(1), |gib| gib.parse())?;
    for threads in [1, 2, 4, 8, 16] {
        let memory = Memory::allocate(gib << 30, Pages::Auto)?;
        let started = Instant::now();
        memory.prefault(threads, |_| ())?;
        let rate = gib as f64 / started.elapsed().as_secs_f64();
        println!("{threads:2} threads  {rate:6.2} GiB/s  pages of {} B", memory.page_size());
    }
    Ok(())
}
