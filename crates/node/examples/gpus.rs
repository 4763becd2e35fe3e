//! What NVML tells of this machine's GPUs, twice with a second between, as JSON: `cargo run -p wirelane-node --example gpus`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the answer of a program")]

use std::time::Duration;

use node::watch::{GpuLook, GpuWatch};

fn main() {
    let mut watch = GpuWatch::open();
    for look in 0..2 {
        if look > 0 {
            std::thread::sleep(Duration::from_secs(1));
        }
        match watch.look(Duration::from_secs(30)) {
            GpuLook::Gpus(found) => match serde_json::to_string_pretty(&found) {
                Ok(json) => println!("{json}"),
                Err(error) => eprintln!("write it as JSON: {error}"),
            },
            GpuLook::NoGpus(why) | GpuLook::Failed(why) => eprintln!("{why}"),
        }
    }
}
