//! The rate limit of a web config file: a token bucket.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::config::Rate;

#[derive(Debug)]
pub(super) struct Limiter {
    rate: Rate,
    bucket: Mutex<Bucket>,
}

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    filled: Instant,
}

impl Limiter {
    pub(super) fn new(rate: Rate, now: Instant) -> Self {
        let bucket = Bucket { tokens: f64::from(rate.burst), filled: now };
        Limiter { rate, bucket: Mutex::new(bucket) }
    }

    pub(super) fn rate(&self) -> Rate {
        self.rate
    }

    /// Takes a token, if there is one.
    pub(super) fn admits(&self, now: Instant) -> bool {
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let elapsed = now.saturating_duration_since(bucket.filled).as_secs_f64();
        let refilled = elapsed / self.rate.interval.as_secs_f64();
        bucket.tokens = (bucket.tokens + refilled).min(f64::from(self.rate.burst));
        bucket.filled = now;
        let admits = bucket.tokens >= 1.0;
        if admits {
            bucket.tokens -= 1.0;
        }
        admits
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_burst_then_one_for_each_interval() {
        let now = Instant::now();
        let limiter = Limiter::new(Rate { interval: Duration::from_secs(2), burst: 3 }, now);
        assert_eq!([(); 4].map(|()| limiter.admits(now)), [true, true, true, false]);
        assert!(!limiter.admits(now + Duration::from_secs(1)));
        assert!(limiter.admits(now + Duration::from_secs(2)));
        let later = now + Duration::from_secs(3600);
        assert_eq!([(); 4].map(|()| limiter.admits(later)), [true, true, true, false]);
    }
}
