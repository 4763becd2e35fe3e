//! A slab: values by a small index (row), which is reused.

/// Allocates only when it grows.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    entries: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Self {
        Slab { entries: Vec::new(), free: Vec::new() }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    #[inline]
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        match self.free.pop() {
            Some(at) => {
                self.entries[at as usize] = Some(value);
                at
            }
            None => {
                self.entries.push(Some(value));
                self.entries.len() as u32 - 1
            }
        }
    }

    #[inline]
    pub(crate) fn get(&self, at: u32) -> Option<&T> {
        self.entries.get(at as usize)?.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        self.entries.get_mut(at as usize)?.as_mut()
    }

    #[inline]
    pub(crate) fn remove(&mut self, at: u32) -> Option<T> {
        let value = self.entries.get_mut(at as usize)?.take()?;
        self.free.push(at);
        Some(value)
    }

    /// As [`Slab::remove`], if `condition` is true of the value.
    #[inline]
    pub(crate) fn remove_if(
        &mut self,
        at: u32,
        condition: impl FnOnce(&mut T) -> bool,
    ) -> Option<T> {
        let value = self.entries.get_mut(at as usize)?.take_if(condition)?;
        self.free.push(at);
        Some(value)
    }

    /// Removes all values.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = T> + use<T> {
        self.free.clear();
        std::mem::take(&mut self.entries).into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_reused_and_unique() {
        let mut slab = Slab::new();
        let (a, b) = (slab.insert('a'), slab.insert('b'));
        assert_ne!(a, b);
        assert_eq!((slab.remove(a), slab.remove(a), slab.len()), (Some('a'), None, 1));
        assert_eq!(slab.insert('c'), a);
        assert_eq!((slab.get(a), slab.get(b), slab.get(99)), (Some(&'c'), Some(&'b'), None));
        assert_eq!(slab.remove_if(a, |value| *value == 'b'), None);
        assert_eq!(slab.remove_if(b, |value| *value == 'b'), Some('b'));
        assert_eq!(slab.insert('b'), b);
        assert_eq!(slab.take_all().collect::<Vec<_>>(), ['c', 'b']);
        assert_eq!((slab.len(), slab.remove(b)), (0, None));
    }
}
