//! Links in an async runtime.

use std::time::Duration;

use fabric::link::Transport;
use fabric::{Failure, Rights, drive};

use crate::pair::{LIMIT, LinkPair};

async fn all_operations_can_be_awaited(transport: Transport) {
    let pair = tokio::task::spawn_blocking(move || LinkPair::over(transport)).await.unwrap();
    let source = pair.region(0, 1 << 20, Rights::NONE);
    let shared = pair.region(1, 1 << 20, Rights::ALL);
    let into = pair.region(1, 64, Rights::NONE);
    let LinkPair { initiator, accepted, listener, ends } = pair;
    let (a, drive_a) = drive(Box::new(initiator));
    let (b, drive_b) = drive(Box::new(accepted));
    let tasks = [tokio::spawn(drive_a), tokio::spawn(drive_b)];
    let window = a.import(&b.grant(&shared).await.unwrap()).await.unwrap();
    source.memory().write(0, b"some bytes");
    a.write(source.slice(..), window.at(0)).await.unwrap();
    assert_eq!(shared.slice(..10).to_vec(), b"some bytes");
    a.read(source.slice(64..128), window.at(0)).await.unwrap();
    assert_eq!(source.slice(64..74).to_vec(), b"some bytes");
    let (sent, received) = tokio::join!(a.send(source.slice(..10)), b.receive(into.slice(..)));
    assert_eq!((sent, received), (Ok(()), Ok((10, None))));

    // Idle for longer than the heartbeat interval, then in use again.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let receive = tokio::spawn({
        let (b, into) = (b.clone(), into.clone());
        async move { b.receive(into.slice(..)).await }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    a.write_imm(source.slice(..4), window.at(0), 9).await.unwrap();
    assert_eq!(receive.await.unwrap(), Ok((4, Some(9))));

    drop(a);
    let [task_a, task_b] = tasks;
    task_a.await.unwrap();
    let outcome = b.receive(into.slice(..)).await;
    assert!(matches!(outcome, Err(Failure::PeerGone)), "{outcome:?}");
    drop(b);
    task_b.await.unwrap();
    drop((listener, ends));
}

#[tokio::test]
async fn over_shared_memory_and_tcp() {
    for transport in [Transport::Shm, Transport::Tcp] {
        tokio::time::timeout(LIMIT, all_operations_can_be_awaited(transport))
            .await
            .expect("it ends");
    }
}
