//! Reads a file: its sections, and its problems with their lines.

use std::collections::HashMap;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use access::files::InputFile;
use access::passwords::{Hash, Users};
use hyper::header::{HeaderName, HeaderValue};

use super::config::{Config, Rate};
use super::fields::{Fields, Located, entries, scalar};
use super::tls::TlsSection;
use super::{duration, tls};
use crate::output::Failure;
use crate::settings::problem::{Problem, quoted};
use crate::settings::yaml::{self, Node, Shape};

/// Reads the file, without the files that it names.
pub(crate) fn read(path: &Path) -> Result<Config, Failure> {
    let document = yaml::parse(&text(path)?)
        .map_err(|error| failure(Problem::at(path, error.line, error.text)))?;
    parse(path, &document).map_err(failure)
}

fn parse(path: &Path, document: &Node) -> Result<Config, Problem> {
    let sections = Fields::of(path, document, SECTIONS)?;
    let section = |name: &str, known: &[&str]| match sections.node(name) {
        Some(node) => Fields::of(path, node, known),
        None => Fields::of(path, &EMPTY, known),
    };
    Ok(Config {
        tls: TlsSection::of(path, &section("tls_server_config", tls::FIELDS)?)?,
        headers: headers(path, &section("http_server_config", &["http2", "headers"])?)?,
        users: users(path, &sections)?,
        rate: rate(&section("rate_limit", &["interval", "burst"])?)?,
        is_empty: matches!(document.shape, Shape::Null),
    })
}

/// Headers of every reply, of those that exporter-toolkit allows.
fn headers(path: &Path, http: &Fields<'_>) -> Result<Vec<(HeaderName, HeaderValue)>, Problem> {
    // The server has only HTTP/1.1.
    http.flag("http2", true)?;
    let Some(node) = http.node("headers") else { return Ok(Vec::new()) };
    let mut headers = Vec::new();
    for (key, node) in entries(path, node)? {
        let name = key.name.as_str();
        let (value, line) = (scalar(node).unwrap_or_default(), key.line);
        let Some((_, allowed)) = HEADERS.iter().find(|(known, _)| *known == name) else {
            let known: Vec<&str> = HEADERS.iter().map(|(known, _)| *known).collect();
            let text = format!("{} cannot be set; allowed: {}.", quoted(name), known.join(", "));
            return Err(http.problem(line, text));
        };
        if !allowed.is_empty() && !allowed.contains(&value) {
            return Err(
                http.problem(line, format!("{name} must be one of: {}.", allowed.join(", ")))
            );
        }
        if value.is_empty() {
            continue;
        }
        let value = HeaderValue::from_str(value).map_err(|_| {
            http.problem(line, format!("{name} has a character that is not valid in headers."))
        })?;
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a name of the list");
        headers.push((name, value));
    }
    Ok(headers)
}

fn users(path: &Path, sections: &Fields<'_>) -> Result<Users, Problem> {
    let mut named = HashMap::new();
    if let Some(node) = sections.node("basic_auth_users") {
        for (key, node) in entries(path, node)? {
            let hash = Hash::parse(scalar(node).unwrap_or_default()).map_err(|why| {
                sections.problem(key.line, format!("the password of {} {why}.", quoted(&key.name)))
            })?;
            named.insert(key.name.clone(), hash);
        }
    }
    Ok(Users::new(named))
}

fn rate(limit: &Fields<'_>) -> Result<Option<Rate>, Problem> {
    let interval = match limit.text("interval")? {
        None => Duration::ZERO,
        Some(Located { line, value }) => duration::parse(value).ok_or_else(|| {
            limit.problem(line, "interval must be a time such as `100ms` or `1s`; 0 is no limit.")
        })?,
    };
    let burst = limit.text("burst")?;
    let invalid = |line| limit.problem(line, "burst must be a number of requests, at least 1.");
    let (line, burst) = match burst {
        None => (1, 0),
        Some(Located { line, value }) => (line, value.parse::<u32>().map_err(|_| invalid(line))?),
    };
    match (interval.is_zero(), burst) {
        (true, _) => Ok(None),
        // No request would ever be admitted.
        (false, 0) => Err(invalid(line)),
        (false, burst) => Ok(Some(Rate { interval, burst })),
    }
}

