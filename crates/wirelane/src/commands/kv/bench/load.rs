//! Stores every key before the measurement.

use std::time::Instant;

use kv_client::{Client, PutOptions};

use super::pattern::ValuePattern;
use super::plan::KvBenchPlan;
use crate::output;
use crate::output::Failure;

/// The name of a key.
pub(super) fn key(number: u32) -> [u8; KEY_BYTES] {
    let mut key = *b"bench/0000000000";
    let mut rest = number;
    for digit in key[KEY_BYTES - DIGITS..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// Stores all keys. Returns the seconds it took.
pub(super) fn load(client: &mut Client, plan: &KvBenchPlan) -> Result<f64, Failure> {
    let started = Instant::now();
    let bar = output::steps(plan.keys.into(), "loading");
    let (pattern, mut value) = (ValuePattern::new(plan.value_size), Vec::new());
    let batch = (BATCH_BYTES / plan.value_size.max(1)).clamp(1, 64) as u32;
    let mut pending = Vec::new();
    let mut next = 0;
    while next < plan.keys {
        let end = plan.keys.min(next.saturating_add(batch));
        for number in next..end {
            pattern.fill(number, 0, &mut value);
            pending.push((number, client.begin_put(&key(number), &value, &PutOptions::default())?));
        }
        for (number, call) in pending.drain(..) {
            client.finish_put(&key(number), call)?;
        }
        next = end;
        if let Some(bar) = &bar {
            bar.set_position(next.into());
        }
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    Ok(started.elapsed().as_secs_f64())
}

const DIGITS: usize = 10;
const KEY_BYTES: usize = 16;
/// Bytes in flight.
const BATCH_BYTES: usize = 4 << 20;
