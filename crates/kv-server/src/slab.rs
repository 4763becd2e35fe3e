//! A slab: values by a small index (row) that is stable while the value is in it, and is reused after that.
//!
//! The ids of operations contain their row, so that completions find it. A row has no generation: an index that is
//! kept longer than its value refers to another value.

pub(crate) struct Slab<T> {
    entries: Vec<Option<T>>,
    /// Rows that are `None`; the last is used next.
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { entries: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Returns the row.
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
    pub(crate) fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        self.entries.get_mut(at as usize)?.as_mut()
    }

    #[inline]
    pub(crate) fn remove(&mut self, at: u32) -> Option<T> {
        let value = self.entries.get_mut(at as usize)?.take()?;
        self.free.push(at);
        Some(value)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Removes all values.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = T> {
        self.free.clear();
        self.entries.drain(..).flatten()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        let numbered = self.entries.iter_mut().enumerate();
        numbered.filter_map(|(at, value)| Some((at as u32, value.as_mut()?)))
    }
}
