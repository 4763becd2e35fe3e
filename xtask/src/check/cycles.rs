//! Import cycles between the top-level modules of a crate, at least one of which is a folder. Sibling files may import
//! each other; tests may import anything.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::limits::Counts;
use super::sources::{self, Source};
use crate::Failure;

/// The number of top-level modules in cycles, by crate.
pub(super) fn count() -> Result<Counts, Failure> {
    let sources = sources::with_extensions(&["rs"])?;
    let mut crates: BTreeMap<&str, Vec<(&str, &Source)>> = BTreeMap::new();
    for source in &sources {
        let inside = source.path.strip_prefix("crates/").unwrap_or(&source.path);
        if let Some((name, path)) = inside.split_once("/src/") {
            crates.entry(name).or_default().push((path, source));
        }
    }
    let mut counts = Counts::new();
    for (name, files) in crates {
        let modules = Modules::read(&files)?;
        counts.insert(name.to_owned(), modules.in_cycles().len());
    }
    Ok(counts)
}

/// The top-level modules of a crate, and their imports.
#[derive(Default)]
struct Modules {
    folders: BTreeSet<String>,
    arrows: BTreeMap<String, BTreeSet<String>>,
}

impl Modules {
    fn read(files: &[(&str, &Source)]) -> Result<Modules, Failure> {
        let mut modules = Modules::default();
        let mut parsed = Vec::new();
        let mut tests = BTreeSet::new();
        for (path, source) in files {
            let tokens = TokenStream::from_str(&source.text);
            let tokens = tokens.map_err(|error| format!("{}: {error}", source.path))?;
            let file = read_tokens(tokens);
            tests.extend(file.tests.iter().map(|test| format!("{}{test}", folder_of(path))));
            parsed.push((*path, file));
        }
        let is_test = |path: &str| {
            let mut module = path.trim_end_matches(".rs").trim_end_matches("/mod");
            loop {
                if tests.contains(module) {
                    return true;
                }
                let Some((parent, _)) = module.rsplit_once('/') else { return false };
                module = parent;
            }
        };
        parsed.retain(|(path, _)| !is_test(path));
        for (path, _) in &parsed {
            if let Some((folder, _)) = path.split_once('/') {
                modules.folders.insert(folder.to_owned());
            }
        }
        let names: BTreeSet<String> = parsed.iter().map(|(path, _)| top(path)).collect();
        let root = parsed.iter().find(|(path, _)| *path == "lib.rs" || *path == "main.rs");
        let exported = root.map(|(_, file)| file.exports(&names)).unwrap_or_default();
        for (path, file) in &parsed {
            let from = top(path);
            if from == "lib" || from == "main" {
                continue;
            }
            for name in file.top_level_names(depth(path)) {
                let to = if names.contains(name) { Some(name) } else { exported.get(name) };
                if let Some(to) = to.filter(|to| **to != from) {
                    modules.arrows.entry(from.clone()).or_default().insert(to.clone());
                }
            }
        }
        Ok(modules)
    }

    /// Modules that reach themselves through others, if one of them is a folder.
    fn in_cycles(&self) -> BTreeSet<&str> {
        let reach: BTreeMap<&str, BTreeSet<&str>> =
            self.arrows.keys().map(|from| (from.as_str(), self.reach(from))).collect();
        let both = |a: &str, b: &str| {
            reach[a].contains(b) && reach.get(b).is_some_and(|of| of.contains(a))
        };
        let with_folder = |module: &&str| {
            reach[*module].iter().any(|other| {
                both(module, other)
                    && (self.folders.contains(*module) || self.folders.contains(*other))
            })
        };
        let cyclic = |module: &&str| reach[*module].contains(*module);
        reach.keys().copied().filter(cyclic).filter(with_folder).collect()
    }

    fn reach(&self, from: &str) -> BTreeSet<&str> {
        let mut reached = BTreeSet::new();
        let mut next = vec![from];
        while let Some(module) = next.pop() {
            for to in self.arrows.get(module).into_iter().flatten() {
                if reached.insert(to.as_str()) {
                    next.push(to);
                }
            }
        }
        reached
    }
}

/// The imports of a file.
#[derive(Default)]
struct File {
    /// Every path that begins with `crate` or `super`, and every path that is imported.
    paths: Vec<Vec<String>>,
    /// Modules that are built for tests only.
    tests: Vec<String>,
}

impl File {
    /// The names directly below the crate's root that it uses.
    fn top_level_names(&self, depth: usize) -> impl Iterator<Item = &String> {
        self.paths.iter().filter_map(move |path| match path.first()?.as_str() {
            "crate" => path.get(1),
            "super" => {
                let up = path.iter().take_while(|part| *part == "super").count();
                if up == depth { path.get(up) } else { None }
            }
            _ => None,
        })
    }

    /// For the crate's root: the re-exported names, with their modules.
    fn exports(&self, modules: &BTreeSet<String>) -> BTreeMap<String, String> {
        let exported = self.paths.iter().filter_map(|path| {
            let module = path.iter().find(|part| *part != "self" && *part != "crate")?;
            let name = path.last()?;
            modules.contains(module).then(|| (name.clone(), module.clone()))
        });
        exported.collect()
    }
}

