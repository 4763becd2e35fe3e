//! Faults in a run.

use std::time::Duration;

use super::{RAILS, Random, SimLink};
use crate::sim::Faults;

impl SimLink {
    /// Changes the faults of a rail at random.
    pub(super) fn change_faults(&mut self, random: &mut Random) {
        let rail = RAILS[random.below(RAILS.len())];
        let ms =
            |random: &mut Random, max_ms: usize| Duration::from_millis(random.below(max_ms) as u64);
        let faults = match random.below(8) {
            0 => Faults { dead: true, ..Faults::default() },
            1 => Faults { loss: 1.0, ..Faults::default() },
            2 => Faults { loss: 0.3, delay: ms(random, 3), ..Faults::default() },
            // Longer than all retries: operations that failed at the sender take effect later.
            3 => Faults { hold: ms(random, 200), ..Faults::default() },
            4 => Faults { delay: ms(random, 8), jitter: ms(random, 8), ..Faults::default() },
            5 => Faults { reorder: ms(random, 5), delay: ms(random, 2), ..Faults::default() },
            _ => Faults::default(),
        };
        self.world.change(rail, |all| *all = faults);
        if random.one_in(4) {
            self.channel.lock().unwrap().delay = ms(random, 20);
        }
    }

    pub(super) fn clear_faults(&mut self) {
        for rail in RAILS {
            self.world.change(rail, |faults| *faults = Faults::default());
        }
        self.channel.lock().unwrap().delay = Duration::ZERO;
    }
}
