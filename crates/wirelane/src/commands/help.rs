//! Additions to `--help`: examples, and global options in the main help only.

use std::ffi::OsString;

use clap::{Arg, Command, CommandFactory};

use super::Cli;
use super::examples::EXAMPLES;

/// The definition of the program with the help of all commands.
pub fn command() -> Command {
    complete(|_| true)
}

/// The same for a command line: only the commands that it names have their complete help, since completing all takes longer
/// than parsing.
pub(crate) fn command_for(arguments: &[OsString]) -> Command {
    complete(|name| arguments.iter().any(|argument| argument == name))
}

fn complete(is_needed: impl Fn(&str) -> bool) -> Command {
    let root = Cli::command();
    let global: Vec<Arg> =
        root.get_arguments().filter(|arg| arg.is_global_set()).cloned().collect();
    completed(root, "", &global, &is_needed)
}

/// Completes the help of a command and its subcommands. `path` is the command line before it.
fn completed(
    command: Command,
    path: &str,
    global: &[Arg],
    is_needed: &dyn Fn(&str) -> bool,
) -> Command {
    let is_root = path.is_empty();
    let path = format!("{path}{} ", command.get_name());
    let needed = |inner: &&Command| inner.get_name_and_visible_aliases().into_iter().any(is_needed);
    let names: Vec<String> =
        command.get_subcommands().filter(needed).map(|inner| inner.get_name().to_owned()).collect();
    let command = names.into_iter().fold(command, |command, name| {
        command.mut_subcommand(name, |inner| completed(inner, &path, global, is_needed))
    });
    let text = epilogue(&command, path.trim_end(), is_root);
    // Global options are shown by `wirelane --help`. clap does not replace an argument that a command already has.
    let hidden = global.iter().filter(|_| !is_root).map(|arg| arg.clone().hide(true));
    command.args(hidden).after_help(text)
}

fn epilogue(command: &Command, path: &str, is_root: bool) -> String {
    let mut paragraphs = Vec::new();
    let examples = examples(path);
    match examples[..] {
        [] => {}
        [one] => paragraphs.push(format!("Example:\n  {one}")),
        _ => paragraphs.push(format!("Examples:\n  {}", examples.join("\n  "))),
    }
    paragraphs.extend(command.get_after_help().map(ToString::to_string));
    if !is_root {
        paragraphs.push("Global options: see `wirelane --help`.".to_owned());
    }
    paragraphs.join("\n\n")
}

/// The examples of the command; of a group of commands, the first of each subcommand.
fn examples(path: &str) -> Vec<&'static str> {
    let own: Vec<&str> =
        EXAMPLES.iter().filter(|(of, _)| *of == path).map(|(_, line)| *line).collect();
    if !own.is_empty() {
        return own;
    }
    let mut inside: Vec<_> = EXAMPLES.iter().filter(|(of, _)| is_inside(of, path)).collect();
    inside.dedup_by_key(|(of, _)| *of);
    inside.iter().take(MAX_GROUP_EXAMPLES).map(|(_, line)| *line).collect()
}

fn is_inside(of: &str, path: &str) -> bool {
    of.strip_prefix(path).is_some_and(|rest| rest.starts_with(' '))
}

const MAX_GROUP_EXAMPLES: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    /// The paths of all commands without subcommands.
    fn leaves(command: &Command, before: &str, found: &mut Vec<String>) {
        let path = format!("{before}{}", command.get_name());
        let visible = || command.get_subcommands().filter(|inner| !inner.is_hide_set());
        if visible().next().is_none() {
            found.push(path);
            return;
        }
        visible().for_each(|inner| leaves(inner, &format!("{path} "), found));
    }

    #[test]
    fn every_command_has_an_example() {
        let mut paths = Vec::new();
        leaves(&command(), "", &mut paths);
        assert!(paths.len() > 60, "{paths:?}");
        let has = |path: &String| EXAMPLES.iter().any(|(of, _)| of == path);
        let without: Vec<&String> = paths.iter().filter(|path| !has(path)).collect();
        assert!(without.is_empty(), "without an example: {without:?}");
    }

    /// What a command line needs is complete, and nothing else.
    #[test]
    fn the_help_of_a_named_command_is_the_same_as_in_the_whole() {
        let line = |words: &[&str]| words.iter().map(|word| word.into()).collect::<Vec<OsString>>();
        for words in [vec!["wirelane", "kv", "put", "--help"], vec!["wirelane", "topo", "--help"]] {
            let help = |command: Command| {
                command.try_get_matches_from(&words).expect_err("help").to_string()
            };
            assert_eq!(help(command_for(&line(&words))), help(command()));
        }
        let partial = command_for(&line(&["wirelane", "kv"]));
        let of = |name: &str| partial.find_subcommand(name).expect("exists").get_after_help();
        assert!(of("kv").is_some() && of("topo").is_none());
    }

    #[test]
    fn every_example_parses() {
        for (path, line) in EXAMPLES {
            // Without shell syntax: one pair of quotes, pipes, redirections.
            let typed = line.split([';', '|', '<', '>']).next().unwrap_or_default();
            let typed =
                typed.strip_prefix("eval \"$(").map_or(typed, |rest| rest.trim_end_matches(")\""));
            let words = words(typed);
            let of: Vec<&str> = path.split(' ').collect();
            let named = of.iter().all(|word| words.iter().any(|typed| typed == word));
            assert!(named, "{line}: of {path}");
            if let Err(error) = command().try_get_matches_from(words) {
                panic!("{line}: {error}");
            }
        }
    }

    fn words(line: &str) -> Vec<String> {
        let parts = line.split('\'').enumerate();
        parts
            .flat_map(|(at, part)| match at % 2 {
                0 => part.split_whitespace().map(str::to_owned).collect(),
                _ => vec![part.to_owned()],
            })
            .collect()
    }

    #[test]
    fn global_options_are_listed_once_and_accepted_everywhere() {
        let mut root = command();
        assert!(root.render_long_help().to_string().contains("--log-level"));
        root.build();
        let doctor = root.find_subcommand_mut("doctor").expect("a command");
        let help = doctor.render_long_help().to_string();
        assert!(!help.contains("--log-level") && help.contains("`wirelane --help`"), "{help}");
        let typed = ["wirelane", "kv", "get", "key", "--log-level", "debug", "--config", "file"];
        let matches = command().try_get_matches_from(typed).expect("accepted");
        assert!(matches.contains_id("config"));
    }
}
