//! A token file: a server's, with all identities, or a client's, with its own token.

use std::collections::HashMap;
use std::path::Path;

use crate::{Credential, Identity};
use fabric::session::Key;

use super::line;
use crate::files::error::FileError;
use crate::files::secret_file::{GROUP_OR_OTHERS, SecretFile};

/// All identities of a server's file.
pub fn identities(path: &Path) -> Result<Vec<Identity>, FileError> {
    read(&FILE.read(path)?).map_err(|(number, reason)| match number {
        0 => FILE.invalid(path, reason),
        number => FILE.invalid(path, format!("line {number}: {reason}")),
    })
}

/// The key of a client's token: name and token of the first line. The rest of the line concerns the server only.
pub fn caller(path: &Path) -> Result<Key, FileError> {
    let text = FILE.read(path)?;
    let mut lines = text.lines().map(|line| line.split_whitespace().take(2).collect::<Vec<_>>());
    let first = lines.find_map(|fields| line::parse(&fields.join(" ")));
    let reason = match first {
        Some(Ok(Identity { credential: Credential::Key(key), .. })) => return Ok(key),
        Some(Err(error)) => error.to_string(),
        _ => "no token in the first line — write `NAME TOKEN` there".to_owned(),
    };
    Err(FILE.invalid(path, reason))
}

/// An error has the number of its line, from 1, or 0 for the file as a whole.
fn read(text: &str) -> Result<Vec<Identity>, (usize, String)> {
    let mut identities = Vec::new();
    let mut names: HashMap<String, usize> = HashMap::new();
    for (number, text) in (1..).zip(text.lines()) {
        let Some(identity) = line::parse(text) else { continue };
        let identity = identity.map_err(|error| (number, error.to_string()))?;
        if let Some(before) = names.insert(identity.name.clone(), number) {
            let name = identity.name;
            let reason = format!("name {name} is used in line {before} already — choose another");
            return Err((number, reason));
        }
        if identities.len() == MAX_IDENTITIES {
            return Err((number, format!("more than {MAX_IDENTITIES} names")));
        }
        identities.push(identity);
    }
    if identities.is_empty() {
        let reason = "the file has no tokens — add a line with `wirelane token new NAME`";
        return Err((0, reason.to_owned()));
    }
    Ok(identities)
}

const FILE: SecretFile =
    SecretFile { name: "token file", forbidden: GROUP_OR_OTHERS, max_bytes: 1 << 20 };
const MAX_IDENTITIES: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "wlt_0123456789abcdefghijklmnopqrstuvwxyz";

    #[test]
    fn identities_are_read_in_order() {
        let text = format!("# ours\n\nann {TOKEN}\nnode1 cert\nbob {TOKEN}2 read-only\n");
        let names: Vec<String> =
            read(&text).unwrap().into_iter().map(|identity| identity.name).collect();
        assert_eq!(names, ["ann", "node1", "bob"]);
    }

    #[test]
    fn errors_have_the_number_of_their_line() {
        assert_eq!(read("# empty\n").unwrap_err().0, 0);
        assert_eq!(read(&format!("ann {TOKEN}\n\nbob\n")).unwrap_err().0, 3);
        let (number, reason) = read(&format!("ann {TOKEN}\nann {TOKEN}2\n")).unwrap_err();
        assert!(number == 2 && reason.contains("line 1"), "{reason}");
        let many: String = (0..5000).map(|n| format!("n{n} cert\n")).collect();
        assert_eq!(read(&many).unwrap_err().0, MAX_IDENTITIES + 1);
    }
}