fn read_tokens(tokens: TokenStream) -> File {
    let mut file = File::default();
    collect(&tokens.into_iter().collect::<Vec<_>>(), &mut file);
    file
}

fn collect(tokens: &[TokenTree], file: &mut File) {
    let mut at = 0;
    while at < tokens.len() {
        if is_test_attribute(tokens, at) {
            let end = item_end(tokens, at);
            let item = &tokens[at..end];
            let name =
                item.windows(2).find(|pair| is(&pair[0], "mod")).map(|pair| pair[1].to_string());
            file.tests.extend(name);
            at = end;
            continue;
        }
        if is(&tokens[at], "use") {
            let end = tokens[at..]
                .iter()
                .position(|token| is(token, ";"))
                .map_or(tokens.len(), |end| at + end);
            expand(&tokens[at + 1..end], &[], &mut file.paths);
            at = end;
        } else if is(&tokens[at], "crate") || is(&tokens[at], "super") {
            let mut path = vec![tokens[at].to_string()];
            while let [first, second, TokenTree::Ident(name), ..] = &tokens[at + 1..]
                && is(first, ":")
                && is(second, ":")
            {
                path.push(name.to_string());
                at += 3;
            }
            file.paths.push(path);
        } else if let TokenTree::Group(group) = &tokens[at] {
            collect(&group.stream().into_iter().collect::<Vec<_>>(), file);
        }
        at += 1;
    }
}

/// `#[cfg(test)]`, or another condition that only tests and fuzzing satisfy.
fn is_test_attribute(tokens: &[TokenTree], at: usize) -> bool {
    let [hash, TokenTree::Group(group), ..] = &tokens[at..] else { return false };
    if !is(hash, "#") || group.delimiter() != Delimiter::Bracket {
        return false;
    }
    let text = group.stream().to_string();
    text.starts_with("cfg") && text.contains("test") && !text.contains("not")
}

/// The end of the item that starts with these attributes.
fn item_end(tokens: &[TokenTree], at: usize) -> usize {
    let ends = |token: &TokenTree| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        token => is(token, ";"),
    };
    tokens[at..].iter().position(ends).map_or(tokens.len(), |end| at + end + 1)
}

/// The paths of an import: `a::{b, c::d}` is `a::b` and `a::c::d`.
fn expand(tokens: &[TokenTree], before: &[String], paths: &mut Vec<Vec<String>>) {
    for branch in tokens.split(|token| is(token, ",")) {
        let mut path = before.to_vec();
        let mut renamed = false;
        for token in branch {
            match token {
                TokenTree::Group(group) => {
                    expand(&group.stream().into_iter().collect::<Vec<_>>(), &path, paths);
                    path.clear();
                }
                // A renamed import.
                token if is(token, "as") => renamed = true,
                TokenTree::Ident(name) if renamed => {
                    path.pop();
                    path.push(name.to_string());
                }
                TokenTree::Ident(name) => path.push(name.to_string()),
                _ => {}
            }
        }
        if !path.is_empty() {
            paths.push(path);
        }
    }
}

fn is(token: &TokenTree, text: &str) -> bool {
    match token {
        TokenTree::Ident(name) => name == text,
        TokenTree::Punct(sign) => text.len() == 1 && text.starts_with(sign.as_char()),
        _ => false,
    }
}

/// The top-level module that a file belongs to.
fn top(path: &str) -> String {
    path.split_once('/').map_or(path, |(folder, _)| folder).trim_end_matches(".rs").to_owned()
}

/// The number of `super` from a file's module to the crate's root.
fn depth(path: &str) -> usize {
    path.split('/').count() - usize::from(path.ends_with("/mod.rs"))
}

/// The folder of the modules that a file declares, from `src`, with a trailing slash.
fn folder_of(path: &str) -> String {
    match path.rsplit_once('/') {
        Some((folder, "mod.rs")) => format!("{folder}/"),
        None if path == "lib.rs" || path == "main.rs" => String::new(),
        _ => format!("{}/", path.trim_end_matches(".rs")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modules(files: &[(&str, &str)]) -> Modules {
        let source = |text: &&str| Source { path: String::new(), text: (*text).to_owned() };
        let sources: Vec<Source> = files.iter().map(|(_, text)| source(text)).collect();
        let files: Vec<(&str, &Source)> =
            files.iter().zip(&sources).map(|((path, _), source)| (*path, source)).collect();
        Modules::read(&files).unwrap()
    }

    #[test]
    fn folders_that_import_each_other_are_found() {
        let files = [
            ("lib.rs", "mod a; mod b; pub use b::Thing;"),
            ("a/mod.rs", "mod inner;"),
            ("a/inner.rs", "fn run() { let x = crate::Thing::new(); }"),
            ("b.rs", "use crate::{a::inner, std::fmt};"),
        ];
        assert_eq!(modules(&files).in_cycles().into_iter().collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn sibling_files_and_tests_may_have_cycles() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c; #[cfg(test)] mod checks;"),
            ("a.rs", "use crate::b::B;"),
            ("b.rs", "use super::a::A; #[cfg(test)] mod tests { use crate::c::C; }"),
            ("c/mod.rs", "use crate::b::B;"),
            ("c/deep.rs", "use super::Sibling;"),
            ("checks.rs", "use crate::c::C;"),
        ];
        assert!(modules(&files).in_cycles().is_empty());
    }
}
