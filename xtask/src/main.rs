//! Repository checks: what `ARCHITECTURE.md` promises about the layout, held to by a program.
//!
//! `cargo xtask check` runs all of them and prints every breach with its place. Called by `make lint`, `make test`
//! and CI. `cargo xtask generate` writes the files that are made from the option table and from the C library's code; `check` compares them.
//! `cargo xtask notices FILE` writes the licences of what we ship of others, `cargo xtask bill-of-materials FILE` a list of it, `cargo xtask book FOLDER` the source of the documents' site.
//! A rule that needs an exception gets it in [`tolerated`], in a table with its reason, never by silence.

mod advisories;
mod arrows;
mod book;
mod bounds;
mod breach;
mod c_files;
mod circles;
mod documents;
mod features;
mod generated;
mod interfaces;
mod lengths;
mod names;
mod notices;
mod passages;
mod sentences;
mod source;
mod targets;
mod tolerated;
mod type_names;
mod unsafety;
mod words;
mod workspace;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;

use crate::breach::Breach;
use crate::type_names::TypeNames;

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
        Some("generate") => match workspace::root().and_then(|root| generated::write(&root)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("xtask generate: {error:#}");
                ExitCode::FAILURE
            }
        },
        Some("notices") => made("notices", notices::write),
        Some("bill-of-materials") => made("bill-of-materials", notices::write_bill),
        Some("book") => made("book", |root, path| {
            let url = std::env::var("SOURCE_URL")
                .ok()
                .filter(|url| !url.is_empty());
            book::write(root, path, url.as_deref())
        }),
        _ => {
            eprintln!(
                "usage: cargo xtask check|generate|notices FILE|bill-of-materials FILE|book FOLDER"
            );
            ExitCode::from(2)
        }
    }
}

/// Makes something at the path that the command names.
fn made(command: &str, make: impl FnOnce(&Path, &Path) -> Result<()>) -> ExitCode {
    let Some(path) = std::env::args().nth(2) else {
        eprintln!("usage: cargo xtask {command} PATH");
        return ExitCode::from(2);
    };
    match workspace::root().and_then(|root| make(&root, path.as_ref())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask {command}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn check() -> Result<Vec<Breach>> {
    let root = workspace::root()?;
    let crates = workspace::crates(&root)?;
    let mut breaches = arrows::check(&crates);
    breaches.extend(advisories::check(&root)?);
    let mut circles = Vec::new();
    let mut type_names = TypeNames::default();
    for member in &crates {
        let files = source::read(&root, member)?;
        breaches.extend(files.iter().filter_map(lengths::check_file));
        breaches.extend(files.iter().flat_map(unsafety::check));
        type_names.add(member, &files);
        circles.extend(circles::find(&member.name, &files, &member.roots));
        circles.extend(circles::find_in_c(
            &member.name,
            &c_files::read(&root, member)?,
        ));
    }
    breaches.extend(circles::compare(&circles, tolerated::CIRCLES));
    breaches.extend(type_names.check(tolerated::TYPE_NAMES));
    breaches.extend(interfaces::check(&root, &crates)?);
    breaches.extend(words::check(&root)?);
    breaches.extend(documents::check(&root)?);
    breaches.extend(bounds::check(&root)?);
    breaches.extend(sentences::check(&root)?);
    breaches.extend(features::check(&root)?);
    breaches.extend(targets::check(&root)?);
    breaches.extend(generated::check(&root)?);
    Ok(breaches)
}