fn text(path: &Path) -> Result<String, Failure> {
    let failed = |why: &dyn std::fmt::Display| {
        Failure::failed(format!("read the web config file {}: {why}", path.display()))
    };
    let mut bytes = Vec::new();
    let read =
        InputFile::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes));
    read.map_err(|error| failed(&error))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(failed(&"larger than 1 MiB; is it another file?"));
    }
    String::from_utf8(bytes).map_err(|_| failed(&"not UTF-8 text; is it another file?"))
}

fn failure(problem: Problem) -> Failure {
    Failure::usage(problem.to_string())
}

const SECTIONS: &[&str] =
    &["tls_server_config", "http_server_config", "basic_auth_users", "rate_limit"];
const EMPTY: Node = Node { line: 1, shape: Shape::Null };
/// Each with its allowed values; any if empty.
const HEADERS: &[(&str, &[&str])] = &[
    ("Strict-Transport-Security", &[]),
    ("X-Content-Type-Options", &["nosniff"]),
    ("X-Frame-Options", &["deny", "sameorigin"]),
    ("X-XSS-Protection", &[]),
    ("Content-Security-Policy", &[]),
];
/// Enough for thousands of users.
const MAX_BYTES: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Result<Config, String> {
        let document = yaml::parse(text).map_err(|error| error.to_string())?;
        parse(Path::new("/etc/web.yml"), &document).map_err(|problem| problem.to_string())
    }

    #[track_caller]
    fn refused(text: &str, words: &[&str]) {
        let why = config(text).expect_err(text);
        assert!(words.iter().all(|word| why.contains(word)), "{why}");
    }

    #[test]
    fn an_empty_file_has_no_rules() {
        let config = config("# later\n").unwrap();
        assert!(config.tls.is_none() && config.users.is_empty() && config.rate.is_none());
        assert!(config.is_empty && config.headers.is_empty());
    }

    #[test]
    fn headers_users_and_the_rate_are_read() {
        let config = config(
            "http_server_config:\n  http2: off\n  headers:\n    X-Frame-Options: deny\n    X-XSS-Protection: ''\n\
             basic_auth_users:\n  prometheus: $2y$04$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi\n\
             rate_limit:\n  interval: 1s\n  burst: 20\n",
        )
        .unwrap();
        assert_eq!(config.headers.len(), 1, "empty headers are not set");
        assert_eq!(config.headers[0].0, "x-frame-options");
        assert!(config.users.hash_of("prometheus").1 && !config.users.hash_of("root").1);
        let rate = Rate { interval: Duration::from_secs(1), burst: 20 };
        assert_eq!(config.rate, Some(rate));
    }

    #[test]
    fn problems_have_their_lines() {
        refused("tls_config:\n  cert_file: a\n", &["web.yml:1:", "tls_server_config"]);
        refused("tls_server_config:\n  cert: a\n  cert_fil: a\n", &["web.yml:3:", "`cert_file`"]);
        refused("http_server_config:\n  http3: true\n", &["web.yml:2:", "`http2`"]);
        refused("http_server_config:\n  http2: 7\n", &["web.yml:2:", "`true` or `false`"]);
        let header = |line: &str| format!("http_server_config:\n  headers:\n    {line}\n");
        refused(&header("Server: x"), &["web.yml:3:", "cannot be set", "X-Frame-Options"]);
        refused(&header("X-Frame-Options: allow"), &["web.yml:3:", "deny, sameorigin"]);
        refused("basic_auth_users:\n  a: secret\n", &["web.yml:2:", "`a` is not a bcrypt hash"]);
        refused("basic_auth_users: a\n", &["web.yml:1:", "group"]);
        refused("rate_limit:\n  interval: soon\n", &["web.yml:2:", "100ms"]);
        refused("rate_limit:\n  interval: 1s\n", &["at least 1"]);
        refused("rate_limit:\n  interval: 1s\n  burst: -1\n", &["web.yml:3:", "at least 1"]);
    }
}
