//! What an identity may do with which keys.

/// Read-only or not; all keys, or those with a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    writes: bool,
    prefix: Box<[u8]>,
}

impl Scope {
    /// The maximum length of a key.
    pub const MAX_PREFIX_BYTES: usize = 4096;

    /// All keys, reading and writing.
    pub fn everything() -> Self {
        Scope::new(true, b"")
    }

    /// Keys with this prefix.
    pub fn new(writes: bool, prefix: &[u8]) -> Self {
        Scope { writes, prefix: prefix.into() }
    }

    /// Whether writes are allowed.
    pub fn writes(&self) -> bool {
        self.writes
    }

    /// The prefix of its keys.
    pub fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// Whether every operation on every key is allowed.
    pub fn is_everything(&self) -> bool {
        self.writes && self.reads_everything()
    }

    /// Whether every key may be read.
    pub fn reads_everything(&self) -> bool {
        self.prefix.is_empty()
    }

    /// Whether a key is within it.
    pub fn covers(&self, key: &[u8]) -> bool {
        key.starts_with(&self.prefix)
    }

    /// The intersection with another prefix: the longer of both prefixes, or `None` if no key has both.
    pub fn narrow<'p>(&'p self, prefix: &'p [u8]) -> Option<&'p [u8]> {
        if self.covers(prefix) {
            return Some(prefix);
        }
        self.prefix.starts_with(prefix).then_some(&self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_intersects_both_prefixes() {
        let scope = Scope::new(true, b"team/");
        assert_eq!(scope.narrow(b""), Some(&b"team/"[..]));
        assert_eq!(scope.narrow(b"te"), Some(&b"team/"[..]));
        assert_eq!(scope.narrow(b"team/a"), Some(&b"team/a"[..]));
        assert_eq!(scope.narrow(b"teams"), None);
        assert_eq!(Scope::everything().narrow(b"x"), Some(&b"x"[..]));
    }

    #[test]
    fn only_an_unlimited_scope_is_everything() {
        assert!(Scope::everything().is_everything());
        let reader = Scope::new(false, b"");
        assert!(!reader.is_everything() && reader.reads_everything() && reader.covers(b"k"));
        let team = Scope::new(true, b"team/");
        assert!(!team.reads_everything() && team.covers(b"team/") && !team.covers(b"team"));
    }
}
