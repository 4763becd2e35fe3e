//! What goes wrong in a trial.

use std::time::Duration;

use super::{Dice, RAILS, Stage};
use crate::sim::Faults;

impl Stage {
    /// Something happens to a rail, or stops happening.
    pub(super) fn trouble(&mut self, dice: &mut Dice) {
        let rail = RAILS[dice.below(RAILS.len())];
        let ms = |dice: &mut Dice, most: usize| Duration::from_millis(dice.below(most) as u64);
        let faults = match dice.below(8) {
            0 => Faults { dead: true, ..Faults::default() },
            1 => Faults { loss: 1.0, ..Faults::default() },
            2 => Faults { loss: 0.3, delay: ms(dice, 3), ..Faults::default() },
            // Longer than all retries: what the sender was told had failed lands later.
            3 => Faults { hold: ms(dice, 200), ..Faults::default() },
            4 => Faults { delay: ms(dice, 8), jitter: ms(dice, 8), ..Faults::default() },
            5 => Faults { reorder: ms(dice, 5), delay: ms(dice, 2), ..Faults::default() },
            _ => Faults::default(),
        };
        self.world.change(rail, |all| *all = faults);
        if dice.one_in(4) {
            self.wires.lock().unwrap().delay = ms(dice, 20);
        }
    }

    pub(super) fn heal(&mut self) {
        for rail in RAILS {
            self.world.change(rail, |faults| *faults = Faults::default());
        }
        self.wires.lock().unwrap().delay = Duration::ZERO;
    }
}
