//! `tutti config check` and `convert`: configurations in files, without a server.
//!
//! The faults are exactly those that a server would report. Exit codes: 0 for a valid configuration, 1 for one with
//! faults, 2 if there is nothing to check (no such file, unknown ending).

use std::path::Path;
use std::process::ExitCode;

use tutti_config::TreeNode;
use tutti_config::table::ApplicationType;
use tutti_config::{Diagnostics, Document, File, Format, ValidationContext};
use tutti_main::{config_files, modules as hosts, stored};
use tutti_protocol::StoreKind;
use tutti_unprivileged::{automatic, context, js_modules};

use super::report::{CommandError, say, write};
use super::{excerpt, style};

/// The exit code for a file that cannot be read.
const UNREADABLE: u8 = 2;

/// Checks a file, the files of a folder together, or (`-`) standard input.
pub(super) fn check(
    path: &Path,
    modules: Option<&Path>,
    state: Option<&Path>,
    looks_at_files: bool,
) -> Result<ExitCode, CommandError> {
    let files = files(path)?;
    let checked = combine(&files).and_then(|document| {
        let mut context = match modules {
            Some(folder) => context(&hosts::found(folder)),
            None => with_what_it_asks_for(&document),
        };
        if let Some(state) = state {
            context = with_what_is_stored(context, state);
        }
        tutti_config::validate(&document, &context).map(|config| (document, config))
    });
    let (document, config) = checked.map_err(|faults| faulty(&faults, &files))?;
    let mut warnings = tutti_config::warnings(&document, &tutti_sys::file::names_in);
    warnings.0.extend(automatic::warnings(&config).0);
    excerpt::print_warnings(&warnings, &sources(&files));
    if looks_at_files {
        let missing = super::paths::missing(&document);
        if !missing.0.is_empty() {
            let text =
                tutti_config::excerpt_of_check(&missing, &sources(&files), style::is_colourful());
            return Err(CommandError::new("files and folders are missing").excerpt(text));
        }
    }
    let name = path.display();
    let what = match files.len() {
        1 => format!("{name} is a valid configuration"),
        count => format!("{name}: {count} files that make a valid configuration"),
    };
    say(&format!("{} {what}", style::good("ok:")));
    let asked = applications(&document).next().is_some();
    if modules.is_none() && asked {
        say(&style::quiet(
            "not checked: whether the language modules are installed (use `--modulesdir`)",
        ));
    }
    if !looks_at_files {
        say(&style::quiet(
            "not checked: whether files and folders exist (use `--files`)",
        ));
    }
    if state.is_none() && names_what_is_stored(&document) {
        say(&style::quiet(
            "not checked: whether the certificates and script modules are stored (use `--statedir`)",
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the reason why a server with all modules would reject a configuration in JSON; `None` if it would accept it.
pub fn refusal(text: &str) -> Option<String> {
    let faults = faults(text);
    (!faults.0.is_empty()).then(|| faults.to_string())
}

/// Returns the faults for which a server with all modules would reject a configuration in JSON.
pub fn faults(text: &str) -> Diagnostics {
    let checked = tutti_config::read(text.as_bytes(), Format::Json)
        .and_then(|document| tutti_config::validate(&document, &with_what_it_asks_for(&document)));
    checked.err().unwrap_or_default()
}

/// Returns the configuration in a file or folder for the nodes of a fleet, as JSON: checked as far as possible here,
/// and without the parts that belong to a node.
pub(super) fn document_for_a_fleet(path: &Path) -> Result<String, CommandError> {
    let files = files(path)?;
    let checked = combine(&files).and_then(|document| {
        tutti_config::validate(&document, &with_what_it_asks_for(&document))?;
        Ok(document)
    });
    let document = checked.map_err(|faults| faulty(&faults, &files))?;
    let settings = document.root().child("settings");
    for own in ["source", "maintenance"] {
        if settings.is_some_and(|settings| settings.child(own).is_some()) {
            return Err(CommandError::new(format!(
                "`settings/{own}` belongs to a single node, not to a fleet"
            ))
            .hint("remove it: each node keeps its own"));
        }
    }
    Ok(document.root().to_json() + "\n")
}

/// Prints a file in another language; references to environment variables are kept.
pub(super) fn convert(path: &Path, to: Target) -> Result<ExitCode, CommandError> {
    let files = files(path)?;
    let [file] = files.as_slice() else {
        return Err(CommandError::new(
            "only one file can be converted at a time",
        ));
    };
    let format = Format::of_file(&file.name).unwrap_or_default();
    let read = tutti_config::read(&file.bytes, format);
    let document = read.map_err(|faults| faulty(&faults, &files))?;
    let text = match to {
        Target::Json => document.root().to_json() + "\n",
        Target::Yaml => document.root().to_yaml(),
        Target::Toml => document.root().to_toml().map_err(|faults| {
            faulty(&faults, &files).hint("JSON and YAML support it: `--to yaml`")
        })?,
    };
    write(text.as_bytes())
}

/// A language to convert to.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Target {
    Json,
    Yaml,
    Toml,
}

fn faulty(faults: &tutti_config::Diagnostics, files: &[File]) -> CommandError {
    let summary = faults.to_json();
    let summary = summary.get("error").and_then(serde_json::Value::as_str);
    let summary = summary.unwrap_or("Invalid configuration.");
    let text = tutti_config::excerpt_of_check(faults, &sources(files), style::is_colourful());
    CommandError::new(summary.trim_end_matches('.')).excerpt(text)
}

fn sources(files: &[File]) -> Vec<(&str, &[u8])> {
    let files = files.iter();
    files
        .map(|file| (file.name.as_str(), file.bytes.as_slice()))
        .collect()
}

fn combine(files: &[File]) -> Result<Document, tutti_config::Diagnostics> {
    tutti_config::combine(files, &|name| std::env::var(name).ok())
}

fn files(path: &Path) -> Result<Vec<File>, CommandError> {
    if path == Path::new("-") {
        let (name, bytes) = super::input::read(path)?;
        return Ok(vec![File { name, bytes }]);
    }
    let is_known = path.is_dir() || Format::of_file(&path.to_string_lossy()).is_some();
    let read = config_files::read(path);
    let files = read.map_err(|error| CommandError::new(error.to_string()).code(UNREADABLE))?;
    if !is_known {
        say(&style::quiet(
            "the file name does not end with .json, .yaml, .yml or .toml: read as JSON",
        ));
    }
    let files = files.into_iter().map(|file| File {
        name: file.name,
        bytes: file.bytes,
    });
    Ok(files.collect())
}

fn applications(document: &Document) -> impl Iterator<Item = &str> {
    let applications = document.root().child("applications");
    let applications = applications.map(TreeNode::members).unwrap_or_default();
    applications
        .iter()
        .filter_map(|member| member.node.child("type")?.as_str())
}

/// With the certificates and script modules of a state folder.
fn with_what_is_stored(context: ValidationContext, state: &Path) -> ValidationContext {
    let load = |store| {
        let (found, errors) = stored::load(state, store);
        for error in errors {
            say(&style::quiet(&error.to_string()));
        }
        found
    };
    let certificates = load(StoreKind::Certificates);
    context
        .with_certificates(certificates.keys().map(String::as_str))
        .with_js_modules(js_modules::read(&load(StoreKind::JsModules)))
}

fn names_what_is_stored(document: &Document) -> bool {
    let settings = document.root().child("settings");
    let listeners = document.root().child("listeners");
    let mut listeners = listeners.map(TreeNode::members).unwrap_or_default().iter();
    settings.is_some_and(|settings| settings.child("js_module").is_some())
        || listeners.any(|member| member.node.child("tls").is_some())
}

/// Returns the context of a machine that has every module in the configuration.
pub(super) fn with_what_it_asks_for(document: &Document) -> ValidationContext {
    let types = applications(document).filter_map(ApplicationType::of);
    ValidationContext::with_modules(
        types.map(|(known, version)| (known.name, version.unwrap_or("1"))),
    )
}
