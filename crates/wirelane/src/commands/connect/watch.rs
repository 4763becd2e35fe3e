//! Prints the events of a link.

use fabric::drive;
use fabric::link::{Event, EventKind, Link};
use tokio::sync::mpsc::UnboundedReceiver;

use super::report;
use crate::output;
use crate::output::Failure;
use crate::signals::Signals;

/// Until Ctrl-C, or until the link ends, which is a failure.
pub(super) fn run(
    link: Link,
    mut events: UnboundedReceiver<Event>,
    json: bool,
) -> Result<(), Failure> {
    // Events so far are in the report, which is printed already.
    while events.try_recv().is_ok() {}
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("start the event loop: {error}")))?;
    runtime.block_on(watch(link, events, json))
}

async fn watch(
    link: Link,
    mut events: UnboundedReceiver<Event>,
    json: bool,
) -> Result<(), Failure> {
    let mut signals = Signals::new()?;
    output::progress("watching; press Ctrl-C to stop");
    let (lane, driver) = drive(Box::new(link));
    let driver = tokio::spawn(driver);
    let outcome = loop {
        let event = tokio::select! {
            () = signals.next() => break Ok(()),
            event = events.recv() => event,
        };
        let Some(event) = event else { break Ok(()) };
        match json {
            true => drop(output::json_line(&event)?),
            false => output::text(&format!("{}\n", report::event(&event)))?,
        }
        if matches!(event.what, EventKind::Ended | EventKind::Closed) {
            break Err(Failure::failed(format!("the link ended: {}", event.why)));
        }
    };
    // The driver ends with its last handle, and the link closes.
    drop(lane);
    let _ = driver.await;
    outcome
}
