//! One line of a token file: `NAME TOKEN [read-only] [prefix=BYTES]`, or `cert` in the token's place.

use std::fmt;

use crate::{Credential, Identity, Scope};
use fabric::session::Key;

use super::escape::{escaped, unescaped};

/// An invalid line. The message does not contain the token.
#[derive(Debug, PartialEq, Eq)]
pub struct LineError(pub(crate) String);

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The identity of this line; `None`: the line is empty or a comment.
pub fn parse(line: &str) -> Option<Result<Identity, LineError>> {
    let line = line.split_once('#').map_or(line, |(line, _)| line);
    let mut fields = line.split_whitespace();
    let name = fields.next()?;
    Some(read(name, fields))
}

fn read<'l>(name: &str, mut fields: impl Iterator<Item = &'l str>) -> Result<Identity, LineError> {
    check_name(name)?;
    let credential = match fields.next() {
        None => {
            return error("no token after the name — make one with `wirelane token new`");
        }
        Some(CERTIFICATE) => Credential::Certificate,
        Some(token) => {
            check_token(token)?;
            if name.contains(':') {
                return error(
                    "the name of a token must not contain `:`, which separates name and token in HTTP",
                );
            }
            Credential::Key(
                Key::from_token(name, token).map_err(|error| LineError(error.to_string()))?,
            )
        }
    };
    Ok(Identity { name: name.to_owned(), credential, scope: scope(fields)? })
}

/// Parses the options after the token.
fn scope<'l>(options: impl Iterator<Item = &'l str>) -> Result<Scope, LineError> {
    let (mut writes, mut prefix) = (true, None);
    for option in options {
        match option.strip_prefix(PREFIX) {
            None if option == READ_ONLY && writes => writes = false,
            Some(escaped) if prefix.is_none() => prefix = Some(read_prefix(escaped)?),
            // The option is not shown: it may be a misplaced token.
            _ => {
                return error(
                    "unknown option after the token — use `read-only` and `prefix=…`, each at most once",
                );
            }
        }
    }
    Ok(Scope::new(writes, &prefix.unwrap_or_default()))
}

fn read_prefix(escaped: &str) -> Result<Vec<u8>, LineError> {
    match unescaped(escaped) {
        Some(prefix) if prefix.is_empty() => error("prefix= is empty — leave it out for all keys"),
        Some(prefix) if prefix.len() > Scope::MAX_PREFIX_BYTES => {
            error("prefix= is longer than the longest key")
        }
        Some(prefix) => Ok(prefix),
        None => error(
            "prefix= has a `%` without two hexadecimal digits — write `%25` for a percent sign",
        ),
    }
}

/// Checks that a name is printable and not reserved.
pub fn check_name(name: &str) -> Result<(), LineError> {
    let plain = |byte: u8| byte.is_ascii_graphic() && byte != b'#';
    match name {
        Identity::ANONYMOUS => {
            error("the name `anonymous` is reserved for callers without credentials")
        }
        _ if name.len() > MAX_NAME => error("the name is longer than 128 bytes"),
        _ if !name.bytes().all(plain) => {
            error("the name has characters other than letters, digits and punctuation, or a `#`")
        }
        _ => Ok(()),
    }
}

fn check_token(token: &str) -> Result<(), LineError> {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    match token.len() {
        _ if !token.bytes().all(known) => error(
            "the token has characters that a header cannot carry — make one with `wirelane token new`",
        ),
        ..MIN_TOKEN => error(
            "the token is shorter than 32 characters, so it could be guessed — make one with `wirelane token new`",
        ),
        MIN_TOKEN..=MAX_TOKEN => Ok(()),
        _ => error("the token is longer than 256 bytes"),
    }
}

/// Writes a line.
pub fn render(name: &str, token: &str, scope: &Scope) -> String {
    let mut line = format!("{name} {token}");
    for option in scope_options(scope) {
        line.push(' ');
        line.push_str(&option);
    }
    line
}

/// The options of a line that describe a scope.
pub fn scope_options(scope: &Scope) -> Vec<String> {
    let read_only = (!scope.writes()).then(|| READ_ONLY.to_owned());
    let prefix = Some(scope.prefix()).filter(|prefix| !prefix.is_empty());
    let prefix = prefix.map(|prefix| format!("{PREFIX}{}", escaped(prefix)));
    read_only.into_iter().chain(prefix).collect()
}

fn error<T>(reason: &str) -> Result<T, LineError> {
    Err(LineError(reason.to_owned()))
}

const CERTIFICATE: &str = "cert";
const READ_ONLY: &str = "read-only";
const PREFIX: &str = "prefix=";
const MAX_NAME: usize = 128;
/// So many random letters and digits cannot be guessed.
const MIN_TOKEN: usize = 32;
const MAX_TOKEN: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "wlt_0123456789abcdefghijklmnopqrstuvwxyz";

    fn identity(line: &str) -> Identity {
        parse(line).expect("an identity").expect("a valid line")
    }

    #[test]
    fn a_line_has_name_token_and_scope() {
        let ann = identity(&format!("  ann\t{TOKEN}  # night shift"));
        assert_eq!((ann.name.as_str(), &ann.scope), ("ann", &Scope::everything()));
        let bob = identity(&format!("bob {TOKEN} prefix=team%2F%00 read-only"));
        assert_eq!(bob.scope, Scope::new(false, b"team/\0"));
        let node = identity("spiffe://site/node1 cert read-only");
        assert_eq!(
            (node.credential, node.scope),
            (Credential::Certificate, Scope::new(false, b""))
        );
        assert!(parse("").is_none() && parse("  # empty").is_none());
        let line = render("bob", TOKEN, &bob.scope);
        assert_eq!(line, format!("bob {TOKEN} read-only prefix=team/%00"));
        assert_eq!(identity(&line), identity(&format!("bob {TOKEN} read-only prefix=team/%00")));
    }

    #[test]
    fn errors_do_not_show_the_token() {
        let long = format!("{} {TOKEN}", "n".repeat(129));
        for bad in [
            "ann",
            "ann short_token_x",
            &format!("anonymous {TOKEN}"),
            &format!("a:b {TOKEN}"),
            &format!("ann {TOKEN} writes"),
            &format!("ann read-only {TOKEN}"),
            &format!("ann {TOKEN} read-only read-only"),
            &format!("ann {TOKEN} prefix="),
            &format!("ann {TOKEN} prefix=%4"),
            &format!("ann {TOKEN}\u{e9}"),
            &format!("ann {}", "x".repeat(257)),
            &long,
        ] {
            let error = parse(bad).expect("an identity").expect_err(bad).to_string();
            assert!(!error.contains("0123456789") && !error.contains("short_token"), "{error}");
        }
    }
}
