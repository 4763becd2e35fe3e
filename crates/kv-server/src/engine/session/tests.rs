//! Sessions that are resumed, exceed their limits, or end.

use kv_proto::wire::Status;

use super::*;

fn answer(version: u64) -> Answer {
    Answer { version, ..Answer::new(Status::Ok) }
}

#[test]
fn a_repeated_write_gets_its_first_answer() {
    let sessions = Sessions::new(64, 1 << 20);
    let (session, known) = sessions.enter(None, "me").unwrap();
    assert!(!known);
    assert_eq!(session.start_write(0), WriteStart::New);
    assert_eq!(session.start_write(0), WriteStart::InFlight);
    assert!(session.has_write(0) && !session.has_write(1));
    session.finish_write(0, answer(7));
    session.leave();
    let (again, known) = sessions.enter(Some(session.id()), "me").unwrap();
    assert!(known);
    assert_eq!(again.start_write(0), WriteStart::Done(answer(7)));
    assert_eq!(again.start_write(2), WriteStart::New, "in any order");
    assert_eq!(again.start_write(1), WriteStart::New);
    again.cancel_write(1);
    assert_eq!(again.start_write(1), WriteStart::New);
}

#[test]
fn another_identity_cannot_resume_it() {
    let sessions = Sessions::new(64, 1 << 20);
    let (session, _) = sessions.enter(None, "me").unwrap();
    let (other, known) = sessions.enter(Some(session.id()), "you").unwrap();
    assert!(!known && other.id() != session.id());
    assert!(sessions.find(&session.id(), "you").is_none());
    assert!(sessions.find(&session.id(), "me").is_some());
}

#[test]
fn the_oldest_writes_are_forgotten() {
    let sessions = Sessions::new(64, 1 << 20);
    let (session, _) = sessions.enter(None, "me").unwrap();
    for sequence in 0..MAX_REMEMBERED_WRITES * 2 {
        assert_eq!(session.start_write(sequence), WriteStart::New);
        session.finish_write(sequence, answer(sequence));
    }
    assert_eq!(session.start_write(0), WriteStart::Forgotten);
    assert_eq!(session.start_write(1 << 40), WriteStart::Forgotten, "it takes no memory");
    let last = MAX_REMEMBERED_WRITES * 2 - 1;
    assert_eq!(session.start_write(last), WriteStart::Done(answer(last)));
}

#[test]
fn one_identity_may_use_a_quarter_and_replaces_its_own() {
    let sessions = Sessions::new(8, 1 << 20);
    let enter = |identity| sessions.enter(None, identity).map(|(session, _)| session);
    let (first, second) = (enter("many").unwrap(), enter("many").unwrap());
    let other = enter("other").unwrap();
    other.leave();
    assert!(enter("many").is_none(), "its two of eight are in use");
    first.leave();
    let third = enter("many").unwrap();
    assert!(sessions.find(&first.id(), "many").is_none());
    assert!(sessions.find(&other.id(), "other").is_some(), "although it was left earlier");
    drop((second, third));
}

/// Executes writes, from the first number on.
fn write(session: &Session, count: u64) {
    for sequence in 0..count {
        assert_eq!(session.start_write(sequence), WriteStart::New);
        session.finish_write(sequence, answer(sequence));
    }
}

#[test]
fn sessions_left_first_are_removed_for_bytes_and_not_resumed() {
    let limit = 4 << 20;
    let sessions = Sessions::new(1000, limit);
    let ids: Vec<_> = (0..100)
        .map(|_| {
            let (session, _) = sessions.enter(None, "me").unwrap();
            write(&session, 4096);
            session.leave();
            assert!(sessions.bytes() <= limit, "{}", sessions.bytes());
            session.id()
        })
        .collect();
    assert!(sessions.evicted() > 50 && sessions.find(&ids[0], "me").is_none());
    let (last, resumed) = sessions.enter(Some(ids[99]), "me").unwrap();
    assert!(resumed);
    assert_eq!(last.start_write(4095), WriteStart::Done(answer(4095)));
    let (_first, resumed) = sessions.enter(Some(ids[0]), "me").unwrap();
    assert!(!resumed, "its client reports unknown outcomes");
}

#[test]
fn sessions_in_use_forget_their_oldest_writes_for_bytes() {
    let limit = 4 << 20;
    let sessions = Sessions::new(1000, limit);
    let used: Vec<_> = (0..100).map(|_| sessions.enter(None, "me").unwrap().0).collect();
    for session in &used {
        write(session, 4096);
    }
    assert!(sessions.bytes() <= limit, "{}", sessions.bytes());
    assert_eq!((sessions.len(), sessions.evicted()), (100, 0));
    let first = &used[0];
    assert_eq!(first.start_write(0), WriteStart::Forgotten, "not executed again");
    assert_eq!(first.start_write(4095), WriteStart::Done(answer(4095)), "its newest");
}

#[test]
fn an_ended_session_keeps_nothing() {
    let sessions = Sessions::new(64, 1 << 20);
    let (session, _) = sessions.enter(None, "me").unwrap();
    write(&session, 100);
    assert!(sessions.bytes() > 100 * size_of::<Answer>());
    session.leave();
    sessions.end(&session);
    let id = session.id();
    drop(session);
    assert_eq!((sessions.bytes(), sessions.len()), (0, 0));
    assert!(!sessions.enter(Some(id), "me").unwrap().1);
}

