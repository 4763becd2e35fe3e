//! A strict parser of Prometheus's text format 0.0.4: anything unknown is an error.

use std::collections::BTreeMap;

/// One scrape.
#[derive(Debug, Default)]
pub(crate) struct Scrape {
    /// Families and their types.
    pub(crate) types: BTreeMap<String, String>,
    /// Samples: the name with its labels as in the text.
    pub(crate) samples: BTreeMap<String, f64>,
}

impl Scrape {
    #[track_caller]
    pub(crate) fn read(text: &str) -> Self {
        assert!(text.ends_with('\n'), "the last line ends too");
        let mut scrape = Scrape::default();
        let mut family = String::new();
        let mut helped = String::new();
        for line in text.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                let (name, text) = help.split_once(' ').expect("a name and a text");
                assert!(is_name(name) && !text.is_empty(), "{line}");
                helped = name.to_owned();
            } else if let Some(kind) = line.strip_prefix("# TYPE ") {
                let (name, kind) = kind.split_once(' ').expect("a name and a type");
                assert_eq!(name, helped, "help comes first");
                assert!(matches!(kind, "counter" | "gauge" | "summary" | "histogram"), "{line}");
                let old = scrape.types.insert(name.to_owned(), kind.to_owned());
                assert_eq!(old, None, "{name} stands together");
                family = name.to_owned();
            } else {
                scrape.sample(line, &family);
            }
        }
        scrape
    }

    #[track_caller]
    fn sample(&mut self, line: &str, family: &str) {
        let (series, value) = line.rsplit_once(' ').expect("a name and a value");
        let (name, labels) = match series.split_once('{') {
            Some((name, labels)) => (name, labels.strip_suffix('}').expect("a closing brace")),
            None => (series, ""),
        };
        let kind = self.types.get(family).map_or("", String::as_str);
        let suffix = name.strip_prefix(family).unwrap_or_else(|| panic!("{line} after {family}"));
        match kind {
            "summary" => assert!(matches!(suffix, "" | "_sum" | "_count"), "{line}"),
            "histogram" => assert!(matches!(suffix, "_bucket" | "_sum" | "_count"), "{line}"),
            _ => assert_eq!(suffix, "", "{line}"),
        }
        assert_eq!(kind == "counter", family.ends_with("_total"), "{line}");
        for label in labels.split("\",").filter(|label| !label.is_empty()) {
            let (name, value) = label.split_once("=\"").expect("a label and its value");
            assert!(is_name(name) && !value.trim_end_matches('"').contains('"'), "{line}");
        }
        let value: f64 = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
        assert!(value >= 0.0, "{line}");
        assert_eq!(self.samples.insert(series.to_owned(), value), None, "twice: {series}");
    }

    #[track_caller]
    pub(crate) fn value(&self, series: &str) -> f64 {
        let value = self.samples.get(series);
        *value.unwrap_or_else(|| panic!("no {series} in {:?}", self.samples.keys()))
    }

    /// Every series that only grows.
    pub(crate) fn counters(&self) -> impl Iterator<Item = (&str, f64)> {
        let is_counter = |series: &str| {
            let name = series.split('{').next().unwrap_or(series);
            self.types.get(name).is_some_and(|kind| kind == "counter")
        };
        let all = self.samples.iter().map(|(series, value)| (series.as_str(), *value));
        all.filter(move |(series, _)| is_counter(series))
    }
}

fn is_name(name: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.is_empty() && name.chars().all(good) && !name.starts_with(|c: char| c.is_ascii_digit())
}
