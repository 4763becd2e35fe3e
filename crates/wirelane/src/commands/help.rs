//! What `--help` shows beside the definitions: examples, and options of every command once.

use clap::{Arg, Command, CommandFactory};

use super::Cli;
use super::examples::EXAMPLES;

/// The program's definition, as it parses and explains itself.
pub(crate) fn command() -> Command {
    let root = Cli::command();
    let global: Vec<Arg> =
        root.get_arguments().filter(|arg| arg.is_global_set()).cloned().collect();
    completed(root, "", &global)
}

/// Of a command and those below it. `path` is what is typed before it.
fn completed(command: Command, path: &str, global: &[Arg]) -> Command {
    let is_root = path.is_empty();
    let path = format!("{path}{} ", command.get_name());
    let names: Vec<String> =
        command.get_subcommands().map(|inner| inner.get_name().to_owned()).collect();
    let command = names.into_iter().fold(command, |command, name| {
        command.mut_subcommand(name, |inner| completed(inner, &path, global))
    });
    let text = epilogue(&command, path.trim_end(), is_root);
    // Options of every command are shown by `wirelane --help`. clap leaves alone what a command has already.
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
        paragraphs.push("Options of every command: `wirelane --help`.".to_owned());
    }
    paragraphs.join("\n\n")
}

/// The command's own; of a group of commands, the first ones of those in it.
fn examples(path: &str) -> Vec<&'static str> {
    let own: Vec<&str> =
        EXAMPLES.iter().filter(|(of, _)| *of == path).map(|(_, line)| *line).collect();
    if !own.is_empty() {
        return own;
    }
    let mut inside: Vec<_> = EXAMPLES.iter().filter(|(of, _)| is_inside(of, path)).collect();
    inside.dedup_by_key(|(of, _)| *of);
    inside.iter().take(OF_A_GROUP).map(|(_, line)| *line).collect()
}

fn is_inside(of: &str, path: &str) -> bool {
    of.strip_prefix(path).is_some_and(|rest| rest.starts_with(' '))
}

const OF_A_GROUP: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    /// Every command that does something, with what is typed for it.
    fn leaves(command: &Command, before: &str, found: &mut Vec<String>) {
        let path = format!("{before}{}", command.get_name());
        let shown = || command.get_subcommands().filter(|inner| !inner.is_hide_set());
        if shown().next().is_none() {
            found.push(path);
            return;
        }
        shown().for_each(|inner| leaves(inner, &format!("{path} "), found));
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

    #[test]
    fn every_example_is_right() {
        for (path, line) in EXAMPLES {
            // What a shell would make of it: one pair of quotes, a pipe, another file as input or output.
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
    fn options_of_every_command_are_shown_once_and_taken_everywhere() {
        let mut root = command();
        assert!(root.render_long_help().to_string().contains("--log-level"));
        root.build();
        let doctor = root.find_subcommand_mut("doctor").expect("a command");
        let help = doctor.render_long_help().to_string();
        assert!(!help.contains("--log-level") && help.contains("`wirelane --help`"), "{help}");
        let typed = ["wirelane", "kv", "get", "key", "--log-level", "debug", "--config", "file"];
        let matches = command().try_get_matches_from(typed).expect("it is taken");
        assert!(matches.contains_id("config"), "and known to all");
    }
}
