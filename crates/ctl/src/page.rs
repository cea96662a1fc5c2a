//! The page about the command line, `docs/reference/command-line.md`, generated from the tables of `clap`.
//!
//! The test here compares it; with `BLESS=1` it writes it.

use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory};
use tutti_main::flags::Flags;

use crate::Cli;

const HEAD: &str = "# Command line

Made from the table that the program itself parses its arguments with; do not edit.

`tutti` is both the server and the program that controls it. `--help` of each command prints the same text; `tutti man | man -l -` shows the manual page. Packages contain the shell completion of commands and flags. For a build from source:

```console
# tutti completions bash > /usr/share/bash-completion/completions/tutti
# tutti completions zsh > /usr/local/share/zsh/site-functions/_tutti
# tutti completions fish > /usr/share/fish/vendor_completions.d/tutti.fish
```

Exit status: 0 for success, 1 for failure, 2 for wrong arguments or missing prerequisites. Output for programs goes to standard output, messages for people to standard error.

## The server

`tuttid` takes these flags; so do `unitd`, and `tutti` if its first argument is one of them.
";

fn markdown() -> String {
    let mut page = String::from(HEAD);
    let server = Flags::command();
    table(&server, &mut page);
    if let Some(after) = server.get_after_help() {
        let text = after.to_string();
        let signals = text.split_once("Signals:").map_or("", |(_, rest)| rest);
        let words: Vec<&str> = signals.split_whitespace().collect();
        let _ = write!(page, "\nSignals: {}\n", words.join(" "));
    }
    page.push_str("\n## Commands\n");
    let mut root = Cli::command();
    root.build();
    for command in commands(&root) {
        section(command, &mut page);
    }
    page
}

fn commands(of: &Command) -> impl Iterator<Item = &Command> {
    of.get_subcommands()
        .filter(|command| command.get_name() != "help" && !command.is_hide_set())
}

fn section(command: &Command, page: &mut String) {
    let name = command
        .get_bin_name()
        .unwrap_or_else(|| command.get_name())
        .to_owned();
    let _ = write!(page, "\n### {name}\n\n{}.\n", about(command));
    if commands(command).next().is_some() {
        for inner in commands(command) {
            section(inner, page);
        }
        return;
    }
    let mut command = command.clone();
    let usage = command.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let _ = write!(page, "\n```console\n$ {usage}\n```\n");
    table(&command, page);
}

fn about(command: &Command) -> String {
    let about = command.get_long_about().or(command.get_about());
    let text = about.map(ToString::to_string).unwrap_or_default();
    text.trim_end_matches('.').to_owned()
}

fn table(command: &Command, page: &mut String) {
    let shown: Vec<&Arg> = command
        .get_arguments()
        .filter(|argument| !argument.is_hide_set() && argument.get_id() != "help")
        .collect();
    if shown.is_empty() {
        return;
    }
    page.push_str("\n| | |\n|---|---|\n");
    for argument in shown {
        let help = argument.get_long_help().or(argument.get_help());
        let mut text = help.map(ToString::to_string).unwrap_or_default();
        text = text
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
            .replace('|', "\\|");
        let defaults = argument.get_default_values().iter();
        let defaults: Vec<String> = defaults
            .map(|value| format!("`{}`", value.to_string_lossy()))
            .collect();
        if !defaults.is_empty() && argument.get_action().takes_values() {
            let _ = write!(text, "; default {}", defaults.join(", "));
        }
        if let Some(variable) = argument.get_env() {
            let _ = write!(
                text,
                "; in the environment `{}`",
                variable.to_string_lossy()
            );
        }
        let _ = writeln!(page, "| `{}` | {text} |", written(argument));
    }
}

/// `-n, --lines <NUMBER>`, `<NAME>`.
fn written(argument: &Arg) -> String {
    let values: String = match argument.get_value_names() {
        Some(names) if argument.get_action().takes_values() => {
            names.iter().map(|name| format!("<{name}>")).collect()
        }
        _ => String::new(),
    };
    let short = argument.get_short().map(|short| format!("-{short}"));
    let long = argument.get_long().map(|long| format!("--{long}"));
    let flags: Vec<String> = short.into_iter().chain(long).collect();
    match (flags.is_empty(), values.is_empty()) {
        (true, _) => values,
        (false, true) => flags.join(", "),
        (false, false) => format!("{} {values}", flags.join(", ")),
    }
}

#[test]
#[allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]
fn the_page_about_the_command_line_is_what_is_parsed() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs/reference/command-line.md");
    let page = markdown();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/reference/command-line.md is old: run `BLESS=1 cargo test -p tutti-ctl --lib page`"
    );
}
