//! Counters of closed lanes.

use fabric::OpKind;
use fabric::link::Transport;

use crate::pair::LinkPair;

#[test]
fn counters_include_closed_links() {
    for transport in [Transport::Shm, Transport::Tcp] {
        let pair = LinkPair::over(transport);
        let ends = pair.ends.clone();
        pair.exercise();
        let transferred = ends[0].transferred(transport);
        assert!(transferred.bytes(OpKind::Write) >= 8 << 20, "{transport:?}: {transferred:?}");
        assert!(transferred.operations(OpKind::Send) > 0 && transferred.latency().count() > 0);
        assert!(ends[1].transferred(transport).operations(OpKind::Receive) > 0);
        assert_eq!(ends[0].transferred(Transport::Verbs).operations(OpKind::Write), 0);
    }
}
