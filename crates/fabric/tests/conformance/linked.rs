//! Links tested as a kind of lane: an endpoint's offer is its listening address.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fabric::link::{Endpoint, EndpointSettings, Listener};
use fabric::{Error, Fabric, Lane, Memory, Region, Rights, Side, UnconnectedLane, wait};

use crate::pair::Pair;

pub(crate) fn pair(settings: [EndpointSettings; 2]) -> Pair {
    let [a, b] = settings.map(|settings| Arc::new(LinkFabric::new(settings)));
    let mut pair = Pair::connect(a, b);
    assert_eq!(pair.a.lane.caps().transport, "link");
    (pair.is_link, pair.keeps_messages) = (true, true);
    // Operations are split into parts of a MiB.
    pair.largest = 64 << 20;
    pair
}

struct LinkFabric {
    endpoint: Endpoint,
    listener: Arc<Listener>,
}

impl LinkFabric {
    fn new(settings: EndpointSettings) -> Self {
        let endpoint = Endpoint::new(settings).expect("an endpoint");
        // Before libfabric is loaded, which may take long on a busy machine, there are no providers.
        let unanswered = |found: Result<_, String>| found.is_err_and(|why| why.contains("yet"));
        while endpoint.providers().is_some_and(unanswered) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let listener = endpoint.listen(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
        LinkFabric { endpoint, listener: Arc::new(listener) }
    }
}

impl Fabric for LinkFabric {
    fn register(&self, memory: &Memory, rights: Rights) -> Result<Region, Error> {
        self.endpoint.register(memory, rights)
    }

    fn prepare_lane(&self, side: Side) -> Result<Box<dyn UnconnectedLane>, Error> {
        let (endpoint, listener) = (self.endpoint.clone(), self.listener.clone());
        Ok(Box::new(UnconnectedLink { endpoint, listener, side }))
    }
}

struct UnconnectedLink {
    endpoint: Endpoint,
    listener: Arc<Listener>,
    side: Side,
}

impl UnconnectedLane for UnconnectedLink {
    fn offer(&self) -> Vec<u8> {
        self.listener.address().to_string().into_bytes()
    }

    fn connect(self: Box<Self>, offer: &[u8], limit: Duration) -> Result<Box<dyn Lane>, Error> {
        let address = std::str::from_utf8(offer).expect("text").parse().expect("an address");
        let link = match self.side {
            Side::Dial => self.endpoint.connect(address, limit)?,
            Side::Accept => {
                let mut link = self.listener.accept(limit).expect("a connection")?;
                while !link.is_up() {
                    assert_eq!(link.ended(), None);
                    wait(&mut link, &mut Vec::new(), Duration::from_millis(1));
                }
                link
            }
        };
        Ok(Box::new(link))
    }
}
