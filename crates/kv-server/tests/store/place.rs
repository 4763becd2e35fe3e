//! A store with a door, and clients that call it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use fabric::Pages;
use fabric::link::{self, Class, Endpoint};
use kv_client::Client;
use kv_server::{Crew, Engine, Settings};
use kv_store::WhenFull;

pub(crate) struct Place {
    pub(crate) engine: Arc<Engine>,
    pub(crate) address: SocketAddr,
    stop: Arc<AtomicBool>,
    door: Option<JoinHandle<()>>,
}

pub(crate) fn settings(memory: usize) -> Settings {
    Settings {
        memory,
        pages: Pages::Plain,
        when_full: WhenFull::Evict,
        most_value: None,
        idle: Duration::from_secs(60),
    }
}

/// Links by one class of lanes only.
pub(crate) fn by(class: Class) -> link::Settings {
    link::Settings { classes: vec![class], ..link::Settings::default() }
}

impl Place {
    pub(crate) fn open(settings: &Settings, links: link::Settings) -> Self {
        let engine = Engine::new(settings).unwrap();
        let endpoint = Endpoint::new(links).unwrap();
        let crew = Crew::start(&engine, &endpoint, 2).unwrap();
        let listener = endpoint.listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.address();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let door = std::thread::spawn(move || {
            while !stopped.load(Ordering::SeqCst) {
                if let Some(Ok(link)) = listener.accept(Duration::from_millis(20)) {
                    crew.serve(link);
                }
            }
            assert!(crew.stop(Duration::from_secs(20)), "the workers end");
        });
        Place { engine, address, stop, door: Some(door) }
    }

    pub(crate) fn client(&self, links: link::Settings) -> Client {
        let mut settings = kv_client::Settings::new(self.address);
        settings.link = links;
        Client::connect(settings).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(door) = self.door.take() {
            door.join().unwrap();
        }
    }
}
