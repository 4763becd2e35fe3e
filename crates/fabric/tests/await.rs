//! Lanes driven by an async runtime.
#![allow(missing_docs, reason = "a test")]

use std::time::Duration;

use fabric::{AsyncLane, Fabric, Failure, Memory, Pages, Region, Rights, Side, drive, shm, tcp};
use tokio::task::JoinHandle;

/// Two handles, and their tasks.
async fn pair(fabric: &dyn Fabric) -> ([AsyncLane; 2], [JoinHandle<()>; 2]) {
    let (dial, accept) =
        (fabric.prepare_lane(Side::Dial).unwrap(), fabric.prepare_lane(Side::Accept).unwrap());
    let (to_a, to_b) = (accept.offer(), dial.offer());
    let limit = Duration::from_secs(20);
    let accepted = tokio::task::spawn_blocking(move || accept.connect(&to_b, limit).unwrap());
    let dialled = tokio::task::spawn_blocking(move || dial.connect(&to_a, limit).unwrap());
    let (a, drive_a) = drive(dialled.await.unwrap());
    let (b, drive_b) = drive(accepted.await.unwrap());
    ([a, b], [tokio::spawn(drive_a), tokio::spawn(drive_b)])
}

fn region(fabric: &dyn Fabric, length: usize, rights: Rights) -> Region {
    fabric.register(&Memory::allocate(length, Pages::Plain).unwrap(), rights).unwrap()
}

async fn everything_can_be_awaited(fabric: &dyn Fabric) {
    let ([a, b], tasks) = pair(fabric).await;
    let shared = region(fabric, 1 << 20, Rights::ALL);
    let window = a.import(&b.grant(&shared).await.unwrap()).await.unwrap();
    let source = region(fabric, 1 << 20, Rights::NONE);
    source.memory().write(0, b"over there");
    // No caller awaits at b: its task still executes requests.
    a.write(source.slice(..), window.at(0)).await.unwrap();
    assert_eq!(shared.slice(..10).to_vec(), b"over there");
    let back = region(fabric, 10, Rights::NONE);
    a.read(back.slice(..), window.at(0)).await.unwrap();
    assert_eq!(back.slice(..).to_vec(), b"over there");

    let buffer = region(fabric, 64, Rights::NONE);
    let (sent, received) = tokio::join!(a.send(source.slice(..10)), b.receive(buffer.slice(..)));
    assert_eq!((sent, received), (Ok(()), Ok((10, None))));
    let (sent, received) =
        tokio::join!(a.write_imm(source.slice(..4), window.at(0), 9), b.receive(buffer.slice(..)));
    assert_eq!((sent, received), (Ok(()), Ok((4, Some(9)))));

    drop(a);
    let [task_a, task_b] = tasks;
    task_a.await.unwrap();
    // Posted before or after the end was noticed.
    let outcome = b.receive(buffer.slice(..)).await;
    assert!(matches!(outcome, Err(Failure::PeerGone | Failure::Flushed)), "{outcome:?}");
    drop(b);
    task_b.await.unwrap();
}

/// More operations than fit the lane: callers wait, and none is lost.
async fn thousands_at_the_same_time(fabric: &dyn Fabric) {
    let ([a, b], _tasks) = pair(fabric).await;
    let shared = region(fabric, 8 * 5000, Rights::ALL);
    let window = a.import(&b.grant(&shared).await.unwrap()).await.unwrap();
    let source = region(fabric, 8 * 5000, Rights::NONE);
    let mut writers = Vec::new();
    for n in 0..5000usize {
        source.memory().store(8 * n, n as u64);
        let (a, from, to) = (a.clone(), source.slice(8 * n..8 * n + 8), window.at(8 * n as u64));
        writers.push(tokio::spawn(async move { a.write(from, to).await }));
    }
    for writer in writers {
        writer.await.unwrap().unwrap();
    }
    assert_eq!(shared.slice(..).to_vec(), source.slice(..).to_vec());
}

/// More receives than fit the lane do not block sends, and the task ends with its last
/// handle even if receives wait.
async fn receives_and_sends_do_not_wait_for_each_other(fabric: &dyn Fabric) {
    let ([a, b], [task, _other]) = pair(fabric).await;
    let buffer = region(fabric, 8, Rights::NONE);
    let mut pending = Vec::new();
    for _ in 0..7000 {
        let (a, into) = (a.clone(), buffer.slice(..));
        pending.push(tokio::spawn(async move { a.receive(into).await }));
    }
    tokio::task::yield_now().await;
    let source = region(fabric, 8, Rights::NONE);
    let limit = Duration::from_secs(20);
    let sent = async { tokio::join!(a.send(source.slice(..)), b.receive(buffer.slice(..))) };
    let sent = tokio::time::timeout(limit, sent).await.expect("the send is blocked");
    assert_eq!(sent, (Ok(()), Ok((8, None))));
    for receive in &pending {
        receive.abort();
    }
    for receive in pending {
        let _ = receive.await;
    }
    drop(a);
    tokio::time::timeout(limit, task).await.expect("the task ends").unwrap();
}

#[tokio::test]
async fn over_tcp() {
    everything_can_be_awaited(&tcp::Tcp::default()).await;
    thousands_at_the_same_time(&tcp::Tcp::default()).await;
    receives_and_sends_do_not_wait_for_each_other(&tcp::Tcp::default()).await;
}

#[tokio::test]
async fn over_shared_memory() {
    everything_can_be_awaited(&shm::Shm::default()).await;
    thousands_at_the_same_time(&shm::Shm::default()).await;
    receives_and_sends_do_not_wait_for_each_other(&shm::Shm::default()).await;
}

#[tokio::test]
async fn a_dropped_task_is_an_error() {
    let fabric = tcp::Tcp::default();
    let ([a, _b], [task, _]) = pair(&fabric).await;
    task.abort();
    let _ = task.await;
    let source = region(&fabric, 8, Rights::ALL);
    assert_eq!(a.send(source.slice(..)).await, Err(Failure::Flushed));
    let error = a.grant(&source).await.unwrap_err().to_string();
    assert!(error.contains("its driver task has ended"), "{error}");
}
