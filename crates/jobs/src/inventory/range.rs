//! Names with ranges in brackets, as in Slurm: `gpu[001-032,040]`.

use super::{InventoryError, within_limit};

/// Expands the ranges of one item. An item without brackets is a name.
pub(super) fn expand(word: &str) -> Result<Vec<String>, InventoryError> {
    let mut names = vec![String::new()];
    let mut rest = word;
    while let Some((before, after)) = rest.split_once('[') {
        let Some((ranges, after)) = after.split_once(']') else {
            return Err(InventoryError::new(format!("has {word:?}, with an unclosed bracket")));
        };
        let numbers = numbers(ranges)?;
        within_limit(names.len().saturating_mul(numbers.len()))?;
        let with = |name: &String| {
            let name = format!("{name}{before}");
            numbers.iter().map(move |number| format!("{name}{number}")).collect::<Vec<_>>()
        };
        names = names.iter().flat_map(with).collect();
        rest = after;
    }
    if rest.contains(']') {
        return Err(InventoryError::new(format!("has {word:?}, with an unopened bracket")));
    }
    Ok(names.into_iter().map(|name| name + rest).collect())
}

/// Items separated by commas, except for commas in brackets.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    text.split(move |letter| {
        match letter {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && depth == 0
    })
}

/// `001-003,7` is 001, 002, 003 and 7: padded to the width of the first number of a range.
fn numbers(ranges: &str) -> Result<Vec<String>, InventoryError> {
    let mut numbers = Vec::new();
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let invalid =
            || InventoryError::new(format!("has [{range}], which is not a range of numbers"));
        let (low, high) = (number(first).ok_or_else(invalid)?, number(last).ok_or_else(invalid)?);
        if high < low {
            return Err(invalid());
        }
        within_limit(numbers.len().saturating_add((high - low) as usize))?;
        numbers.extend((low..=high).map(|number| format!("{number:0width$}", width = first.len())));
    }
    within_limit(numbers.len())?;
    Ok(numbers)
}

fn number(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.len() <= 18;
    (plain && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(word: &str) -> String {
        expand(word).expect("names").join(" ")
    }

    #[test]
    fn slurms_ranges_are_expanded() {
        assert_eq!(expanded("cpu1"), "cpu1");
        assert_eq!(expanded("gpu[001-003,040]"), "gpu001 gpu002 gpu003 gpu040");
        assert_eq!(expanded("n[9-11]"), "n9 n10 n11");
        assert_eq!(expanded("n[098-101]-ib"), "n098-ib n099-ib n100-ib n101-ib");
        assert_eq!(expanded("r[1-2]n[01-02]"), "r1n01 r1n02 r2n01 r2n02");
        assert_eq!(expand("gpu[001-032]").expect("names").len(), 32);
    }

    #[test]
    fn invalid_ranges_are_refused() {
        for invalid in ["n[", "n]", "n[1", "n[]", "n[a-b]", "n[3-1]", "n[1-2-3]", "n[-1]", "n[[1]]"]
        {
            assert!(expand(invalid).is_err(), "{invalid}");
        }
    }

    #[test]
    fn the_number_of_names_is_limited() {
        for invalid in ["n[0-999999999]", "n[1-100]m[1-100]", "n[0-18446744073709551615]"] {
            assert!(expand(invalid).is_err(), "{invalid}");
        }
        assert!(expand(&"[1-9]".repeat(1000)).is_err());
    }

    #[test]
    fn commas_in_brackets_do_not_separate_items() {
        assert_eq!(words("a[1,2],b,c[3]").collect::<Vec<_>>(), ["a[1,2]", "b", "c[3]"]);
    }
}
