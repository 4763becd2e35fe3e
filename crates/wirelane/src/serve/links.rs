//! The links of peers: each has a task that drives it, and one that serves it.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fabric::link::{Endpoint, Event, Happening, Link, Listener, Report};
use fabric::{AsyncLane, Memory, Pages, Region, Rights, drive};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::exit::Failure;
use crate::hello::{Hello, MOST_ECHO, SCRATCH};

/// Takes links until told to stop, then lets each say goodbye.
pub(super) async fn serve(
    endpoint: Endpoint,
    door: Arc<Listener>,
    mut stopping: watch::Receiver<bool>,
) {
    let (came, mut coming) = mpsc::unbounded_channel();
    let stop = stopping.clone();
    let thread = std::thread::Builder::new().name("wirelane-accept".to_owned());
    if let Err(error) = thread.spawn(move || accept(&door, &came, &stop)) {
        tracing::error!(%error, "cannot start the thread that takes links: no peer is served");
    }
    let mut guests = JoinSet::new();
    // They stay in the status for a while.
    let mut ended: VecDeque<Arc<Report>> = VecDeque::new();
    loop {
        tokio::select! {
            Some(link) = coming.recv() => {
                guests.spawn(attend(link, endpoint.clone(), stopping.clone()));
            }
            Some(Ok(report)) = guests.join_next() => {
                ended.push_back(report);
                ended.drain(..ended.len().saturating_sub(ENDED_KEPT));
            }
            _ = stopping.changed() => break,
        }
    }
    while guests.join_next().await.is_some() {}
}

/// One line for each thing that happens to a link.
pub(super) fn log(peer: SocketAddr, event: &Event) {
    let Event { rail, why, .. } = event;
    match event.what {
        Happening::RailUp => tracing::info!(%peer, %rail, %why, "rail up"),
        Happening::Switch => tracing::info!(%peer, %rail, %why, "link switched"),
        Happening::RailRefused => tracing::debug!(%peer, %rail, %why, "rail refused"),
        Happening::RailDown => tracing::warn!(%peer, %rail, %why, "rail down"),
        Happening::Closed => tracing::info!(%peer, %why, "link closed"),
        Happening::Ended => tracing::warn!(%peer, %why, "link ended"),
    }
}

/// Waiting for callers blocks, so it has a thread.
fn accept(door: &Listener, came: &mpsc::UnboundedSender<Link>, stopping: &watch::Receiver<bool>) {
    while !*stopping.borrow() {
        match door.accept(GLANCE) {
            Some(Ok(link)) => {
                tracing::debug!(peer = %link.report().explain().peer, "a peer has called");
                if came.send(link).is_err() {
                    return;
                }
            }
            Some(Err(error)) => tracing::warn!(%error, "cannot take a link"),
            None => {}
        }
    }
}

/// From the first word to the last; what remains is its report.
async fn attend(
    link: Link,
    endpoint: Endpoint,
    mut stopping: watch::Receiver<bool>,
) -> Arc<Report> {
    let report = link.report().clone();
    let peer = report.explain().peer;
    let (lane, driver) = drive(Box::new(link));
    let driver = tokio::spawn(driver);
    tokio::select! {
        Err(failure) = measured(&lane, &endpoint) => tracing::debug!(%peer, %failure, "served"),
        _ = stopping.changed() => {}
    }
    // The driver ends with the last handle, and the link with it.
    drop(lane);
    let _ = driver.await;
    report
}

/// The measuring service: memory for the peer, then everything it says back. See [`Hello`].
async fn measured(lane: &AsyncLane, endpoint: &Endpoint) -> Result<(), Failure> {
    let endpoint = endpoint.clone();
    // Registering may wait for a device.
    let rooms = tokio::task::spawn_blocking(move || rooms(&endpoint)).await;
    let (scratch, desk) = rooms.map_err(|error| Failure::failed(error.to_string()))??;
    let hello = Hello { scratch: lane.grant(&scratch).await? };
    desk.memory().write(0, &hello.to_bytes());
    let lost = |failure: fabric::Failure| Failure::failed(failure.to_string());
    lane.send(desk.slice(..Hello::LENGTH)).await.map_err(lost)?;
    loop {
        // A message that is too long ends the link.
        let (length, number) = lane.receive(desk.slice(..)).await.map_err(lost)?;
        if number.is_none() {
            lane.send(desk.slice(..length)).await.map_err(lost)?;
        }
    }
}

fn rooms(endpoint: &Endpoint) -> Result<(Region, Region), fabric::Error> {
    let open = Rights { read: true, write: true, atomic: false };
    let scratch = endpoint.register(&Memory::allocate(SCRATCH, Pages::Plain)?, open)?;
    let desk = endpoint.register(&Memory::allocate(MOST_ECHO, Pages::Plain)?, Rights::NONE)?;
    Ok((scratch, desk))
}

/// How soon the thread that waits for callers notices that it shall stop.
const GLANCE: Duration = Duration::from_millis(500);
const ENDED_KEPT: usize = 8;
