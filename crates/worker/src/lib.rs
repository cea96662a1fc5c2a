//! Worker-side runtime: the base of every language host.
//!
//! A host implements [`Host`] and calls [`main`] from its `main`. This crate owns the life of prototype and workers: taking
//! over the inherited descriptors, loading once, forking on the router's command, reaping and reporting, the request loop,
//! leaving. The transport itself is `tutti-wire`. What must never happen: a request taken and dropped silently (a worker
//! that cannot answer dies, and the router finds its request), or a worker that outlives main.

mod output;
mod prototype;
mod serve;

use std::process::ExitCode;

pub use tutti_wire::control::{Describe, Start};
pub use tutti_wire::worker::{ClientGone, Exchange};
pub use tutti_wire::{BodyView, HeadError, RequestView};

/// What is to become of the worker after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// It takes the next one.
    Again,
    /// It leaves; another is started in its place if one is needed.
    Recycle,
}

/// Why an application or a worker could not start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{step}: {message}")]
pub struct StartError {
    /// What was being done: `loading php.ini`.
    pub step: String,
    /// What went wrong.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl StartError {
    /// An error without a hint.
    pub fn new(step: impl Into<String>, message: impl std::fmt::Display) -> Self {
        Self {
            step: step.into(),
            message: message.to_string(),
            hint: None,
        }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// A language.
pub trait Host {
    /// The loaded application, as every worker starts with it.
    type App;

    /// What this host runs.
    fn describe() -> Describe;

    /// Loads runtime and application, once, in the prototype: privileges are dropped, environment and working directory
    /// set. Must leave the process with one thread.
    fn load(start: &Start) -> Result<Self::App, StartError>;

    /// Prepares a new worker process, after the fork: connections, threads, random state. Number of the worker.
    fn worker_started(app: &mut Self::App, worker: u32) -> Result<(), StartError> {
        let _ = (app, worker);
        Ok(())
    }

    /// Serves one request. What is not finished on return is finished then (or given up, answered 502, when nothing was
    /// started). A panic ends the worker: its request is answered 502.
    fn serve(app: &mut Self::App, exchange: &mut Exchange) -> Served;
}

/// Runs a host: `--describe` prints what it is; otherwise it is the prototype, started by main with its descriptors.
pub fn main<H: Host>() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == "--describe") {
        println!(
            "{}",
            String::from_utf8_lossy(&tutti_wire::control::encode(&H::describe()))
        );
        return ExitCode::SUCCESS;
    }
    match prototype::run::<H>() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
