//! Two endpoints of one host, the link between them, a write and a message:
//! `cargo run -p wirelane-fabric --example link`, with `shm` or `tcp` as an argument to allow only one transport.
#![allow(clippy::print_stdout, reason = "prints its result")]

use std::collections::VecDeque;
use std::error::Error;
use std::thread;
use std::time::{Duration, Instant};

use fabric::link::{Endpoint, EndpointSettings, Link, Transport};
use fabric::{Completion, Done, Lane, Memory, Op, Pages, RemoteRegion, Rights, wait};

/// The result of a step.
pub(crate) type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Outcome<()> {
    let transport = match std::env::args().nth(1).as_deref() {
        Some("shm") => vec![Transport::Shm],
        Some("tcp") => vec![Transport::Tcp],
        _ => Transport::DEFAULT.to_vec(),
    };
    let (transport, text) = run(transport)?;
    println!("over {transport}: {text:?}");
    Ok(())
}

/// Runs the example; returns the transport of the link, and the text that was written into the other end's memory.
pub(crate) fn run(transports: Vec<Transport>) -> Outcome<(&'static str, String)> {
    let settings = EndpointSettings { transports, ..EndpointSettings::default() };

    // One endpoint listens. The link is set up by a handshake over TCP; its transport is then chosen from those that
    // both ends have.
    let listening = Endpoint::new(settings.clone())?;
    let listener = listening.listen("127.0.0.1:0".parse()?)?;
    let address = listener.address();
    let server = thread::spawn(move || -> Outcome<String> {
        let accepted = listener.accept(LIMIT).ok_or("no client connected")?;
        serve(&listening, accepted?)
    });

    let calling = Endpoint::new(settings)?;
    let link = calling.connect(address, LIMIT)?;
    let transport = link.report().status().transport.unwrap_or("no transport");
    call(&calling, link)?;
    let text = server.join().map_err(|_| "the server panicked")??;
    Ok((transport, text))
}

/// Grants memory, sends a description of it, and waits until something was written there.
fn serve(endpoint: &Endpoint, mut link: Link) -> Outcome<String> {
    // The peer may write here, and nothing else.
    let write = Rights { write: true, ..Rights::NONE };
    let granted = endpoint.register(&Memory::allocate(4096, Pages::Auto)?, write)?;
    let messages = endpoint.register(&Memory::allocate(4096, Pages::Auto)?, Rights::NONE)?;

    let description = link.grant(&granted)?.to_bytes();
    messages.memory().write(0, &description);
    finish(&mut link, Op::send(1, messages.slice(..description.len())))?;

    // The message is the number of bytes written. It is sent after the write has completed.
    finish(&mut link, Op::receive(2, messages.slice(..8)))?;
    let mut length = [0; 8];
    messages.memory().read(0, &mut length);
    let length = usize::try_from(u64::from_le_bytes(length))?.min(granted.len());
    // The peer closes the link when its message is acknowledged. If we closed it before, the send could fail.
    let end = Instant::now() + LIMIT;
    while link.ended().is_none() && Instant::now() < end {
        wait(&mut link, &mut Vec::new(), Duration::from_millis(100));
    }
    Ok(String::from_utf8(granted.slice(..length).to_vec())?)
}

/// Receives the description of the server's memory, writes there, and sends the length.
fn call(endpoint: &Endpoint, mut link: Link) -> Outcome<()> {
    let ours = endpoint.register(&Memory::allocate(4096, Pages::Auto)?, Rights::NONE)?;
    let received = finish(&mut link, Op::receive(1, ours.slice(..256)))?;
    let Done::Received { length, .. } = received else { return Err("no message".into()) };
    let window = link.import(&RemoteRegion::from_bytes(&ours.slice(..length).to_vec())?)?;

    let text = b"written straight into your memory";
    ours.memory().write(0, text);
    // A completed write is in the other end's memory.
    finish(&mut link, Op::write(2, ours.slice(..text.len()), window.at(0)))?;
    ours.memory().write(0, &(text.len() as u64).to_le_bytes());
    finish(&mut link, Op::send(3, ours.slice(..8)))?;
    // Dropping the link closes it.
    Ok(())
}

/// Posts one operation and waits for its completion.
fn finish(link: &mut Link, op: Op) -> Outcome<Done> {
    let mut ops = VecDeque::from([op]);
    let mut done: Vec<Completion> = Vec::new();
    while done.is_empty() {
        link.post(&mut ops);
        if wait(link, &mut done, LIMIT) == 0
            && let Some(why) = link.ended()
        {
            return Err(why.into());
        }
    }
    Ok(done.remove(0).outcome?)
}

const LIMIT: Duration = Duration::from_secs(10);
