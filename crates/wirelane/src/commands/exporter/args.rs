//! Arguments of `wirelane exporter`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use doctor::monitoring::{List, Pattern, Settings};
use jobs::k8s::EXPORTER_PORT;

use crate::arguments::host::HostArgs;
use crate::commands::serve::address;
use crate::monitoring::CollectionPlan;

#[derive(Debug, Args)]
#[command(after_help = "\
Counters have the same unit for every driver, as in rdma_port_receive_bytes_total. docs/exporter.md lists every metric.
In patterns, * matches any characters and ? one; the options can be repeated.")]
pub(crate) struct ExporterArgs {
    /// Address for /metrics [default: 0.0.0.0:9878, or none with --textfile]
    #[arg(long, value_name = "HOST:PORT", value_parser = listen_address)]
    listen: Option<SocketAddr>,

    /// Print the metrics to stdout once, and exit
    #[arg(long, conflicts_with_all = ["listen", "textfile", "web_config"])]
    pub(super) once: bool,

    /// Write DIR/wirelane.prom for node_exporter's textfile collector, every --rdma-interval
    #[arg(long, value_name = "DIR")]
    pub(super) textfile: Option<PathBuf>,

    /// Also export port metrics under the names of another exporter (not with --textfile)
    #[arg(long, value_name = "EXPORTER")]
    pub(super) compat: Option<Compat>,

    /// Web config file of Prometheus exporters: TLS and passwords
    #[arg(long, value_name = "FILE")]
    pub(super) web_config: Option<PathBuf>,

    /// Only RDMA devices whose name matches
    #[arg(long, value_name = "PATTERN")]
    device_include: Vec<Pattern>,

    /// No RDMA devices whose name matches
    #[arg(long, value_name = "PATTERN")]
    device_exclude: Vec<Pattern>,

    /// Only counters whose file or metric name matches
    #[arg(long, value_name = "PATTERN")]
    counter_include: Vec<Pattern>,

    /// No counters whose file or metric name matches
    #[arg(long, value_name = "PATTERN")]
    counter_exclude: Vec<Pattern>,

    /// Also export the queue pairs and memory of processes and pods
    #[arg(long)]
    processes: bool,

    /// Do not read GPUs
    #[arg(long)]
    no_gpu: bool,

    /// Do not read CPUs and memory
    #[arg(long)]
    no_host: bool,

    /// Minimum interval between two reads of RDMA ports
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    rdma_interval: Duration,

    /// Minimum interval between two reads of GPUs
    #[arg(long, value_name = "SECONDS", default_value = "15", value_parser = seconds)]
    gpu_interval: Duration,

    #[command(flatten)]
    pub(super) host: HostArgs,
}

/// The other exporter whose metric names are served too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Compat {
    /// node_exporter's infiniband collector
    Node,
}

impl ExporterArgs {
    /// The address to listen on; by default none with --textfile.
    pub(super) fn listen(&self) -> Option<SocketAddr> {
        let default = SocketAddr::from(([0, 0, 0, 0], EXPORTER_PORT));
        self.listen.or_else(|| self.textfile.is_none().then_some(default))
    }

    pub(super) fn rdma_interval(&self) -> Duration {
        self.rdma_interval
    }

    /// What is collected, and how often.
    pub(super) fn plan(&self) -> CollectionPlan {
        let list = |include: &[Pattern], exclude: &[Pattern]| List {
            include: include.to_vec(),
            exclude: exclude.to_vec(),
        };
        CollectionPlan {
            rdma_every: self.rdma_interval,
            gpu_every: self.gpu_interval,
            rdma: Settings {
                devices: list(&self.device_include, &self.device_exclude),
                counters: list(&self.counter_include, &self.counter_exclude),
                ..Settings::default()
            },
            gpu: !self.no_gpu,
            host: !self.no_host,
            processes: self.processes,
        }
    }
}

fn listen_address(text: &str) -> Result<SocketAddr, String> {
    address::parse(text, "0.0.0.0:9878")
}

/// Shorter than a tenth of a second would only measure the exporter itself.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "write a number of seconds".to_owned())?;
    match seconds {
        0.1..=3600.0 => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("write a number of seconds from 0.1 to 3600".to_owned()),
    }
}
