//! Prints two samples of this machine's GPUs as JSON, a second apart: `cargo run -p wirelane-node --example gpus`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the output of a program")]

use std::time::Duration;

use node::sampling::{GpuSample, GpuSampler};

fn main() {
    let mut watch = GpuSampler::open();
    for sample in 0..2 {
        if sample > 0 {
            std::thread::sleep(Duration::from_secs(1));
        }
        match watch.sample(Duration::from_secs(30)) {
            GpuSample::Gpus(found) => match serde_json::to_string_pretty(&found) {
                Ok(json) => println!("{json}"),
                Err(error) => eprintln!("write it as JSON: {error}"),
            },
            GpuSample::NoGpus(why) | GpuSample::Failed(why) => eprintln!("{why}"),
        }
    }
}
