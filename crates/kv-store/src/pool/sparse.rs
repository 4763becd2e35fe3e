//! The slabs to empty first.

use super::block::Block;
use super::slabs::Slabs;

/// The slabs with the lowest fill. When values of one length replace those of another,
/// evicting in SIEVE order rarely empties a slab; emptying these evicts the fewest values.
#[derive(Debug)]
pub(crate) struct SparseSlabs {
    /// A bit for each slab, by number.
    chosen: Vec<u64>,
}

impl SparseSlabs {
    /// Chooses slabs of at least `units` units in total, as far as there are any.
    pub(super) fn choose(slabs: &Slabs, units: u32) -> SparseSlabs {
        let mut by_fill = [0; 65];
        slabs.iter().for_each(|(_, slab)| by_fill[slab.fill()] += u64::from(slab.run.units));
        let mut left = u64::from(units);
        for level in &mut by_fill {
            *level = left.min(*level);
            left -= *level;
        }
        let mut chosen = vec![0; slabs.end().div_ceil(64)];
        for (number, slab) in slabs.iter() {
            let wanted = &mut by_fill[slab.fill()];
            if *wanted > 0 {
                *wanted = wanted.saturating_sub(u64::from(slab.run.units));
                chosen[number / 64] |= 1 << (number % 64);
            }
        }
        SparseSlabs { chosen }
    }

    /// Whether the block is in one of them.
    pub(crate) fn has(&self, block: &Block) -> bool {
        let Block::Slot { slab, .. } = block else { return false };
        let word = self.chosen.get(*slab as usize / 64);
        word.is_some_and(|word| word & (1 << (slab % 64)) != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::runs::Runs;

    #[test]
    fn the_emptiest_slabs_are_chosen() {
        let (mut runs, mut slabs) = (Runs::new(64), Slabs::new());
        let full: Vec<Block> = (0..40).map(|_| slabs.take(4096, &mut runs).unwrap()).collect();
        let few = slabs.take(300, &mut runs).unwrap();
        let sparse = SparseSlabs::choose(&slabs, 1);
        assert!(sparse.has(&few) && !full.iter().any(|block| sparse.has(block)));
        let all = SparseSlabs::choose(&slabs, 1000);
        assert!(all.has(&few) && full.iter().all(|block| all.has(block)));
        assert!(!all.has(&Block::Empty));
    }
}
