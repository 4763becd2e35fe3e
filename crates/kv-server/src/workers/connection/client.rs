//! A client of the store: its permissions, the memory it granted, and its open handles.

use std::collections::HashMap;
use std::sync::Arc;

use access::{Permissions, Refused};
use fabric::link::Link;
use fabric::{Lane, RemoteRegion, Rights, Window};
use kv_proto::wire::{Grant, Request, Status};

use super::handles::Handles;
use crate::engine::quota::Share;
use crate::engine::session::Session;

pub(super) struct Client {
    pub(super) session: Arc<Session>,
    pub(super) handles: Handles,
    /// Its part of the quota of bytes in flight.
    pub(super) share: Arc<Share>,
    permissions: Permissions,
    /// Granted memory, except the client buffer, which is region 0.
    regions: HashMap<u32, Window>,
    client_buffer: Window,
    /// Whether the client buffer starts with a slot block.
    slot_block: bool,
    /// Whether it may read the pool.
    in_place: bool,
}

impl Client {
    pub(super) fn new(
        session: Arc<Session>,
        permissions: Permissions,
        share: Arc<Share>,
        client_buffer: Window,
        slot_block: bool,
        in_place: bool,
    ) -> Self {
        let (handles, regions) = (Handles::default(), HashMap::new());
        Client {
            session,
            handles,
            share,
            permissions,
            regions,
            client_buffer,
            slot_block,
            in_place,
        }
    }

    #[inline]
    pub(super) fn client_buffer(&self) -> &Window {
        &self.client_buffer
    }

    pub(super) fn has_slot_block(&self) -> bool {
        self.slot_block
    }

    pub(super) fn may_read_pool(&self) -> bool {
        self.in_place
    }

    /// Renews its permissions if the rules were changed; `false`: its own ones are different.
    #[inline]
    pub(super) fn renew(&mut self) -> bool {
        if !self.permissions.is_stale() {
            return true;
        }
        match self.permissions.renew() {
            Some(renewed) => {
                self.permissions = renewed;
                true
            }
            None => false,
        }
    }

    /// Checks whether it may make this request. A value in chunks counts once, at its start.
    #[inline]
    pub(super) fn check(&self, request: &Request<'_>) -> Result<(), Status> {
        if self.permissions.is_unrestricted() {
            return Ok(());
        }
        let permissions = &self.permissions;
        let checked = match request {
            Request::Get { key, .. } | Request::Stat { key } => permissions.check_read(key),
            // A repeated write that was executed before does not count again.
            Request::Put { key, sequence, .. } | Request::Delete { key, sequence, .. }
                if self.session.has_write(*sequence) =>
            {
                permissions.check_write_scope(key)
            }
            Request::Put { key, .. } | Request::Delete { key, .. } => permissions.check_write(key),
            Request::Begin { .. } => permissions.check_begin(),
            Request::Commit { key, .. } => permissions.check_write_scope(key),
            Request::List { prefix, .. } => permissions.check_list(prefix),
            Request::Read { .. } | Request::Chunk { .. } | Request::Close { .. } => Ok(()),
        };
        checked.map_err(|refused| match refused {
            Refused::Rate => Status::RateLimited,
            _ => Status::Denied,
        })
    }

    /// Narrows a prefix to the keys that it may list.
    pub(super) fn narrow<'p>(&'p self, prefix: &'p [u8]) -> &'p [u8] {
        self.permissions.narrow(prefix)
    }

    /// The window of a region; `None` if there is no such region, or `length` bytes at `at` are not within it.
    pub(super) fn window_for(&self, region: u32, at: u64, length: u64) -> Option<&Window> {
        let window = match region {
            0 => Some(&self.client_buffer),
            number => self.regions.get(&number),
        };
        window.filter(|window| contains(window, at, length))
    }

    pub(super) fn grant(&mut self, grant: &Grant, link: &mut Link) -> Result<(), &'static str> {
        if grant.number == 0 || self.regions.len() >= usize::from(MAX_REGIONS) {
            return Err("too many regions granted");
        }
        let window = import(link, &grant.region)?;
        self.regions.insert(grant.number, window);
        Ok(())
    }

    pub(super) fn forget(&mut self, number: u32) -> Result<(), &'static str> {
        self.regions.remove(&number).map(drop).ok_or("an unknown region was revoked")
    }
}

/// Whether `length` bytes at `at` are within the window.
pub(super) fn contains(window: &Window, at: u64, length: u64) -> bool {
    at.checked_add(length).is_some_and(|end| end <= window.len())
}

/// Imports memory of a client that the store may read and write.
pub(super) fn import(link: &mut Link, region: &[u8]) -> Result<Window, &'static str> {
    let region = RemoteRegion::from_bytes(region).map_err(|_| "a region descriptor is invalid")?;
    let window = link.import(&region).map_err(|_| "a region cannot be reached")?;
    let wanted = Rights { read: true, write: true, atomic: false };
    let fits = window.rights() == wanted || window.rights() == Rights::ALL;
    fits.then_some(window).ok_or("a region does not grant read and write")
}

/// Regions that a client may grant in addition to its client buffer.
pub(super) const MAX_REGIONS: u16 = 256;
