//! One core that copies values out of more memory than any cache has: the baseline for values that are copied once.
//!
//! It runs as a separate, optimised process, bound to the clients' CPU.

use std::hint::black_box;
use std::time::Instant;

use clap::Args;

use super::super::build::Build;
use super::super::tools;
use crate::{Failure, shell};

#[derive(Args, Clone)]
pub(in super::super) struct CopyArgs {
    /// Bytes of all values
    #[arg(long)]
    total: usize,
    /// Bytes of one
    #[arg(long)]
    size: usize,
    /// Number of copies
    #[arg(long)]
    copies: usize,
}

/// Runs it as a process: MB/s.
pub(super) fn measure(total: usize, size: usize, copies: usize) -> Result<Vec<f64>, Failure> {
    let mut command = tools::bound(0, &Build::ours().program("xtask"));
    command.args(["compare", "copy", "--total", &total.to_string()]);
    command.args(["--size", &size.to_string(), "--copies", &copies.to_string()]);
    let output = shell::output(&mut tools::limited(command))?;
    Ok(vec![tools::number(output.trim())?])
}

/// Runs in that process.
pub(in super::super) fn copy(args: &CopyArgs) -> Result<(), Failure> {
    let CopyArgs { total, size, copies } = *args;
    if size == 0 || total < size {
        return Err("there must be a value to copy".to_owned());
    }
    let values = vec![7_u8; total];
    let mut targets = vec![0_u8; size * IN_FLIGHT];
    let mut run = |copies: usize| {
        for copy in 0..copies {
            let value = copy.wrapping_mul(STRIDE) % (total / size) * size;
            let target = copy % IN_FLIGHT * size;
            targets[target..target + size].copy_from_slice(&values[value..value + size]);
            black_box(&targets);
        }
    };
    run(copies / 10);
    let started = Instant::now();
    run(copies);
    println!("{:.1}", (copies * size) as f64 / 1e6 / started.elapsed().as_secs_f64());
    Ok(())
}

const IN_FLIGHT: usize = 16;
/// A prime: successive values are not neighbours.
const STRIDE: usize = 7919;
