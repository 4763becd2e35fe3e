//! One line of a token file: `NAME TOKEN [read-only] [prefix=BYTES]`, or `cert` in the token's place.

use std::fmt;

use crate::{Holder, Proof, Scope};
use fabric::session::Key;

use super::escape::{escaped, unescaped};

/// What is wrong with a line, without its token.
#[derive(Debug, PartialEq, Eq)]
pub struct Wrong(pub(crate) String);

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Who this line is about; `None`: nobody, it is empty or a comment.
pub fn parse(line: &str) -> Option<Result<Holder, Wrong>> {
    let line = line.split_once('#').map_or(line, |(line, _)| line);
    let mut words = line.split_whitespace();
    let name = words.next()?;
    Some(read(name, words))
}

fn read<'l>(name: &str, mut words: impl Iterator<Item = &'l str>) -> Result<Holder, Wrong> {
    check_name(name)?;
    let proof = match words.next() {
        None => {
            return wrong("there is no token behind the name — make one with `wirelane token new`");
        }
        Some(CERTIFICATE) => Proof::Certificate,
        Some(token) => {
            check_token(token)?;
            if name.contains(':') {
                return wrong("the name of a token has no `:`, which HTTP puts between the two");
            }
            Proof::Key(Key::from_token(name, token).map_err(|error| Wrong(error.to_string()))?)
        }
    };
    Ok(Holder { name: name.to_owned(), proof, scope: scope(words)? })
}

/// What the rest of a line says.
fn scope<'l>(words: impl Iterator<Item = &'l str>) -> Result<Scope, Wrong> {
    let (mut writes, mut prefix) = (true, None);
    for word in words {
        match word.strip_prefix(PREFIX) {
            None if word == READ_ONLY && writes => writes = false,
            Some(escaped) if prefix.is_none() => prefix = Some(read_prefix(escaped)?),
            // It may be a token at the wrong place.
            _ => {
                return wrong(
                    "behind the token stand `read-only` and `prefix=…`, each once at most",
                );
            }
        }
    }
    Ok(Scope::new(writes, &prefix.unwrap_or_default()))
}

fn read_prefix(escaped: &str) -> Result<Vec<u8>, Wrong> {
    match unescaped(escaped) {
        Some(prefix) if prefix.is_empty() => wrong("prefix= is empty — leave it out for all keys"),
        Some(prefix) if prefix.len() > Scope::MAX_PREFIX_BYTES => {
            wrong("prefix= is longer than a key may be")
        }
        Some(prefix) => Ok(prefix),
        None => wrong(
            "prefix= has a `%` without two hexadecimal digits — write `%25` for a percent sign",
        ),
    }
}

/// A name that can be shown everywhere, and is nobody else's.
pub fn check_name(name: &str) -> Result<(), Wrong> {
    let plain = |byte: u8| byte.is_ascii_graphic() && byte != b'#';
    match name {
        Holder::ANONYMOUS => wrong("the name `anonymous` is for those who show nothing"),
        _ if name.len() > MAX_NAME => wrong("the name is longer than 128 bytes"),
        _ if !name.bytes().all(plain) => wrong("the name is not of letters, digits and signs"),
        _ => Ok(()),
    }
}

fn check_token(token: &str) -> Result<(), Wrong> {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    match token.len() {
        _ if !token.bytes().all(known) => {
            wrong("the token has signs that no header takes — make one with `wirelane token new`")
        }
        ..MIN_TOKEN => wrong(
            "the token is so short that it can be guessed — make one with `wirelane token new`",
        ),
        MIN_TOKEN..=MAX_TOKEN => Ok(()),
        _ => wrong("the token is longer than 256 bytes"),
    }
}

/// A line, from what it says.
pub fn render(name: &str, token: &str, scope: &Scope) -> String {
    let mut line = format!("{name} {token}");
    for word in words(scope) {
        line.push(' ');
        line.push_str(&word);
    }
    line
}

/// What a scope is called.
pub fn words(scope: &Scope) -> Vec<String> {
    let read_only = (!scope.writes()).then(|| READ_ONLY.to_owned());
    let prefix = Some(scope.prefix()).filter(|prefix| !prefix.is_empty());
    let prefix = prefix.map(|prefix| format!("{PREFIX}{}", escaped(prefix)));
    read_only.into_iter().chain(prefix).collect()
}

fn wrong<T>(why: &str) -> Result<T, Wrong> {
    Err(Wrong(why.to_owned()))
}

const CERTIFICATE: &str = "cert";
const READ_ONLY: &str = "read-only";
const PREFIX: &str = "prefix=";
const MAX_NAME: usize = 128;
/// Of random letters and digits so many cannot be guessed.
const MIN_TOKEN: usize = 32;
const MAX_TOKEN: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "wlt_0123456789abcdefghijklmnopqrstuvwxyz";

    fn holder(line: &str) -> Holder {
        parse(line).expect("somebody").expect("a good line")
    }

    #[test]
    fn a_line_says_who_and_what() {
        let ann = holder(&format!("  ann\t{TOKEN}  # night shift"));
        assert_eq!((ann.name.as_str(), &ann.scope), ("ann", &Scope::everything()));
        let bob = holder(&format!("bob {TOKEN} prefix=team%2F%00 read-only"));
        assert_eq!(bob.scope, Scope::new(false, b"team/\0"));
        let node = holder("spiffe://site/node1 cert read-only");
        assert_eq!((node.proof, node.scope), (Proof::Certificate, Scope::new(false, b"")));
        assert!(parse("").is_none() && parse("  # nobody").is_none());
        let line = render("bob", TOKEN, &bob.scope);
        assert_eq!(line, format!("bob {TOKEN} read-only prefix=team/%00"));
        assert_eq!(holder(&line), holder(&format!("bob {TOKEN} read-only prefix=team/%00")));
    }

    #[test]
    fn what_is_wrong_is_told_without_the_token() {
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
            let wrong = parse(bad).expect("somebody").expect_err(bad).to_string();
            assert!(!wrong.contains("0123456789") && !wrong.contains("short_token"), "{wrong}");
        }
    }
}
