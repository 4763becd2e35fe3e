//! Reads the `/metrics` of a store on this machine.

use std::net::SocketAddr;
use std::time::Duration;

use web::GetError;

use crate::arguments::peer::Peer;
use crate::output::Failure;

/// A line of the text format.
pub(crate) struct Sample<'t> {
    /// Its name without the prefix, which is configurable.
    pub(crate) name: &'t str,
    labels: &'t str,
    pub(crate) value: f64,
}

/// The address of the metrics of a store that was started without options.
pub(crate) fn default_address() -> Result<Peer, Failure> {
    "127.0.0.1:8080".parse().map_err(Failure::failed)
}

/// The metrics of a store, as text.
pub(crate) fn fetch(peer: &Peer) -> Result<String, String> {
    let addresses = peer.resolve().map_err(|failure| failure.to_string())?;
    let mut last = format!("{peer} has no address");
    for address in addresses {
        match fetch_from(address) {
            Ok(text) => return Ok(text),
            Err(why) => last = format!("read http://{peer}/metrics: {why}"),
        }
    }
    Err(last)
}

fn fetch_from(address: SocketAddr) -> Result<String, String> {
    web::get(address, "/metrics", HTTP_TIMEOUT, MAX_BYTES).map_err(|error| match error {
        GetError::Status(401 | 403) => {
            "credentials required — use the address of the store's --metrics".to_owned()
        }
        error => error.to_string(),
    })
}

/// The samples of a store; `None` if these metrics are of something else.
pub(crate) fn samples(text: &str) -> Option<impl Iterator<Item = Sample<'_>>> {
    let lines = || text.lines().filter_map(sample);
    let prefix = lines().find_map(|sample| sample.name.strip_suffix("store_keys"))?;
    Some(lines().filter_map(move |sample| {
        let name = sample.name.strip_prefix(prefix)?;
        Some(Sample { name, ..sample })
    }))
}

/// `name{label="value"} 7`; `None` if the value is not a finite number.
fn sample(line: &str) -> Option<Sample<'_>> {
    if line.starts_with('#') {
        return None;
    }
    let (series, value) = line.trim_end().rsplit_once(' ')?;
    let value = value.parse::<f64>().ok().filter(|value| value.is_finite())?;
    let (name, labels) = series.split_once('{').unwrap_or((series, ""));
    Some(Sample { name, labels: labels.strip_suffix('}').unwrap_or(labels), value })
}

impl Sample<'_> {
    /// The value of a label.
    pub(crate) fn label(&self, name: &str) -> Option<String> {
        let mut rest = self.labels;
        loop {
            let (known, after) = rest.split_once("=\"")?;
            let (value, after) = quoted(after)?;
            if known.trim_start_matches(',').trim() == name {
                return Some(value);
            }
            rest = after;
        }
    }
}

/// A value up to its closing quote, and what follows it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    loop {
        match characters.next()? {
            (at, '"') => return Some((value, &text[at + 1..])),
            (_, '\\') => match characters.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            (_, other) => value.push(other),
        }
    }
}

/// Time for a store to answer.
const HTTP_TIMEOUT: Duration = Duration::from_secs(1);
const MAX_BYTES: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_may_have_any_value() {
        let line = r#"a_store_keys{path="/srv/a,b=\"c\\",node="7"} 3"#;
        let sample = sample(line).expect("a sample");
        assert_eq!(sample.label("path").as_deref(), Some("/srv/a,b=\"c\\"));
        assert_eq!(sample.label("node").as_deref(), Some("7"));
        assert_eq!(sample.label("other"), None);
        assert_eq!((sample.name, sample.value), ("a_store_keys", 3.0));
    }
}
