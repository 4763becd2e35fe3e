//! A tour of the blocking client: put, get, batches, conditional writes, listings and errors.
//!
//! Start a store with `wirelane serve`, then `cargo run -p wirelane-kv-client --example sync -- localhost:50051`.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use kv_client::{Client, Condition, Cursor, Error, ErrorKind, PutOptions, Settings};

fn main() -> Result<(), Error> {
    run(&std::env::args().nth(1).unwrap_or_else(|| "localhost:50051".to_owned()))
}

/// Runs the example with the store at this address.
pub(crate) fn run(server: &str) -> Result<(), Error> {
    // Every setting has a default. Further servers are used when the first cannot be reached, or is lost.
    let settings = Settings::new(server).with_timeout(Duration::from_secs(10));
    let mut client = Client::connect(settings)?;
    let always = PutOptions::default();

    // Keys and values are any bytes. A value is used like a slice, and frees its memory when it is dropped.
    let first = client.put(b"example/greeting", b"hello", &always)?;
    if let Some(value) = client.get(b"example/greeting")? {
        println!("{} ({:?})", String::from_utf8_lossy(&value), value.metadata());
    }

    // A batch: many values by few requests. Each write has its own result.
    let items: [(&[u8], &[u8]); 3] =
        [(b"example/a", b"1"), (b"example/b", b"2"), (b"example/c", b"3")];
    for stored in client.put_many(&items, &always) {
        stored?;
    }
    let found = client.get_many(&[b"example/a", b"example/none", b"example/c"])?;
    println!("{} of 3 keys exist", found.iter().flatten().count());

    // A conditional write: replace the version that was read, and no other.
    let unchanged = always.with_condition(Condition::IfVersion(first.version));
    client.put(b"example/greeting", b"hello again", &unchanged)?;

    // An error has a kind to act on. This version is not the current one any more.
    match client.put(b"example/greeting", b"hello once more", &unchanged) {
        Ok(stored) => println!("stored as version {}", stored.version),
        Err(error) => match error.kind() {
            ErrorKind::Condition(Some(version)) => {
                println!("changed: it has version {version} now")
            }
            ErrorKind::Condition(None) => println!("deleted"),
            // The connection was lost during the write: read before you write again.
            ErrorKind::Unknown => println!("it may have happened: {error:#}"),
            _ => return Err(error),
        },
    }

    // Listings come in pages.
    let mut next = Some(Cursor::START);
    while let Some(cursor) = next {
        let page = client.list(b"example/", cursor)?;
        for (key, _) in page.keys {
            println!("deleting {}", String::from_utf8_lossy(&key));
            client.delete(&key, Condition::Always)?;
        }
        next = page.next;
    }
    Ok(())
}
