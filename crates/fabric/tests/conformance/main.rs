//! One set of cases over every lane that any machine can run. Those over verbs need the lab.
#![allow(missing_docs, reason = "a test")]

mod cases;
#[macro_use]
mod list;
mod pair;

use std::sync::Arc;
use std::time::Duration;

use fabric::tcp;
use pair::Pair;

mod tcp_one_stream {
    reliable_lane!(crate::tcp(1));
}

mod tcp_four_streams {
    reliable_lane!(crate::tcp(4));
}

fn tcp(streams: u8) -> Pair {
    let patience = Duration::from_secs(1);
    let config = tcp::Config { streams, patience, ..tcp::Config::default() };
    let fabric = Arc::new(tcp::Tcp::new(config));
    Pair::connect(fabric.clone(), fabric)
}
