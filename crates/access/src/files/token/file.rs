//! A file of tokens: a server's, with everybody who may call, or a caller's, with its own.

use std::collections::HashMap;
use std::path::Path;

use crate::{Holder, Proof};
use fabric::session::Key;

use super::line;
use crate::files::error::FileError;
use crate::files::secret_file::{GROUP_OR_OTHERS, SecretFile};

/// Everybody in a server's file.
pub fn holders(path: &Path) -> Result<Vec<Holder>, FileError> {
    read(&FILE.read(path)?).map_err(|(number, why)| match number {
        0 => FILE.invalid(path, why),
        number => FILE.invalid(path, format!("line {number}: {why}")),
    })
}

/// The key of a caller's token: the name and the token of the first line. What follows is the server's business.
pub fn caller(path: &Path) -> Result<Key, FileError> {
    let text = FILE.read(path)?;
    let mut lines = text.lines().map(|line| line.split_whitespace().take(2).collect::<Vec<_>>());
    let first = lines.find_map(|words| line::parse(&words.join(" ")));
    let why = match first {
        Some(Ok(Holder { proof: Proof::Key(key), .. })) => return Ok(key),
        Some(Err(wrong)) => wrong.to_string(),
        _ => "there is no token in its first line — put `NAME TOKEN` there".to_owned(),
    };
    Err(FILE.invalid(path, why))
}

/// The number of the line that is wrong, from 1; 0: the file as a whole.
fn read(text: &str) -> Result<Vec<Holder>, (usize, String)> {
    let mut holders = Vec::new();
    let mut names: HashMap<String, usize> = HashMap::new();
    for (number, text) in (1..).zip(text.lines()) {
        let Some(holder) = line::parse(text) else { continue };
        let holder = holder.map_err(|wrong| (number, wrong.to_string()))?;
        if let Some(before) = names.insert(holder.name.clone(), number) {
            let why = format!(
                "{} is in line {before} already — give each line its own name",
                holder.name
            );
            return Err((number, why));
        }
        if holders.len() == MAX_HOLDERS {
            return Err((number, format!("more than {MAX_HOLDERS} names — are they all needed?")));
        }
        holders.push(holder);
    }
    if holders.is_empty() {
        let why = "nobody is in it — add a line with `wirelane token new NAME`";
        return Err((0, why.to_owned()));
    }
    Ok(holders)
}

const FILE: SecretFile =
    SecretFile { name: "token file", open_to: GROUP_OR_OTHERS, max_bytes: 1 << 20 };
const MAX_HOLDERS: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "wlt_0123456789abcdefghijklmnopqrstuvwxyz";

    #[test]
    fn everybody_is_read_in_order() {
        let text = format!("# ours\n\nann {TOKEN}\nnode1 cert\nbob {TOKEN}2 read-only\n");
        let names: Vec<String> =
            read(&text).unwrap().into_iter().map(|holder| holder.name).collect();
        assert_eq!(names, ["ann", "node1", "bob"]);
    }

    #[test]
    fn the_line_that_is_wrong_is_told() {
        assert_eq!(read("# nobody\n").unwrap_err().0, 0);
        assert_eq!(read(&format!("ann {TOKEN}\n\nbob\n")).unwrap_err().0, 3);
        let (number, why) = read(&format!("ann {TOKEN}\nann {TOKEN}2\n")).unwrap_err();
        assert!(number == 2 && why.contains("line 1"), "{why}");
        let many: String = (0..5000).map(|n| format!("n{n} cert\n")).collect();
        assert_eq!(read(&many).unwrap_err().0, MAX_HOLDERS + 1);
    }
}
