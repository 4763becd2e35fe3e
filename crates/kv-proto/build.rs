//! Makes Rust of the .proto, by compilers that are written in Rust: no protoc is needed.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use prost::Message;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    // With its comments, which become the documentation of the Rust code.
    let files = protox::compile(["wirelane/kv/v1/kv.proto"], ["proto"])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), files.encode_to_vec())?;
    tonic_prost_build::configure()
        // Values come out of a message without a copy.
        .bytes(".")
        .build_transport(false)
        .compile_fds(files)?;
    Ok(())
}
