//! `wirelane topo`: the distance between GPUs and RDMA devices, and the device of each GPU.

mod matrix;
mod picture;
mod text;

use std::path::PathBuf;

use clap::Args;
use node::Node;

use crate::arguments::host::HostArgs;
use crate::output;
use crate::output::{Exit, Failure};
use crate::settings::Global;
use matrix::Matrix;

#[derive(Debug, Args)]
pub(crate) struct TopoArgs {
    #[command(flatten)]
    host: HostArgs,

    /// Print JSON (see docs/devices.md)
    #[arg(long, conflicts_with = "svg")]
    json: bool,

    /// Write an SVG image to this file; `-` is stdout
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Having no GPU or RDMA device is not a failure.
pub(crate) fn run(_global: &Global, args: &TopoArgs) -> Result<Exit, Failure> {
    let tree = args.host.tree()?;
    let matrix = Matrix::new(&Node::read(&tree));
    match &args.svg {
        _ if args.json => output::json(&matrix)?,
        Some(file) if file.as_os_str() == "-" => output::answer(&picture::draw(&matrix))?,
        Some(file) => {
            let name = file.display();
            output::file::write(file, picture::draw(&matrix).as_bytes(), output::file::READABLE)
                .map_err(|error| Failure::failed(format!("--svg {name}: {error}")))?;
            output::note(&format!("wrote {name}"));
        }
        None => output::answer(&text::render(&matrix))?,
    }
    if matrix.nics.is_empty() {
        output::note("no RDMA device");
    } else if matrix.gpus.is_empty() {
        output::note("no GPU");
    }
    Ok(Exit::Done)
}
