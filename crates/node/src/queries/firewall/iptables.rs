//! The output of `iptables-save`.

use super::Rules;

pub(super) fn parse(text: &str) -> Rules {
    let mut rules = Rules::default();
    // Chains of other tables have the same names, but do not filter.
    let filter = text.lines().skip_while(|line| line.trim() != "*filter").skip(1);
    for line in filter.take_while(|line| !line.starts_with('*')) {
        if line.starts_with(":INPUT DROP") {
            rules.drops_by_default = true;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["-A", "INPUT", "-j", "DROP" | "REJECT", ..] => rules.drops_by_default = true,
            ["-A", _, ..] => add_rule(&words, &mut rules),
            _ => {}
        }
    }
    rules
}

fn add_rule(words: &[&str], rules: &mut Rules) {
    let after =
        |names: &[&str]| words.windows(2).find(|pair| names.contains(&pair[0])).map(|pair| pair[1]);
    // A negated condition is not evaluated.
    if after(&["-j"]) != Some("ACCEPT") || words.contains(&"!") {
        return;
    }
    let ports = after(&["--dport", "--dports"]).unwrap_or_default().split(',');
    let range = |text: &str| {
        let (first, last) = text.split_once(':').unwrap_or((text, text));
        Some((first.parse().ok()?, last.parse().ok()?))
    };
    rules.accept(after(&["-p"]).unwrap_or_default(), ports.filter_map(range).collect());
}
