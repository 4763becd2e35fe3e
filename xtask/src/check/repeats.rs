//! Duplicated code.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use super::limits::Counts;
use super::sources::{self, Source};
use crate::Failure;

/// The number of duplicated runs of [`RUN_LINES`] lines of code, in all crates.
pub(super) fn count() -> Result<Counts, Failure> {
    let sources = sources::with_extensions(&["rs"])?;
    let product = sources.iter().filter(|source| source.path.contains("/src/"));
    Ok(Counts::from([("lines".to_owned(), repeated(product).len())]))
}

/// The second and later occurrences of each run, as file and line.
fn repeated<'s>(sources: impl Iterator<Item = &'s Source>) -> Vec<String> {
    let hasher = RandomState::new();
    let mut seen: HashMap<u64, ()> = HashMap::new();
    let mut again = Vec::new();
    for source in sources {
        let lines: Vec<(usize, &str)> = code_lines(&source.text).collect();
        for run in lines.windows(RUN_LINES) {
            let text: Vec<&str> = run.iter().map(|(_, line)| *line).collect();
            if seen.insert(hasher.hash_one(text), ()).is_some() {
                again.push(format!("{}:{}", source.path, run[0].0));
            }
        }
    }
    again
}

/// Lines without comments, imports, attributes and lone brackets.
fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    lines.filter(|(_, line)| {
        let words = line.bytes().filter(u8::is_ascii_alphanumeric).count();
        words > 3
            && !["//", "#[", "use ", "pub use ", "mod "].iter().any(|start| line.starts_with(start))
    })
}

const RUN_LINES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_are_found_despite_comments() {
        let lines: Vec<String> =
            (0..RUN_LINES).map(|at| format!("let value{at} = call({at});")).collect();
        let source = |path: &str, text| Source { path: path.to_owned(), text };
        let a = source("a/src/a.rs", lines.join("\n"));
        let b = source("b/src/b.rs", format!("use x;\n{}\n", lines.join("\n    // why\n")));
        assert_eq!(repeated([&a, &b].into_iter()), ["b/src/b.rs:2"]);
        assert!(repeated([&a].into_iter()).is_empty());
    }
}
