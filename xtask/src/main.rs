//! Repository checks: what `ARCHITECTURE.md` promises about the layout, held to by a program.
//!
//! `cargo xtask check` runs all of them and prints every breach with its place. Called by `make lint`, `make test`
//! and CI. `cargo xtask generate` writes the files that are made from the option table and from the C library's code; `check` compares them.
//! `cargo xtask notices FILE` writes the licences of what we ship of others.
//! A rule that needs an exception gets it in [`tolerated`], in a table with its reason, never by silence.

mod arrows;
mod breach;
mod circles;
mod comments;
mod documents;
mod generated;
mod lengths;
mod names;
mod notices;
mod source;
mod tolerated;
mod unsafety;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;

use crate::breach::Breach;

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
        Some("notices") => match (workspace::root(), std::env::args().nth(2)) {
            (Ok(root), Some(path)) => match notices::write(&root, path.as_ref()) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    eprintln!("xtask notices: {error:#}");
                    ExitCode::FAILURE
                }
            },
            _ => {
                eprintln!("usage: cargo xtask notices FILE");
                ExitCode::from(2)
            }
        },
        _ => {
            eprintln!("usage: cargo xtask check|generate|notices FILE");
            ExitCode::from(2)
        }
    }
}

fn check() -> Result<Vec<Breach>> {
    let root = workspace::root()?;
    let crates = workspace::crates(&root)?;
    let mut breaches = arrows::check(&crates);
    let mut circles = Vec::new();
    let mut lengths = Vec::new();
    for member in &crates {
        let files = source::read(&root, member)?;
        breaches.extend(files.iter().filter_map(lengths::check_file));
        breaches.extend(files.iter().flat_map(unsafety::check));
        lengths.push((member.name.clone(), lengths::of_crate(&files)));
        circles.extend(circles::find(&member.name, &files, &member.roots));
    }
    breaches.extend(lengths::check_crates(&lengths, tolerated::LARGE_CRATES));
    breaches.extend(circles::compare(&circles, tolerated::CIRCLES));
    breaches.extend(comments::check(&root)?);
    breaches.extend(documents::check(&root)?);
    breaches.extend(generated::check(&root)?);
    Ok(breaches)
}
