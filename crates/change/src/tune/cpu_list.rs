//! Lists of CPUs as the kernel writes them: `0-3,8`.

/// Whether every CPU of one list is in another. What is no list is in none.
pub(super) fn is_within(list: &str, of: &str) -> bool {
    let (Some(list), Some(of)) = (ranges(list), ranges(of)) else { return false };
    let held =
        |(first, last): &(u32, u32)| of.iter().any(|(begin, end)| begin <= first && last <= end);
    list.iter().all(held)
}

/// Ranges in their order, those that touch made one.
fn ranges(list: &str) -> Option<Vec<(u32, u32)>> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        ranges.push((first.parse().ok()?, last.parse().ok()?));
    }
    ranges.sort_unstable();
    let mut merged: Vec<(u32, u32)> = Vec::new();
    for (first, last) in ranges {
        match merged.last_mut() {
            Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
            _ => merged.push((first, last)),
        }
    }
    Some(merged)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_compared_by_their_cpus() {
        assert!(is_within("1,3-4", "0-7"));
        assert!(is_within("0-7", "0-3,4-7"));
        assert!(!is_within("0-8", "0-7"));
        assert!(!is_within("", "0-7"));
        assert!(is_within("32", "0-15,32-47"));
    }
}
