//! The value of a sample.

use std::fmt;

/// An exact integer or a float.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// A count. Prometheus reads it as a double; other readers see all its digits.
    Whole(u64),
    /// A measurement, which may be infinite or not a number.
    Real(f64),
}

impl Value {
    /// The number, if it is an integer.
    pub fn whole(self) -> Option<u64> {
        match self {
            Value::Whole(value) => Some(value),
            Value::Real(_) => None,
        }
    }

    /// The number, to the precision of a double.
    pub fn real(self) -> f64 {
        match self {
            Value::Whole(value) => value as f64,
            Value::Real(value) => value,
        }
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Value::Whole(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Value::Real(value)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Value::Whole(value.into())
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Value::Whole(value) => value.fmt(f),
            Value::Real(f64::INFINITY) => f.write_str("+Inf"),
            Value::Real(f64::NEG_INFINITY) => f.write_str("-Inf"),
            // `Debug` writes an exponent for very large and small numbers, and `1.0`, which Prometheus 3
            // expects in the labels `le` and `quantile`.
            Value::Real(value) => fmt::Debug::fmt(&value, f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_digit_is_lost() {
        assert_eq!(Value::from(u64::MAX).to_string(), "18446744073709551615");
        for real in [0.1, 1e300, 5e-324, -2.5] {
            assert_eq!(Value::from(real).to_string().parse(), Ok(real));
        }
    }

    #[test]
    fn infinities_and_nan_are_written_as_prometheus_reads_them() {
        let written = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1.0, 1e20];
        let written = written.map(|real| Value::Real(real).to_string());
        assert_eq!(written, ["+Inf", "-Inf", "NaN", "1.0", "1e20"]);
    }
}
