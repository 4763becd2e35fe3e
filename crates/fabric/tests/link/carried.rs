//! What lanes did is known when they are gone.

use fabric::OpKind;
use fabric::link::Class;

use crate::two::Two;

#[test]
fn what_was_carried_stays_when_links_are_gone() {
    for class in [Class::Shm, Class::Tcp] {
        let two = Two::over(class);
        let ends = two.ends.clone();
        two.exercise();
        let carried = ends[0].carried(class);
        assert!(carried.bytes(OpKind::Write) >= 8 << 20, "{class:?}: {carried:?}");
        assert!(carried.operations(OpKind::Send) > 0 && carried.latency().count() > 0);
        assert!(ends[1].carried(class).operations(OpKind::Receive) > 0);
        assert_eq!(ends[0].carried(Class::Verbs).operations(OpKind::Write), 0);
    }
}
