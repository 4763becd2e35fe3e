//! A tour of the async client: tasks that share a connection, batches, conditional writes and errors.
//!
//! Start a store with `wirelane serve`, then `cargo run -p wirelane-kv-client --example async -- localhost:50051`.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use kv_client::{AsyncClient, Condition, Error, ErrorKind, PutOptions, Settings};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    run(&std::env::args().nth(1).unwrap_or_else(|| "localhost:50051".to_owned())).await
}

/// Runs the example with the store at this address.
pub(crate) async fn run(server: &str) -> Result<(), Error> {
    let client = AsyncClient::connect(Settings::new(server)).await?;
    let always = PutOptions::default();

    // Concurrent requests are sent together, also those of clones in other tasks.
    let (one, two) = tokio::join!(
        client.put(b"example/one", b"1", &always),
        client.put(b"example/two", b"2", &always),
    );
    println!("versions {} and {}", one?.version, two?.version);
    let values = client.get_many(&[b"example/one", b"example/two"]).await?;
    println!("{:?}", values.iter().flatten().map(|value| value.to_vec()).collect::<Vec<_>>());

    // A lock with a time to live: one of the tasks gets it.
    let lock = always.with_condition(Condition::IfAbsent).with_ttl(Duration::from_secs(60));
    let tasks: Vec<_> = (0..3_u8)
        .map(|task| {
            let client = client.clone();
            tokio::spawn(async move { client.put(b"example/lock", [task], &lock).await })
        })
        .collect();
    for (number, task) in tasks.into_iter().enumerate() {
        match task.await.expect("the task does not panic") {
            Ok(_) => println!("task {number} has the lock"),
            // An error has a kind to act on.
            Err(error) if matches!(error.kind(), ErrorKind::Condition(_)) => {
                println!("task {number} does not: {error}");
            }
            Err(error) => return Err(error),
        }
    }

    // A timeout for some calls only. A call that times out leaves nothing open at the store.
    let quick = client.with_timeout(Duration::from_secs(2));
    match quick.get(b"example/one").await {
        Err(error) if error.kind() == ErrorKind::TimedOut => println!("too slow: {error:#}"),
        got => println!("{:?}", got?),
    }
    for key in ["one", "two", "lock"] {
        client.delete(format!("example/{key}").as_bytes(), Condition::Always).await?;
    }
    Ok(())
}
