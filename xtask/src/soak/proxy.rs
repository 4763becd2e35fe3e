//! A proxy to the server that can be cut: passes connections on, until it is told to drop them.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use crate::Failure;

pub(super) struct Proxy {
    pub(super) address: SocketAddr,
    ends: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    pub(super) fn start(to: &str) -> Result<Self, Failure> {
        let listener =
            TcpListener::bind("127.0.0.1:0").map_err(|error| format!("listen: {error}"))?;
        let address = listener.local_addr().map_err(|error| format!("listen: {error}"))?;
        let (ends, to) = (Arc::new(Mutex::new(Vec::new())), to.to_owned());
        let kept = ends.clone();
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let Ok(far) = TcpStream::connect(&to) else { continue };
                let _ = join(near, far, &kept);
            }
        });
        Ok(Proxy { address, ends })
    }

    /// Drops every connection.
    pub(super) fn cut(&self) {
        for end in self.ends.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let _ = end.shutdown(Shutdown::Both);
        }
    }
}

fn join(near: TcpStream, far: TcpStream, kept: &Mutex<Vec<TcpStream>>) -> std::io::Result<()> {
    for end in [&near, &far] {
        end.set_nodelay(true)?;
        kept.lock().unwrap_or_else(PoisonError::into_inner).push(end.try_clone()?);
    }
    pass_on(near.try_clone()?, far.try_clone()?);
    pass_on(far, near);
    Ok(())
}

fn pass_on(mut from: TcpStream, mut to: TcpStream) {
    std::thread::spawn(move || {
        let mut bytes = vec![0; 64 << 10];
        while let Ok(count) = from.read(&mut bytes)
            && count > 0
            && to.write_all(&bytes[..count]).is_ok()
        {}
        let _ = to.shutdown(Shutdown::Both);
    });
}