/// A late goodbye of a connection that was lost, or given up, before the client connected again.
#[test]
fn a_session_that_was_resumed_does_not_end_with_its_earlier_connection() {
    let sessions = Sessions::new(64, 1 << 20);
    let (session, _) = sessions.enter(None, "me").unwrap();
    let (again, resumed) = sessions.enter(Some(session.id()), "me").unwrap();
    assert!(resumed);
    session.leave();
    sessions.end(&session);
    assert!(sessions.find(&session.id(), "me").is_some());
    again.leave();
    sessions.end(&again);
    assert!(sessions.is_empty());
}

/// Sessions as gRPC has them: used only during a call.
fn unused(sessions: &Sessions, identity: &str, writes: u64) -> SessionId {
    let (session, _) = sessions.enter(None, identity).unwrap();
    write(&session, writes);
    session.leave();
    session.id()
}

#[test]
fn an_identity_that_takes_more_than_its_share_loses_its_own_sessions_first() {
    let sessions = Sessions::new(1000, 4 << 20);
    let other = unused(&sessions, "other", 4096);
    for _ in 0..100 {
        unused(&sessions, "many", 4096);
    }
    assert!(sessions.evicted() > 50 && sessions.bytes() <= 4 << 20);
    assert!(sessions.find(&other, "other").is_some(), "although it was left first");
}

/// A write in flight keeps its session from forgetting, and removing a session that a call uses frees nothing.
#[test]
fn writes_in_flight_neither_exceed_the_limit_nor_evict_others() {
    let limit = 1 << 20;
    let sessions = Sessions::new(1000, limit);
    let other = unused(&sessions, "other", 100);
    let mut held = Vec::new();
    for _ in 0..100 {
        let (session, _) = sessions.enter(None, "many").unwrap();
        assert_eq!(session.start_write(0), WriteStart::New, "and does not end");
        for sequence in 1..1024 {
            if session.start_write(sequence) == WriteStart::New {
                session.finish_write(sequence, answer(sequence));
            }
        }
        session.leave();
        held.push(session);
    }
    let last_writes = map_bytes(2 * MIN_REMEMBERED_WRITES as usize - 1);
    let (bytes, max) = (sessions.bytes(), limit + held.len() * (last_writes + 1000));
    assert!(bytes <= max, "{bytes}, and at most {max} with the last writes of each");
    assert!(sessions.find(&other, "other").is_some());
    assert_eq!(held[99].start_write(0), WriteStart::InFlight, "not executed twice");
}

/// However little memory there is, a session whose writes end goes on, from any number, and remembers the last ones.
#[test]
fn a_session_goes_on_while_others_exceed_the_limit() {
    let sessions = Sessions::new(1000, 64 << 10);
    let held: Vec<_> = (0..20).map(|_| sessions.enter(None, "many").unwrap().0).collect();
    for session in &held {
        for sequence in 0..120 {
            assert_eq!(session.start_write(sequence), WriteStart::New);
        }
    }
    assert!(sessions.bytes() > 2 * sessions.max_bytes(), "all of them are in flight");
    for first in [0, 1, 5000, 1 << 40] {
        let (session, _) = sessions.enter(None, "one").unwrap();
        for sequence in first..first + 5000 {
            assert_eq!(session.start_write(sequence), WriteStart::New, "{sequence}");
            session.finish_write(sequence, answer(sequence));
            // Some are tried again: these leave gaps.
            if sequence % 3 == 0 {
                session.cancel_write(sequence);
                assert_eq!(session.start_write(sequence), WriteStart::New);
                session.finish_write(sequence, answer(sequence));
            }
            let earlier = sequence.saturating_sub(100).max(first);
            assert_eq!(session.start_write(earlier), WriteStart::Done(answer(earlier)));
        }
        assert!(map_bytes(lock(&session.writes).allocated) <= map_bytes(448));
        session.leave();
    }
}

#[test]
fn the_count_of_bytes_is_right_with_several_calls_in_one_session() {
    let sessions = Sessions::new(64, 64 << 20);
    let (session, _) = sessions.enter(None, "me").unwrap();
    std::thread::scope(|scope| {
        for first in 0..4 {
            let session = &session;
            scope.spawn(move || {
                for sequence in (first..4096).step_by(4) {
                    session.start_write(sequence);
                }
            });
        }
    });
    let allocated = lock(&session.writes).allocated;
    let bytes = size_of::<Session>() + "me".len() + map_bytes(allocated);
    assert_eq!(sessions.bytes(), bytes);
}

#[test]
fn skipped_numbers_take_no_memory() {
    let (session, _) = Sessions::new(64, 1 << 20).enter(None, "me").unwrap();
    assert_eq!(session.start_write(1), WriteStart::New);
    assert_eq!(session.start_write(2 * MAX_REMEMBERED_WRITES - 1), WriteStart::New);
    assert_eq!(lock(&session.writes).known.len(), 2);
}

#[test]
fn sessions_without_users_expire() {
    let sessions = Sessions::new(64, 1 << 20);
    let (session, _) = sessions.enter(None, "me").unwrap();
    assert_eq!(sessions.expire(Instant::now()), None, "it is in use");
    session.leave();
    assert!(sessions.expire(Instant::now()).is_some_and(|next| next <= SESSION_LIFETIME));
    assert_eq!(sessions.expire(Instant::now() + SESSION_LIFETIME), None);
    assert!(sessions.is_empty());
}
