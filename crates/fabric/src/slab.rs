//! Things by small numbers, which are used again.

/// Keeps its room, so that it allocates only while it grows.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Self {
        Slab { places: Vec::new(), free: Vec::new() }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    #[inline]
    pub(crate) fn insert(&mut self, thing: T) -> u32 {
        match self.free.pop() {
            Some(at) => {
                self.places[at as usize] = Some(thing);
                at
            }
            None => {
                self.places.push(Some(thing));
                self.places.len() as u32 - 1
            }
        }
    }

    #[inline]
    pub(crate) fn get(&self, at: u32) -> Option<&T> {
        self.places.get(at as usize)?.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        self.places.get_mut(at as usize)?.as_mut()
    }

    #[inline]
    pub(crate) fn remove(&mut self, at: u32) -> Option<T> {
        let thing = self.places.get_mut(at as usize)?.take()?;
        self.free.push(at);
        Some(thing)
    }

    /// As [`Slab::remove`], of a thing that is `wanted`; another stays.
    #[inline]
    pub(crate) fn remove_if(&mut self, at: u32, wanted: impl FnOnce(&mut T) -> bool) -> Option<T> {
        let thing = self.places.get_mut(at as usize)?.take_if(wanted)?;
        self.free.push(at);
        Some(thing)
    }

    /// Takes everything out.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = T> + use<T> {
        self.free.clear();
        std::mem::take(&mut self.places).into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_used_again_and_never_twice_at_once() {
        let mut slab = Slab::new();
        let (a, b) = (slab.insert('a'), slab.insert('b'));
        assert_ne!(a, b);
        assert_eq!((slab.remove(a), slab.remove(a), slab.len()), (Some('a'), None, 1));
        assert_eq!(slab.insert('c'), a);
        assert_eq!((slab.get(a), slab.get(b), slab.get(99)), (Some(&'c'), Some(&'b'), None));
        assert_eq!(slab.remove_if(a, |thing| *thing == 'b'), None);
        assert_eq!(slab.remove_if(b, |thing| *thing == 'b'), Some('b'));
        assert_eq!(slab.insert('b'), b);
        assert_eq!(slab.take_all().collect::<Vec<_>>(), ['c', 'b']);
        assert_eq!((slab.len(), slab.remove(b)), (0, None));
    }
}
