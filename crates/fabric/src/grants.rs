//! Regions that a peer may access by requests: each has a key that cannot be guessed, and every access
//! is checked.

use rustix::rand::{GetRandomFlags, getrandom};

use crate::error::{Error, ErrorKind};
use crate::op::Failure;
use crate::region::{Region, Rights, Slice, WeakRegion};

/// The regions granted on one lane.
#[derive(Default)]
pub(crate) struct Grants {
    rows: Vec<Row>,
}

struct Row {
    key: u128,
    region: WeakRegion,
}

impl Grants {
    /// Creates a key: the row's index, and random bits.
    pub(crate) fn add(&mut self, region: &Region) -> Result<u128, Error> {
        let free = self.rows.iter().position(|row| row.region.is_gone());
        let at = free.unwrap_or(self.rows.len());
        if at >= MAX_GRANTS {
            return Err(Error::new(
                ErrorKind::Full,
                "grant a region",
                format!("the limit of {MAX_GRANTS} granted regions on this lane is reached"),
                "drop unused regions, or grant fewer and larger ones",
            ));
        }
        let key = random()? << INDEX_BITS | at as u128;
        let row = Row { key, region: region.downgrade() };
        match free {
            Some(at) => self.rows[at] = row,
            None => self.rows.push(row),
        }
        Ok(key)
    }

    /// Revokes a key.
    pub(crate) fn remove(&mut self, key: u128) {
        if let Some(row) =
            self.rows.get_mut((key & INDEX_MASK) as usize).filter(|row| row.key == key)
        {
            row.region = WeakRegion::gone();
        }
    }

    /// The bytes that a peer requests, if it has the right.
    pub(crate) fn check(
        &self,
        key: u128,
        offset: u64,
        length: u64,
        wanted: Rights,
    ) -> Result<Slice, Failure> {
        let row = self.rows.get((key & INDEX_MASK) as usize).filter(|row| row.key == key);
        let region = row.and_then(|row| row.region.upgrade()).ok_or(Failure::Access)?;
        let end = offset.checked_add(length).ok_or(Failure::Access)?;
        if end > region.len() as u64 || !region.rights().allow(wanted) {
            return Err(Failure::Access);
        }
        Ok(region.slice(offset as usize..end as usize))
    }

    /// The eight aligned bytes that a peer requests, if it has the right.
    pub(crate) fn check_word(&self, key: u128, offset: u64) -> Result<Slice, Failure> {
        let word = self.check(key, offset, 8, Rights { atomic: true, ..Rights::NONE })?;
        if word.address().addr().is_multiple_of(8) { Ok(word) } else { Err(Failure::Access) }
    }
}

/// A random number from the operating system.
pub(crate) fn random() -> Result<u128, Error> {
    let mut bytes = [0; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                let fix = "getrandom must be allowed: see the seccomp profile";
                return Err(Error::new(ErrorKind::System, "create a key", error, fix));
            }
        }
    }
    Ok(u128::from_ne_bytes(bytes))
}

const INDEX_BITS: u32 = 16;
const INDEX_MASK: u128 = (1 << INDEX_BITS) - 1;
const MAX_GRANTS: usize = 1 << INDEX_BITS;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Memory, Pages};
    use crate::registration::Registration;

    fn region(rights: Rights) -> Region {
        let memory = Memory::allocate(4096, Pages::Plain).unwrap();
        Region::new(memory, rights, Registration::Software)
    }

    const READ: Rights = Rights { read: true, ..Rights::NONE };

    #[test]
    fn key_bounds_and_rights_are_checked() {
        let mut grants = Grants::default();
        let readable = region(READ);
        let key = grants.add(&readable).unwrap();
        assert_eq!(grants.check(key, 4000, 96, READ).unwrap().offset(), 4000);
        assert_eq!(grants.check(key, 4096, 0, READ).unwrap().len(), 0);
        for (key, offset, length, wanted) in [
            (key ^ 1 << 100, 0, 1, READ),
            (key ^ 1, 0, 1, READ),
            (0, 0, 1, READ),
            (key, 4000, 97, READ),
            (key, 4097, 0, READ),
            (key, u64::MAX, 2, READ),
            (key, 0, 1, Rights::ALL),
        ] {
            let refused = grants.check(key, offset, length, wanted);
            assert_eq!(refused.unwrap_err(), Failure::Access, "{key:x} {offset} {length}");
        }
        assert!(grants.check_word(key, 0).is_err(), "the right to read is no right to change");
    }

    #[test]
    fn a_dropped_region_is_refused_and_its_row_is_reused_with_another_key() {
        let mut grants = Grants::default();
        let first = region(Rights::ALL);
        let old = grants.add(&first).unwrap();
        assert!(grants.check_word(old, 8).is_ok() && grants.check_word(old, 4).is_err());
        drop(first);
        assert!(grants.check(old, 0, 1, READ).is_err());
        let second = region(Rights::ALL);
        let new = grants.add(&second).unwrap();
        assert_eq!(new & INDEX_MASK, old & INDEX_MASK);
        assert!(grants.check(old, 0, 1, READ).is_err() && grants.check(new, 0, 1, READ).is_ok());
    }
}
