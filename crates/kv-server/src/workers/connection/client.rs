//! A client of the store: what it may do, the memory it granted, and what it holds open.

use std::collections::HashMap;
use std::sync::Arc;

use access::{Pass, Refused};
use fabric::link::Link;
use fabric::{Lane, RemoteRegion, Rights, Window};
use kv_proto::wire::{Grant, Request, Status};

use super::handles::Handles;
use crate::engine::quota::Share;
use crate::engine::session::Session;

pub(super) struct Client {
    pub(super) session: Arc<Session>,
    pub(super) handles: Handles,
    /// Its part of the quota of bytes that are being written.
    pub(super) share: Arc<Share>,
    pass: Pass,
    /// Memory it granted beside the receive buffer, which is region 0.
    regions: HashMap<u32, Window>,
    receive_buffer: Window,
    /// Whether the receive buffer begins with a control block.
    control_block: bool,
    /// Whether it may read the pool.
    in_place: bool,
}

impl Client {
    pub(super) fn new(
        session: Arc<Session>,
        pass: Pass,
        share: Arc<Share>,
        receive_buffer: Window,
        control_block: bool,
        in_place: bool,
    ) -> Self {
        let (handles, regions) = (Handles::default(), HashMap::new());
        Client { session, handles, share, pass, regions, receive_buffer, control_block, in_place }
    }

    #[inline]
    pub(super) fn receive_buffer(&self) -> &Window {
        &self.receive_buffer
    }

    pub(super) fn has_control_block(&self) -> bool {
        self.control_block
    }

    pub(super) fn may_read_pool(&self) -> bool {
        self.in_place
    }

    /// Renews its rights where they were changed; `false`: they are not what they were.
    #[inline]
    pub(super) fn renew(&mut self) -> bool {
        if !self.pass.is_stale() {
            return true;
        }
        match self.pass.renew() {
            Some(renewed) => {
                self.pass = renewed;
                true
            }
            None => false,
        }
    }

    /// Checks whether it may ask for this. A value in pieces counts once, when it begins.
    #[inline]
    pub(super) fn check(&self, request: &Request<'_>) -> Result<(), Status> {
        if self.pass.is_unrestricted() {
            return Ok(());
        }
        let pass = &self.pass;
        let checked = match request {
            Request::Get { key, .. } | Request::Stat { key } => pass.read(key),
            // The answer to what was done before is not another request.
            Request::Put { key, sequence, .. } | Request::Delete { key, sequence, .. }
                if self.session.has(*sequence) =>
            {
                pass.finish(key)
            }
            Request::Put { key, .. } | Request::Delete { key, .. } => pass.write(key),
            Request::Begin { .. } => pass.begin(),
            Request::Commit { key, .. } => pass.finish(key),
            Request::List { prefix, .. } => pass.list(prefix),
            Request::Read { .. } | Request::Piece { .. } | Request::Close { .. } => Ok(()),
        };
        checked.map_err(|refused| match refused {
            Refused::Rate => Status::TooOften,
            _ => Status::Denied,
        })
    }

    /// The prefix of what it may list among keys of this prefix.
    pub(super) fn narrow<'p>(&'p self, prefix: &'p [u8]) -> &'p [u8] {
        self.pass.narrow(prefix)
    }

    /// Where `length` bytes from `at` on are in a region; `None`: there is no such region, or they are not within it.
    pub(super) fn reach(&self, region: u32, at: u64, length: u64) -> Option<&Window> {
        let window = match region {
            0 => Some(&self.receive_buffer),
            number => self.regions.get(&number),
        };
        window.filter(|window| reaches(window, at, length))
    }

    pub(super) fn grant(&mut self, grant: &Grant, link: &mut Link) -> Result<(), &'static str> {
        if grant.number == 0 || self.regions.len() >= usize::from(REGIONS) {
            return Err("it grants more regions than it may");
        }
        let window = import(link, &grant.region)?;
        self.regions.insert(grant.number, window);
        Ok(())
    }

    pub(super) fn forget(&mut self, number: u32) -> Result<(), &'static str> {
        self.regions.remove(&number).map(drop).ok_or("it deregisters an unknown region")
    }
}

pub(super) fn reaches(window: &Window, at: u64, length: u64) -> bool {
    at.checked_add(length).is_some_and(|end| end <= window.len())
}

/// Memory of a client's that we may write to and read.
pub(super) fn import(link: &mut Link, region: &[u8]) -> Result<Window, &'static str> {
    let region =
        RemoteRegion::from_bytes(region).map_err(|_| "its memory is none of the fabric's")?;
    let window = link.import(&region).map_err(|_| "its memory cannot be reached")?;
    let wanted = Rights { read: true, write: true, atomic: false };
    let fits = window.rights() == wanted || window.rights() == Rights::ALL;
    fits.then_some(window).ok_or("its memory is not for writing and reading")
}

/// How many regions a client may have beside its receive buffer.
pub(super) const REGIONS: u16 = 256;
