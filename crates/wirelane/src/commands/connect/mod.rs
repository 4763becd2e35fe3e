//! `wirelane connect`: opens a link, measures it, and reports its transport and why.

mod dial;
mod measure;
mod report;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use fabric::Lane;
use fabric::link::Endpoint;

use kv_server::SCRATCH_BYTES;

use crate::arguments::credentials::CredentialArgs;
use crate::arguments::peer::Peer;
use crate::arguments::size;
use crate::arguments::size::{Size, seconds};
use crate::arguments::transport::{PolicyArg, TransportArg};
use crate::links::endpoint;
use crate::output::{Exit, Failure};
use crate::settings::Global;
use crate::settings::Settings;
use crate::{logging, output};
pub(crate) use dial::try_addresses;
use measure::MeasurePlan;
use report::Answer;

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct ConnectArgs {
    /// The address of a `wirelane serve`; the default port is 50051
    #[arg(value_name = "HOST[:PORT]")]
    peer: Peer,

    /// Use the best transport that both ends have, or only this one; shm and tcp override the rdma_policy of the settings
    #[arg(long, value_name = "KIND", default_value = "auto")]
    transport: TransportArg,

    /// Whether RDMA is required, preferred or off (default: the rdma_policy of the settings for this peer)
    #[arg(long, value_name = "POLICY")]
    policy: Option<PolicyArg>,

    #[command(flatten)]
    credentials: CredentialArgs,

    /// Timeout of connecting
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    timeout: Duration,

    /// Bytes per operation of the bandwidth measurement, at most 4MiB
    #[arg(long, value_name = "SIZE", default_value = "1MiB", conflicts_with = "no_measure")]
    size: Size,

    /// Total time of the measurements
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    #[arg(conflicts_with = "no_measure")]
    seconds: Duration,

    /// Connect and report only, without measurements
    #[arg(long)]
    no_measure: bool,

    /// Print one JSON object: the report and the measurements
    #[arg(long)]
    json: bool,

    /// Stay connected, and print events of the link until Ctrl-C (with --json: one object per line)
    #[arg(long)]
    watch: bool,
}

pub(crate) fn run(global: &Global, args: &ConnectArgs) -> Result<Exit, Failure> {
    if args.size.0 > SCRATCH_BYTES {
        let max = size::format(SCRATCH_BYTES);
        return Err(Failure::usage(format!(
            "--size: the peer offers {max} for measurements, use no more"
        )));
    }
    let settings = Settings::load(global)?.settings;
    logging::start(global, &settings);
    let mut links = endpoint::settings(global, &settings, args.credentials.auth_method(global)?)?;
    args.transport.restrict(args.policy, &mut links)?;
    let (sender, events) = tokio::sync::mpsc::unbounded_channel();
    if args.watch {
        // The receiver is gone once the program ends.
        links.on_event = Some(Arc::new(move |_, event| drop(sender.send(event.clone()))));
    }
    let endpoint = Endpoint::new(links)?;
    let tickets = args.credentials.tickets()?;
    let mut link = dial::dial(&endpoint, &args.peer, tickets, args.timeout)?;
    let measurement = match args.no_measure {
        true => None,
        false => Some(measure::run(&mut link, &endpoint, &args.plan())?),
    };
    // Updates the report.
    link.poll(&mut Vec::new());
    let answer = Answer { link: link.report().status(), measurement };
    if args.json {
        output::json(&answer)?
    } else {
        output::text(&answer.text())?
    }
    if args.watch {
        watch::run(link, events, args.json)?;
    }
    Ok(Exit::Done)
}

impl ConnectArgs {
    fn plan(&self) -> MeasurePlan {
        MeasurePlan { size: self.size.0, time: self.seconds, timeout: self.timeout }
    }
}

const EXIT_CODES: &str = "\
Exit codes:
  0  success
  1  refused: by policy or authentication, or RDMA is required and not available
  2  usage error
  3  could not connect, or the link ended";
