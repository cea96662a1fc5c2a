//! Worker-side runtime: the base of every language host.
//!
//! A host implements [`Host`] and calls [`main`] from its `main`. This crate runs prototype and workers: it takes the inherited
//! descriptors, loads once, forks on the router's command, reaps and reports, runs the request loop, and ends. The transport itself is
//! `tutti-wire`. What must never happen: a request taken and dropped silently (a worker that cannot answer dies, and the router finds its
//! request), or a worker that outlives main.
//!
//! # When a request exceeds its time
//!
//! A worker whose request has exceeded its time (`limits.timeout`, or `limits.drain_timeout` of one that is being replaced) is sent
//! [`WHERE_SIGNAL`]. Its client has been answered 504 by then, and [`Exchange::is_client_gone`] is true. A second later it is killed, if it
//! is still serving the request. The signal asks one thing: *write where you are*. The convention for every host:
//!
//! - The handler is installed in [`Host::worker_started`], with `SA_RESTART`. Where the language does not resume system calls that the
//!   kernel does not (`nanosleep`, `poll`; signal(7)), a separate thread receives the signal (`sdk/seam/include/tutti_question.h`). A host
//!   may do without: the signal is `SIGURG`, which the kernel ignores by default, and which Go's runtime expects at any time.
//! - It writes to standard error, with a single `write` where it can, first `process PID is at FILE:LINE in FUNCTION`, then up to ten
//!   callers, innermost first, each on a line that begins with two spaces: `  called at FILE:LINE in FUNCTION`. A language with its own
//!   form of a traceback may write that after the first line.
//! - It ends neither the request nor the process, and changes nothing that the application sees: a slow request may still finish, roll back
//!   and clean up.
//! - A language that handles signals between two instructions never gets there from within C (a database driver that waits). The signal
//!   handler itself writes what it can read safely.
//! - With several requests in one process (threads, an event loop), every thread or task is reported.

mod become_program;
mod dependencies;
mod error;
mod host;
pub mod log;
mod module;
mod output;
pub mod page;
mod process;
mod program;
mod prototype;
mod reports;
mod runner;
mod serve;
mod target;
mod watch;

use std::process::ExitCode;

pub use become_program::Program;
pub use error::StartError;
pub use host::Host;
pub use module::module;
pub use process::{Handover, Process, Requests, Served, Thread, UnstartedThread};
pub use reports::warn_of_option;
pub use target::target;
pub use tutti_options::application::Common;
pub use tutti_options::logging::Level;
pub use tutti_sys::fork::Fork;
use tutti_wire::command::{LOOK, RUN};
pub use tutti_wire::control::{Describe, Start, WHERE_SIGNAL};
pub use tutti_wire::response::is_valid as is_valid_field;
pub use tutti_wire::worker::{
    ClientGone, Detached, Exchange, Incoming, Message, UnstartedWorker, Worker, end_if_forked,
    is_forked,
};
pub use tutti_wire::{BodyRef, MessageOpcode, ResponseHeadError, WireRequestView};

/// Runs a host: with `--describe` it prints its description, with an argument of [`tutti_wire::command`] it runs a command of the
/// application; otherwise it is the prototype, started by main with its descriptors.
pub fn main<H: Host>() -> ExitCode {
    let first = std::env::args_os().nth(1);
    let is = |word: &str| first.as_ref().is_some_and(|first| first == word);
    if is(RUN) || is(LOOK) {
        return runner::run(is(LOOK));
    }
    if is("--describe") {
        module::is_at(module::from_variable());
        let described = dependencies::Described {
            host: H::describe(),
            also: H::also(),
            dependencies: dependencies::all(H::dependencies()),
            libraries: dependencies::needed_to_start(),
        };
        println!(
            "{}",
            String::from_utf8_lossy(&tutti_wire::control::encode(&described))
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
