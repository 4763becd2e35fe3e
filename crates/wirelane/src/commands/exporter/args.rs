//! What can be typed after `wirelane exporter`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use doctor::watch::{List, Pattern, Settings};
use jobs::k8s::EXPORTER_PORT;

use crate::arguments::host::HostArgs;
use crate::commands::serve::address;
use crate::watch::Plan;

#[derive(Debug, Args)]
#[command(after_help = "\
Counters are told in one unit whatever the driver: rdma_port_receive_bytes_total and its like. Every metric is listed in
docs/exporter.md. Patterns have * for any letters and ? for one; an option may be given several times.")]
pub(crate) struct ExporterArgs {
    /// Where to serve /metrics; with --textfile only if given [default: 0.0.0.0:9878]
    #[arg(long, value_name = "HOST:PORT", value_parser = listen_address)]
    listen: Option<SocketAddr>,

    /// Print the metrics once to stdout
    #[arg(long, conflicts_with_all = ["listen", "textfile", "web_config"])]
    pub(super) once: bool,

    /// Write DIR/wirelane.prom for node_exporter's textfile collector, every --rdma-interval
    #[arg(long, value_name = "DIR")]
    pub(super) textfile: Option<PathBuf>,

    /// Also serve the ports under the names of another exporter, on the HTTP endpoint and with --once
    #[arg(long, value_name = "EXPORTER")]
    pub(super) compat: Option<Compat>,

    /// TLS and passwords, as Prometheus's web config file has them
    #[arg(long, value_name = "FILE")]
    pub(super) web_config: Option<PathBuf>,

    /// Only RDMA devices whose name fits
    #[arg(long, value_name = "PATTERN")]
    device_include: Vec<Pattern>,

    /// No RDMA devices whose name fits
    #[arg(long, value_name = "PATTERN")]
    device_exclude: Vec<Pattern>,

    /// Only counters whose file or metric fits
    #[arg(long, value_name = "PATTERN")]
    counter_include: Vec<Pattern>,

    /// No counters whose file or metric fits
    #[arg(long, value_name = "PATTERN")]
    counter_exclude: Vec<Pattern>,

    /// Also tell which processes and pods hold queue pairs and memory
    #[arg(long)]
    processes: bool,

    /// Leave GPUs alone
    #[arg(long)]
    no_gpu: bool,

    /// Leave out CPUs and memory
    #[arg(long)]
    no_host: bool,

    /// RDMA ports are read no more often than this, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    rdma_interval: Duration,

    /// GPUs are read no more often than this, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "15", value_parser = seconds)]
    gpu_interval: Duration,

    #[command(flatten)]
    pub(super) host: HostArgs,
}

/// Whose names are served besides our own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Compat {
    /// node_exporter's infiniband collector
    Node,
}

impl ExporterArgs {
    /// Where to listen, if anywhere: who asks for a text file alone gets that alone.
    pub(super) fn listen(&self) -> Option<SocketAddr> {
        let everywhere = SocketAddr::from(([0, 0, 0, 0], EXPORTER_PORT));
        self.listen.or_else(|| self.textfile.is_none().then_some(everywhere))
    }

    pub(super) fn rdma_interval(&self) -> Duration {
        self.rdma_interval
    }

    /// What is collected.
    pub(super) fn plan(&self) -> Plan {
        let list = |include: &[Pattern], exclude: &[Pattern]| List {
            include: include.to_vec(),
            exclude: exclude.to_vec(),
        };
        Plan {
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
