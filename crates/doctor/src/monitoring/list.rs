//! Include and exclude lists of names.

use std::convert::Infallible;
use std::str::FromStr;

/// Selects everything, or names that match `include`, without names that match `exclude`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct List {
    /// Empty: everything.
    pub include: Vec<Pattern>,
    /// Takes precedence over `include`.
    pub exclude: Vec<Pattern>,
}

/// A name in which `*` matches any characters and `?` matches one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(String);

impl List {
    /// Whether something with these names is selected: one of them is included, and none is excluded.
    pub fn wants(&self, names: &[&str]) -> bool {
        let any = |patterns: &[Pattern]| {
            patterns.iter().any(|pattern| names.iter().any(|name| pattern.matches(name)))
        };
        (self.include.is_empty() || any(&self.include)) && !any(&self.exclude)
    }
}

impl FromStr for Pattern {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Pattern(text.to_owned()))
    }
}

impl Pattern {
    /// Whether the pattern matches the whole name.
    pub fn matches(&self, name: &str) -> bool {
        let (pattern, name): (Vec<char>, Vec<char>) =
            (self.0.chars().collect(), name.chars().collect());
        let (mut p, mut n) = (0, 0);
        // The position of the last `*`, and the end of what it matches so far: only that one is extended.
        let mut star: Option<(usize, usize)> = None;
        while n < name.len() {
            match pattern.get(p) {
                Some('*') => {
                    star = Some((p, n));
                    p += 1;
                }
                Some(letter) if *letter == '?' || *letter == name[n] => {
                    p += 1;
                    n += 1;
                }
                _ => match star {
                    Some((at, covered)) => {
                        star = Some((at, covered + 1));
                        p = at + 1;
                        n = covered + 1;
                    }
                    None => return false,
                },
            }
        }
        pattern[p..].iter().all(|letter| *letter == '*')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        text.parse().expect("any text is one")
    }

    #[test]
    fn stars_and_question_marks_match_characters() {
        for (text, name) in [
            ("mlx5_*", "mlx5_10"),
            ("*", ""),
            ("mlx?_0", "mlx5_0"),
            ("*_req*s", "rx_read_requests"),
            ("port_*_bytes_total", "port_receive_bytes_total"),
            ("Pio Reserved *", "Pio Reserved 30"),
        ] {
            assert!(pattern(text).matches(name), "{text} {name}");
        }
        for (text, name) in [("mlx5_?", "mlx5_10"), ("mlx5", "mlx5_0"), ("", "a"), ("a*b", "abc")] {
            assert!(!pattern(text).matches(name), "{text} {name}");
        }
        let long = "a".repeat(4000);
        assert!(!pattern(&"a*".repeat(40)).matches(&format!("{long}b{long}").replace('a', "c")));
    }

    #[test]
    fn exclude_takes_precedence_over_include() {
        let list = List { include: vec![pattern("rdma*")], exclude: vec![pattern("*bytes")] };
        assert!(list.wants(&["x", "rdma_packets"]) && !list.wants(&["x"]));
        assert!(!list.wants(&["rdma_bytes"]) && List::default().wants(&["anything"]));
    }
}
