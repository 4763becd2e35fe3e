//! Links in a runtime.

use std::time::Duration;

use fabric::link::Class;
use fabric::{Failure, Rights, drive};

use crate::pair::{LIMIT, Two};

async fn everything_can_be_awaited(class: Class) {
    let two = tokio::task::spawn_blocking(move || Two::over(class)).await.unwrap();
    let source = two.region(0, 1 << 20, Rights::NONE);
    let shared = two.region(1, 1 << 20, Rights::ALL);
    let room = two.region(1, 64, Rights::NONE);
    let Two { dialler, acceptor, listener, ends } = two;
    let (a, drive_a) = drive(Box::new(dialler));
    let (b, drive_b) = drive(Box::new(acceptor));
    let tasks = [tokio::spawn(drive_a), tokio::spawn(drive_b)];
    let window = a.import(&b.grant(&shared).await.unwrap()).await.unwrap();
    source.memory().write(0, b"over there");
    a.write(source.slice(..), window.at(0)).await.unwrap();
    assert_eq!(shared.slice(..10).to_vec(), b"over there");
    a.read(source.slice(64..128), window.at(0)).await.unwrap();
    assert_eq!(source.slice(64..74).to_vec(), b"over there");
    let (sent, received) = tokio::join!(a.send(source.slice(..10)), b.receive(room.slice(..)));
    assert_eq!((sent, received), (Ok(()), Ok((10, None))));

    // Idle for longer than the link's own clock ticks, then at work again.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let receive = tokio::spawn({
        let (b, room) = (b.clone(), room.clone());
        async move { b.receive(room.slice(..)).await }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    a.write_imm(source.slice(..4), window.at(0), 9).await.unwrap();
    assert_eq!(receive.await.unwrap(), Ok((4, Some(9))));

    drop(a);
    let [task_a, task_b] = tasks;
    task_a.await.unwrap();
    let outcome = b.receive(room.slice(..)).await;
    assert!(matches!(outcome, Err(Failure::PeerGone)), "{outcome:?}");
    drop(b);
    task_b.await.unwrap();
    drop((listener, ends));
}

#[tokio::test]
async fn over_shared_memory_and_tcp() {
    for class in [Class::Shm, Class::Tcp] {
        tokio::time::timeout(LIMIT, everything_can_be_awaited(class)).await.expect("it ends");
    }
}
