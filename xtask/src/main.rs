//! Repository checks: what `ARCHITECTURE.md` promises about the layout, held to by a program.
//!
//! `cargo xtask check` runs all of them and prints every breach with its place. Called by `make lint`, `make test`
//! and CI. `cargo xtask generate` writes the files that are made from the option table and from the C library's code; `check` compares them. A rule that needs an exception gets it here, in a table with its reason, never by silence.

mod arrows;
mod documents;
mod generated;
mod lengths;
mod modules;
mod source;
mod unsafety;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::source::SourceFile;

/// One breach of a rule.
pub(crate) struct Breach {
    place: String,
    message: String,
}

impl Breach {
    pub(crate) fn new(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            message: message.into(),
        }
    }
}

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("check") => match check() {
            Ok(breaches) if breaches.is_empty() => {
                println!("xtask check: ok");
                ExitCode::SUCCESS
            }
            Ok(breaches) => {
                for breach in &breaches {
                    eprintln!("{}: {}", breach.place, breach.message);
                }
                eprintln!("xtask check: {} breaches", breaches.len());
                ExitCode::FAILURE
            }
            Err(error) => {
                eprintln!("xtask check: {error:#}");
                ExitCode::FAILURE
            }
        },
        Some("generate") => match repository().and_then(|root| generated::write(&root)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("xtask generate: {error:#}");
                ExitCode::FAILURE
            }
        },
        _ => {
            eprintln!("usage: cargo xtask check|generate");
            ExitCode::from(2)
        }
    }
}

fn check() -> Result<Vec<Breach>> {
    let root = repository()?;
    let crates = crate_folders(&root)?;
    let mut breaches = arrows::check(&root, &crates)?;
    for folder in &crates {
        let files = source::read_crate(&root, folder)?;
        breaches.extend(files.iter().filter_map(lengths::check));
        breaches.extend(files.iter().flat_map(unsafety::check));
        breaches.extend(modules::check(&name_of(&root, folder), &files));
    }
    breaches.extend(documents::check(&root)?);
    breaches.extend(generated::check(&root)?);
    Ok(breaches)
}

/// The folder that holds this crate's folder.
fn repository() -> Result<PathBuf> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(manifest
        .parent()
        .context("xtask has no parent folder")?
        .to_path_buf())
}

/// `crates/*` and `sdk/*`, sorted.
fn crate_folders(root: &Path) -> Result<Vec<PathBuf>> {
    let mut folders = Vec::new();
    for parent in ["crates", "sdk"] {
        for entry in std::fs::read_dir(root.join(parent))
            .with_context(|| format!("{parent} cannot be listed"))?
        {
            let path = entry?.path();
            if path.join("Cargo.toml").exists() {
                folders.push(path);
            }
        }
    }
    folders.sort();
    Ok(folders)
}

/// `crates/wire` → `wire`, `sdk/php` → `sdk/php`.
pub(crate) fn name_of(root: &Path, folder: &Path) -> String {
    let relative = folder
        .strip_prefix(root)
        .unwrap_or(folder)
        .to_string_lossy()
        .into_owned();
    relative
        .strip_prefix("crates/")
        .map_or(relative.clone(), str::to_owned)
}

/// The line number of a byte offset.
pub(crate) fn line_of(text: &str, offset: usize) -> usize {
    text.get(..offset)
        .unwrap_or(text)
        .bytes()
        .filter(|byte| *byte == b'\n')
        .count()
        + 1
}

/// The place of an offset in a file, as editors understand it.
pub(crate) fn place(file: &SourceFile, offset: usize) -> String {
    format!("{}:{}", file.path, line_of(&file.code, offset))
}
