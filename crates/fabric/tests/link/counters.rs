//! What lanes did is known when they are gone.

use fabric::OpKind;
use fabric::link::Class;

use crate::pair::Two;

#[test]
fn what_was_transferred_stays_when_links_are_gone() {
    for class in [Class::Shm, Class::Tcp] {
        let two = Two::over(class);
        let ends = two.ends.clone();
        two.exercise();
        let transferred = ends[0].transferred(class);
        assert!(transferred.bytes(OpKind::Write) >= 8 << 20, "{class:?}: {transferred:?}");
        assert!(transferred.operations(OpKind::Send) > 0 && transferred.latency().count() > 0);
        assert!(ends[1].transferred(class).operations(OpKind::Receive) > 0);
        assert_eq!(ends[0].transferred(Class::Verbs).operations(OpKind::Write), 0);
    }
}
