//! docs/commands.md, generated from the definitions of the commands: a test compares it, and writes it with `WIRELANE_GOLDEN=write`.

use std::fmt::Write;
use std::path::Path;

use clap::{Arg, Command};

use super::examples::EXAMPLES;
use super::help;

#[test]
fn the_published_reference_is_the_current_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/commands.md");
    let current = page();
    if std::env::var_os("WIRELANE_GOLDEN").is_some_and(|golden| golden == "write") {
        std::fs::write(&path, &current).unwrap();
    }
    let published = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        published == current,
        "write it again: WIRELANE_GOLDEN=write cargo nextest run -p wirelane --lib reference"
    );
}

fn page() -> String {
    let mut root = help::command();
    root.build();
    let mut page = String::from(HEAD);
    let visible = |command: &&Command| !command.is_hide_set() && command.get_name() != "help";
    for command in root.get_subcommands().filter(visible) {
        let (name, about) = (command.get_name(), text(command.get_about()));
        let _ = writeln!(page, "| [`{name}`](#wirelane-{name}) | {about} |");
    }
    page.push_str("\n## Global options\n\n");
    let global: Vec<&str> = global_names(&root);
    options(root.get_arguments(), |name| global.contains(&name), &mut page);
    for command in root.get_subcommands().filter(visible) {
        section(command, "wirelane", &global, &mut page);
    }
    page
}

/// The names of the options that every subcommand has too.
fn global_names(command: &Command) -> Vec<&str> {
    let global = command.get_arguments().filter(|argument| argument.is_global_set());
    global.map(|argument| argument.get_id().as_str()).collect()
}

/// `above` has the names of options that are listed further up.
fn section(command: &Command, before: &str, above: &[&str], page: &mut String) {
    let name = format!("{before} {}", command.get_name());
    let level = if before == "wirelane" { "##" } else { "###" };
    let _ = writeln!(page, "\n{level} {name}\n\n{}.\n", text(command.get_about()));
    let inner: Vec<&Command> = command
        .get_subcommands()
        .filter(|inner| !inner.is_hide_set() && inner.get_name() != "help")
        .collect();
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim().replace("\n       ", "\n");
    let _ = writeln!(page, "```\n{usage}\n```\n");
    options(command.get_arguments(), |name| !above.contains(&name), page);
    examples(&name, page);
    let above = [above, &global_names(command)].concat();
    inner.into_iter().for_each(|inner| section(inner, &name, &above, page));
}

fn examples(name: &str, page: &mut String) {
    let lines: Vec<&str> =
        EXAMPLES.iter().filter(|(of, _)| *of == name).map(|(_, line)| *line).collect();
    if !lines.is_empty() {
        let _ = writeln!(page, "\n```sh\n{}\n```", lines.join("\n"));
    }
}

fn options<'a>(
    arguments: impl Iterator<Item = &'a Arg>,
    belongs: impl Fn(&str) -> bool,
    page: &mut String,
) {
    let wanted = |argument: &&Arg| {
        let name = argument.get_id().as_str();
        belongs(name) && !argument.is_hide_set() && !["help", "version"].contains(&name)
    };
    let rows: Vec<&Arg> = arguments.filter(wanted).collect();
    if rows.is_empty() {
        return;
    }
    page.push_str("| option | meaning |\n|---|---|\n");
    for argument in rows {
        let mut meaning = text(argument.get_help());
        let defaults = argument.get_default_values().iter().map(|value| value.to_string_lossy());
        let defaults = defaults.collect::<Vec<_>>().join(", ");
        let has_default =
            !argument.is_hide_default_value_set() && argument.get_action().takes_values();
        if !defaults.is_empty() && has_default {
            let _ = write!(meaning, " (default: {defaults})");
        }
        let name = argument.to_string().replace('|', "\\|");
        let _ = writeln!(page, "| `{name}` | {} |", meaning.replace('|', "\\|"));
    }
}

/// On one line, as a table cell must be.
fn text(styled: Option<&clap::builder::StyledStr>) -> String {
    let text = styled.map(ToString::to_string).unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

const HEAD: &str = "\
# Commands

Generated from the program's own definitions; `wirelane COMMAND --help` prints the same. Results go to stdout, everything
else to stderr. Exit codes: 0 success, 1 negative result, 2 usage error, 3 failure; an answer that cannot be written is a failure.

Text for people is wrapped to the width of the terminal, or to `COLUMNS`, and never in files and pipes. What is copied or read by programs stays
as it is: files, manifests, scripts and diffs, `kv get`, `kv mget`, `kv ls`, and messages on stderr. Control characters in names from outside
are removed, and escaped in JSON.

| command | what it does |
|---|---|
";
