//! Dependencies must have permissive licences, and one version each.

use super::metadata::{Package, duplicates};
use crate::Failure;

/// Licences that require only attribution.
const PERMISSIVE: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Packages allowed in two versions, each with the reason and the condition to remove it.
const ALLOWED_DUPLICATES: &[(&str, &str)] = &[
    (
        "darling",
        "0.20 is used by nvml-wrapper's macros, at build time only; until nvml-wrapper updates it",
    ),
    ("darling_core", "as darling"),
    ("darling_macro", "as darling"),
    ("getrandom", "0.2 is used by ring; until ring has a release without it"),
    ("syn", "used by derive macros at build time only; until clap, serde and tokio all use 3"),
    ("thiserror", "1 is used by nvml-wrapper; until it uses 2"),
    ("thiserror-impl", "as thiserror"),
];

pub(crate) fn check(packages: &[Package]) -> Result<(), Failure> {
    if let Some(package) = packages.iter().find(|package| !permitted(&package.licence)) {
        return Err(format!(
            "{} {} is licensed `{}`, which xtask/src/check/licences.rs does not allow",
            package.name, package.version, package.licence
        ));
    }
    let allowed = |name: &str| ALLOWED_DUPLICATES.iter().any(|(twice, _)| *twice == name);
    for (name, versions) in duplicates(packages) {
        if !allowed(name) {
            return Err(format!(
                "{name} is built in {} versions ({}); use one, or add the reason to \
                 xtask/src/check/licences.rs",
                versions.len(),
                versions.join(", ")
            ));
        }
    }
    Ok(())
}

/// Whether the expression can be satisfied with permissive licences. Old packages write
/// `MIT/Apache-2.0` for `MIT OR Apache-2.0`.
fn permitted(expression: &str) -> bool {
    let expression = expression.replace('/', " OR ");
    match outermost(&expression, " OR ").or_else(|| outermost(&expression, " AND ")) {
        Some((left, " OR ", right)) => permitted(left) || permitted(right),
        Some((left, _, right)) => permitted(left) && permitted(right),
        None => {
            let bare = expression.trim();
            match bare.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')) {
                Some(inner) => permitted(inner),
                None => PERMISSIVE.contains(&bare),
            }
        }
    }
}

/// Splits at the first `word` outside parentheses.
fn outermost<'e>(
    expression: &'e str,
    word: &'static str,
) -> Option<(&'e str, &'static str, &'e str)> {
    let mut depth = 0;
    for (at, letter) in expression.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ if depth == 0 && expression[at..].starts_with(word) => {
                return Some((&expression[..at], word, &expression[at + word.len()..]));
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn or_needs_one_permissive_side_and_and_needs_both() {
        assert!(permitted("MIT OR GPL-3.0"));
        assert!(permitted("MIT/Apache-2.0"));
        assert!(!permitted("MIT AND GPL-3.0"));
        assert!(permitted("(MIT OR GPL-3.0) AND Unicode-3.0"));
        assert!(permitted("Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT"));
        assert!(!permitted("GPL-3.0-only"));
        assert!(!permitted(""));
    }
}
