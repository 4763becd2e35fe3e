//! `wirelane exporter`: the machine's metrics for Prometheus, over HTTP, as a text file, or once to stdout.

mod args;
mod encoder;
mod pages;
mod runtime;
mod textfile;

use std::sync::Arc;
use std::time::Duration;

use access::Phase;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::commands::serve;
use crate::monitoring::Monitor;
use crate::output::exit::{self, Exit, Failure};
use crate::settings::Global;
use crate::settings::Settings;
use crate::signals::Signals;
use crate::web_config::{AccessRules, ProtectedSite};
use crate::{logging, output};
pub(crate) use args::ExporterArgs;
use encoder::Encoder;
use pages::ExporterPages;
use textfile::TextFile;

pub(crate) fn run(global: &Global, args: &ExporterArgs) -> Result<Exit, Failure> {
    if args.once {
        let monitor = Monitor::start(|| args.host.tree(), args.plan())?;
        let encoder = Encoder::new(monitor, args.compat, true);
        output::answer(&encoder.print(ONCE_TIMEOUT))?;
        return Ok(Exit::Done);
    }
    let settings = Settings::load(global)?.settings;
    let log = logging::start_in_background(global, &settings)
        .map_err(|error| Failure::failed(format!("start a thread for the log: {error}")))?;
    let rules = AccessRules::open(args.web_config.as_deref())?;
    let runtime = runtime::start()
        .map_err(|error| Failure::failed(format!("start the event loop: {error}")))?;
    let served = runtime.block_on(serve(args, rules));
    log.flush();
    // A thread may still wait for a library that does not answer; an ordinary exit would wait for it too.
    exit::immediately(served.map(|()| Exit::Done))
}

async fn serve(args: &ExporterArgs, rules: AccessRules) -> Result<(), Failure> {
    // Before the first line is printed: a signal sent in response to it must be handled.
    let mut signals = Signals::new()?;
    let listener = match args.listen() {
        Some(address) => Some(serve::bind(address, "--listen").await?),
        None => None,
    };
    let monitor = Monitor::start(|| args.host.tree(), args.plan())?;
    let encoder = Arc::new(Encoder::new(monitor, args.compat, false));
    let (phase, life) = watch::channel(Phase::Serving);
    let file = args.textfile.as_deref().map(|folder| TextFile::new(folder, encoder.clone()));
    let writing = file.map(|file| {
        output::note(&format!(
            "text   {}, every {:?}",
            file.path().display(),
            args.rdma_interval()
        ));
        tokio::spawn(file.write_until(args.rdma_interval(), life.clone()))
    });
    let serving = listener.map(|listener| {
        if let Ok(address) = listener.local_addr() {
            output::note(&format!("HTTP   {}://{address}/metrics", rules.scheme()));
        }
        tokio::spawn(web::serve(
            listener,
            ProtectedSite::new(ExporterPages::new(encoder), rules),
            life,
        ))
    });
    signals.next().await;
    let _ = phase.send(Phase::Stopping);
    let ended = async {
        if let Some(writing) = writing {
            let _ = writing.await;
        }
        if let Some(serving) = serving {
            let _ = serving.await;
        }
    };
    tokio::select! {
        _ = timeout(CLOSE_TIMEOUT, ended) => {}
        () = signals.next() => {}
    }
    Ok(())
}

/// Timeout of collectors with --once: on a slow machine the first reading takes longest.
const ONCE_TIMEOUT: Duration = Duration::from_secs(60);

/// How long connections may take to close, and the text file to be written.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
