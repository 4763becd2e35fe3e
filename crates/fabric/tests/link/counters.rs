//! Counters of closed lanes.

use fabric::OpKind;
use fabric::link::Class;

use crate::pair::LinkPair;

#[test]
fn counters_include_closed_links() {
    for class in [Class::Shm, Class::Tcp] {
        let pair = LinkPair::over(class);
        let ends = pair.ends.clone();
        pair.exercise();
        let transferred = ends[0].transferred(class);
        assert!(transferred.bytes(OpKind::Write) >= 8 << 20, "{class:?}: {transferred:?}");
        assert!(transferred.operations(OpKind::Send) > 0 && transferred.latency().count() > 0);
        assert!(ends[1].transferred(class).operations(OpKind::Receive) > 0);
        assert_eq!(ends[0].transferred(Class::Verbs).operations(OpKind::Write), 0);
    }
}
