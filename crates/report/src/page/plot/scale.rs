//! Maps values to positions on an axis, and chooses its ticks.

/// The range of an axis. Positions are from 0 to 1; values outside are placed at the edge.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::page) struct Scale {
    low: f64,
    high: f64,
    kind: ScaleKind,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum ScaleKind {
    Linear {
        step: f64,
    },
    /// Logarithmic, with this base.
    Log {
        base: f64,
    },
}

impl Scale {
    /// From zero to just above the largest value, in steps of 1, 2 or 5.
    pub(in crate::page) fn from_zero(values: impl Iterator<Item = f64>) -> Scale {
        let largest = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
        let largest = if largest > 0.0 { largest } else { 1.0 };
        let step = round_step(largest / 5.0);
        Scale { low: 0.0, high: (largest / step).ceil() * step, kind: ScaleKind::Linear { step } }
    }

    /// From just below the smallest to just above the largest value, in steps of 1, 2 or 5.
    pub(in crate::page) fn around(values: impl Iterator<Item = f64>) -> Scale {
        let (low, high) = range(values).unwrap_or((0.0, 1.0));
        let step = round_step(((high - low) / 4.0).max(high.abs() * 0.01).max(1e-9));
        let (low, high) = ((low / step).floor() * step, (high / step).ceil() * step);
        Scale { low, high: high.max(low + step), kind: ScaleKind::Linear { step } }
    }

    /// By powers of two, from the smallest to the largest: for sizes.
    pub(in crate::page) fn powers_of_two(values: impl Iterator<Item = f64>) -> Scale {
        let (low, high) = positive_range(values).unwrap_or((1.0, 2.0));
        let low = whole_power(low.log2(), f64::floor).exp2();
        let high = whole_power(high.log2(), f64::ceil).exp2().max(low * 2.0);
        Scale { low, high, kind: ScaleKind::Log { base: 2.0 } }
    }

    /// By powers of ten, with ends at 1, 2 or 5 times a power.
    pub(in crate::page) fn powers_of_ten(values: impl Iterator<Item = f64>) -> Scale {
        let (low, high) = positive_range(values).unwrap_or((1.0, 10.0));
        let below = |value: f64| 10.0_f64.powf(whole_power(value.log10(), f64::floor));
        let round = |value: f64| [1.0, 2.0, 5.0, 10.0].map(|round| round * below(value));
        let low = round(low).into_iter().rfind(|round| *round <= low * 1.000001).unwrap_or(low);
        let high = round(high).into_iter().find(|round| *round >= high * 0.999999).unwrap_or(high);
        Scale { low, high: high.max(low * 2.0), kind: ScaleKind::Log { base: 10.0 } }
    }

    /// The position of a value, from 0 to 1.
    pub(in crate::page) fn position(&self, value: f64) -> f64 {
        let part = match self.kind {
            ScaleKind::Linear { .. } => (value - self.low) / (self.high - self.low),
            ScaleKind::Log { .. } => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        if part.is_nan() { 0.0 } else { part.clamp(0.0, 1.0) }
    }

    /// The ticks, in order.
    pub(in crate::page) fn ticks(&self) -> Vec<f64> {
        match self.kind {
            ScaleKind::Linear { step } => {
                let count = ((self.high - self.low) / step).round().min(12.0) as u32;
                (0..=count).map(|tick| self.low + f64::from(tick) * step).collect()
            }
            ScaleKind::Log { base } => self.powers(base),
        }
    }

    /// All powers, or every second, third, … one; for few powers of ten also 2 and 5 times each.
    fn powers(&self, base: f64) -> Vec<f64> {
        let power = |value: f64, round| whole_power(value.ln() / base.ln(), round) as i32;
        let (first, last) = (power(self.low, f64::floor), power(self.high, f64::ceil));
        let within = |tick: &f64| (self.low * 0.999..=self.high * 1.001).contains(tick);
        let count = last.abs_diff(first);
        if base == 10.0 {
            let round = |power| [1.0, 2.0, 5.0].map(|round| round * base.powi(power));
            let ticks: Vec<f64> = (first..=last).flat_map(round).filter(within).collect();
            if ticks.len() < MAX_TICKS as usize {
                return ticks;
            }
        }
        let every = count.div_ceil(MAX_TICKS).max(1) as usize;
        (first..=last).step_by(every).map(|power| base.powi(power)).filter(within).collect()
    }
}

/// The smallest of 1, 2 and 5 times a power of ten that is at least this.
fn round_step(step: f64) -> f64 {
    let power = 10.0_f64.powf(step.log10().floor());
    let wanted = step / power;
    let round = [1.0, 2.0, 5.0].into_iter().find(|round| *round >= wanted - 1e-9);
    round.unwrap_or(10.0) * power
}

/// Rounds an exponent, ignoring floating-point errors.
fn whole_power(power: f64, round: fn(f64) -> f64) -> f64 {
    let near = power.round();
    if (power - near).abs() < 1e-9 { near } else { round(power) }
}

fn positive_range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    // Clamped, so that multiplying does not overflow.
    range(values.filter(|value| *value > 0.0)).map(|(low, high)| (low.max(1e-300), high.min(1e300)))
}

fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.filter(|value| value.is_finite()).fold(None, |range, value| match range {
        None => Some((value, value)),
        Some((low, high)) => Some((value.min(low), value.max(high))),
    })
}

const MAX_TICKS: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_1_2_or_5() {
        let ticks = Scale::from_zero([3.0, 97.3].into_iter()).ticks();
        assert_eq!(ticks, [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(Scale::from_zero([0.42].into_iter()).ticks().len(), 6);
        assert_eq!(Scale::from_zero(std::iter::empty()).ticks().first(), Some(&0.0));
        assert_eq!(
            Scale::around([88.0, 104.0].into_iter()).ticks(),
            [85.0, 90.0, 95.0, 100.0, 105.0]
        );
    }

    #[test]
    fn sizes_have_ticks_at_powers_of_two() {
        let scale = Scale::powers_of_two([64.0, 4096.0, 1048576.0].into_iter());
        assert_eq!(
            scale.ticks(),
            [64.0, 256.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0]
        );
        assert_eq!((scale.position(64.0), scale.position(1048576.0)), (0.0, 1.0));
        assert_eq!(scale.position(8192.0), 0.5);
    }

    #[test]
    fn few_decades_have_intermediate_ticks() {
        let scale = Scale::powers_of_ten([700.0, 12_000.0].into_iter());
        assert_eq!(scale.ticks(), [500.0, 1e3, 2e3, 5e3, 1e4, 2e4]);
        assert_eq!(Scale::powers_of_ten([1.0, 1e6].into_iter()).ticks().len(), 7);
    }

    #[test]
    fn invalid_values_are_placed_at_an_edge() {
        for values in [
            vec![f64::NAN],
            vec![f64::INFINITY, 1.0],
            vec![0.0, 0.0],
            vec![-1.0],
            vec![1e308, 1e-308],
        ] {
            for scale in [
                Scale::from_zero(values.iter().copied()),
                Scale::around(values.iter().copied()),
                Scale::powers_of_two(values.iter().copied()),
                Scale::powers_of_ten(values.iter().copied()),
            ] {
                for value in [f64::NAN, f64::INFINITY, -1.0, 0.0, 1.0, 1e308] {
                    assert!((0.0..=1.0).contains(&scale.position(value)), "{scale:?} {value}");
                }
                assert!((1..=13).contains(&scale.ticks().len()), "{scale:?}");
            }
        }
    }
}
