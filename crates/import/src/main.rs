//! `tutti-import`: the configuration of another server, as one of Tutti's own. `tutti import` starts it with its own
//! arguments.
//!
//! The configuration goes to standard output or a file, findings to standard error. The importer checks its result as a server would, and
//! leaves out what would be refused. Exit codes: 0 if everything was carried over, 1 if not, 2 for a source that cannot be read. With
//! `--try`: 0 if no answers differ, 1 if some do, 2 if there is nothing to compare.

#![forbid(unsafe_code)]

mod trial;

use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use serde_json::{Value, json};
use tutti_ctl::import::{Findings, ImportArguments, UNREADABLE};
use tutti_ctl::report::{CommandError, write};
use tutti_ctl::{style, usage};
use tutti_import::{Disk, Finding, Importance, Imported};

/// The exit code where something was not carried over.
const NOT_WHOLE: u8 = 1;

/// Writes the configuration of another server as one of Tutti's own, and reports what could not be carried over.
#[derive(Parser)]
#[command(name = "tutti-import", version)]
struct Cli {
    #[command(flatten)]
    arguments: ImportArguments,
}

fn main() -> ExitCode {
    let arguments = match Cli::try_parse() {
        Ok(cli) => cli.arguments,
        Err(error) => return usage::refuse(&error, usage::USAGE_ERROR, &[]),
    };
    run(&arguments).unwrap_or_else(|failure| failure.show())
}

fn run(arguments: &ImportArguments) -> Result<ExitCode, CommandError> {
    let imported =
        tutti_import::import(arguments.kind, &arguments.files, &Disk).map_err(|error| {
            let failure = CommandError::new(error.to_string()).code(UNREADABLE);
            match error.hint {
                Some(hint) => failure.hint(hint),
                None => failure,
            }
        })?;
    let text = format!("{:#}\n", imported.configuration);
    report(&imported, arguments.format);
    let code = ExitCode::from(if imported.is_whole() { 0 } else { NOT_WHOLE });
    if arguments.is_tried {
        if let Some(path) = &arguments.output {
            put(path, &text)?;
        }
        return trial::run(&imported.configuration, &arguments.trial, arguments.format);
    }
    if !arguments.check {
        match &arguments.output {
            Some(path) => put(path, &text)?,
            None => drop(write(text.as_bytes())?),
        }
    }
    Ok(code)
}

/// An existing file is never overwritten: it may be the configuration of a running server. Only its owner may read the new one, which can
/// contain hashes of passwords.
fn put(path: &Path, text: &str) -> Result<(), CommandError> {
    let created = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    let name = path.display();
    let failed = |error: io::Error| CommandError::new(format!("cannot write `{name}`: {error}"));
    let mut file = created.map_err(|error| {
        let failure = failed(error);
        if path.exists() {
            failure.hint("choose another name, or remove the file")
        } else {
            failure
        }
    })?;
    file.write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        .map_err(failed)
}

fn report(imported: &Imported, format: Findings) {
    let mut text = String::new();
    if format == Findings::Json {
        let findings = imported
            .findings
            .iter()
            .map(as_json)
            .collect::<Vec<Value>>();
        text = format!("{:#}\n", json!({"findings": findings}));
    } else {
        for importance in [Importance::Lost, Importance::Note] {
            let of_it = imported
                .findings
                .iter()
                .filter(|finding| finding.importance == importance);
            for finding in of_it {
                text.push_str(&as_text(finding));
            }
        }
        let lost = imported
            .findings
            .iter()
            .filter(|finding| finding.importance == Importance::Lost)
            .count();
        if lost > 0 || io::stderr().is_terminal() {
            let notes = imported.findings.len() - lost;
            text.push_str(&style::quiet(&format!(
                "{lost} not carried over, {notes} notes"
            )));
            text.push('\n');
        }
    }
    // There is no reader when stderr is closed.
    let _ = io::stderr().write_all(text.as_bytes());
}

fn as_text(finding: &Finding) -> String {
    let Finding {
        file,
        line,
        directive,
        problem,
        hint,
        ..
    } = finding;
    let place = style::strong(&format!("{file}:{line}:"));
    let kind = match finding.importance {
        Importance::Lost => style::bad("not carried over:"),
        Importance::Note => style::quiet("note:"),
    };
    let directive = directive.replace(char::is_control, " ");
    let problem = problem.replace(char::is_control, " ");
    format!(
        "{place} {kind} `{directive}`: {problem}\n  {} {hint}\n",
        style::place("hint:")
    )
}

fn as_json(finding: &Finding) -> Value {
    json!({
        "file": finding.file,
        "line": finding.line,
        "importance": match finding.importance { Importance::Lost => "lost", Importance::Note => "note" },
        "directive": finding.directive,
        "problem": finding.problem,
        "hint": finding.hint,
    })
}
