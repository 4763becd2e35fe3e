//! A TCP proxy to the server that can drop its connections.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use crate::Failure;

pub(super) struct Proxy {
    pub(super) address: SocketAddr,
    streams: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    pub(super) fn start(to: &str) -> Result<Self, Failure> {
        let listener =
            TcpListener::bind("127.0.0.1:0").map_err(|error| format!("listen: {error}"))?;
        let address = listener.local_addr().map_err(|error| format!("listen: {error}"))?;
        let (streams, to) = (Arc::new(Mutex::new(Vec::new())), to.to_owned());
        let open = streams.clone();
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let Ok(far) = TcpStream::connect(&to) else { continue };
                let _ = join(near, far, &open);
            }
        });
        Ok(Proxy { address, streams })
    }

    /// Drops every connection.
    pub(super) fn cut(&self) {
        for end in self.streams.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let _ = end.shutdown(Shutdown::Both);
        }
    }
}

fn join(near: TcpStream, far: TcpStream, streams: &Mutex<Vec<TcpStream>>) -> std::io::Result<()> {
    for end in [&near, &far] {
        end.set_nodelay(true)?;
        streams.lock().unwrap_or_else(PoisonError::into_inner).push(end.try_clone()?);
    }
    forward(near.try_clone()?, far.try_clone()?);
    forward(far, near);
    Ok(())
}

fn forward(mut from: TcpStream, mut to: TcpStream) {
    std::thread::spawn(move || {
        let mut bytes = vec![0; 64 << 10];
        while let Ok(count) = from.read(&mut bytes)
            && count > 0
            && to.write_all(&bytes[..count]).is_ok()
        {}
        let _ = to.shutdown(Shutdown::Both);
    });
}
