//! Worker-side runtime: the base of every language host.
//!
//! A host implements [`Host`] and calls [`main`] from its `main`. This crate owns the life of prototype and workers: taking
//! over the inherited descriptors, loading once, forking on the router's command, reaping and reporting, the request loop,
//! leaving. The transport itself is `tutti-wire`. What must never happen: a request taken and dropped silently (a worker
//! that cannot answer dies, and the router finds its request), or a worker that outlives main.
//!
//! # When a request does not come back
//!
//! A worker whose request has run out of time (`limits.timeout`, or `limits.drain_timeout` of one that is being replaced) is
//! sent [`WHERE_SIGNAL`]. Its client has been answered 504 by then, and [`Exchange::is_client_gone`] is true. A second later
//! it is killed, if it is still at it. The signal asks one thing: *say where you are*. Convention for every host:
//!
//! - The handler is installed in [`Host::worker_started`], with `SA_RESTART`. A host without one loses nothing: the
//!   signal is `SIGURG`, which the kernel ignores by default, and which Go's runtime expects at any time.
//! - It writes to standard error, with a single `write` where it can, first `process PID is at FILE:LINE in FUNCTION`, then up
//!   to ten callers, innermost first, a line each that begins with two spaces: `  called at FILE:LINE in FUNCTION`. A
//!   language that has its own form of a traceback may write that after the first line.
//! - It neither ends the request nor the process, and changes nothing the application sees: what is merely slow may still
//!   finish, roll back and say goodbye.
//! - A language that handles signals between two instructions never gets there from within C (a database driver that
//!   waits). What is safe to read in a signal handler is written from the signal handler itself.
//! - Several requests in one process (threads, an event loop): every thread, or every task, is told of.

mod become_program;
mod dependencies;
pub mod log;
mod output;
mod program;
mod prototype;
mod serve;
mod watch;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::OnceLock;

pub use serve::{Process, Requests};
use tutti_options::Unreadable;
pub use tutti_wire::control::{Describe, Start, WHERE_SIGNAL};
pub use tutti_wire::worker::{ClientGone, Exchange, Incoming, Message, Seat, Worker};
pub use tutti_wire::{BodyView, HeadError, Opcode, RequestView};

/// The worker's next step after a request.
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
    /// The step that failed: `loading php.ini`.
    pub step: String,
    /// The problem.
    pub message: String,
    /// The cure.
    pub hint: Option<String>,
    /// The option of the application that is to blame, as a JSON pointer inside it without the first `/`.
    pub member: Option<String>,
}

impl StartError {
    /// An error without a hint.
    pub fn new(step: impl Into<String>, message: impl std::fmt::Display) -> Self {
        Self {
            step: step.into(),
            message: message.to_string(),
            hint: None,
            member: None,
        }
    }

    /// Names the option that is to blame: `root`, `targets/admin/script`. The error then points there.
    #[must_use]
    pub fn member(mut self, member: impl Into<String>) -> Self {
        self.member = Some(member.into());
        self
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<Unreadable> for StartError {
    fn from(unreadable: Unreadable) -> Self {
        Self::new("reading the configuration", &unreadable)
            .member(unreadable.member)
            .hint("server and language host must be of one version")
    }
}

/// A program that speaks the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Where it is; PATH is not searched.
    pub path: PathBuf,
    /// Its arguments, without its own name.
    pub arguments: Vec<OsString>,
}

/// A language.
pub trait Host {
    /// The loaded application, as every worker starts with it.
    type App;

    /// The language that this host runs.
    fn describe() -> Describe;

    /// Files and folders that the runtime reads while it runs, besides the libraries it is linked with: they are bound into
    /// another root (`isolation.rootfs`). Those that do not exist are passed over.
    fn dependencies() -> Vec<std::path::PathBuf> {
        Vec::new()
    }

    /// Loads runtime and application, once, in the prototype: privileges are dropped, environment and working directory
    /// set. Must leave the process with one thread.
    fn load(start: &Start) -> Result<Self::App, StartError>;

    /// Called in the prototype right before each fork: takes the locks that must not be held by another across it.
    fn before_fork() {}

    /// Called in the prototype after each fork, also one that failed: gives them back. In the new process
    /// [`worker_started`](Self::worker_started) does so.
    fn after_fork() {}

    /// Prepares a new worker process, after the fork: connections, random state. Number of the worker, the first if the
    /// process has several.
    fn worker_started(app: &mut Self::App, worker: u32) -> Result<(), StartError> {
        let _ = (app, worker);
        Ok(())
    }

    /// For languages whose applications are programs of their own: what worker `number` becomes once it has started, in
    /// place of serving here. The program inherits the descriptors and speaks the wire itself (`spec/wire.md`, 9).
    fn program(app: &Self::App, number: u32) -> Option<Program> {
        let _ = (app, number);
        None
    }

    /// Serves one request. What is not finished on return is finished then (or given up, answered 502, when nothing was
    /// started). A panic ends the worker: its request is answered 502.
    fn serve(app: &mut Self::App, exchange: &mut Exchange) -> Served;

    /// The life of a worker process, from when it is prepared until it ends. A host with several threads or an event loop
    /// overrides it; an error before [`Process::ready`] says why the process does not start. As it is, the process has
    /// one thread, and [`run`](Self::run) is its loop.
    fn process(app: &mut Self::App, process: &mut Process) -> Result<(), StartError> {
        process.serve_alone(|requests| Self::run(app, requests))
    }

    /// The loop of a worker. A host overrides it when user code calls for the next request, not the other way round. An
    /// error before [`Requests::ready`] says why the worker does not start.
    fn run(app: &mut Self::App, requests: &mut Requests<'_>) -> Result<(), StartError> {
        requests.ready();
        while let Some(mut exchange) = requests.next_request() {
            let then = Self::serve(app, &mut exchange);
            requests.done(exchange, then);
        }
        Ok(())
    }
}

/// Where the host's program is installed.
pub fn module() -> PathBuf {
    match MODULE.get() {
        Some(Some(path)) => path.clone(),
        _ => std::fs::read_link("/proc/self/exe").unwrap_or_default(),
    }
}

/// As main has told it.
static MODULE: OnceLock<Option<PathBuf>> = OnceLock::new();

/// Runs a host: `--describe` prints what it is; otherwise it is the prototype, started by main with its descriptors.
pub fn main<H: Host>() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == "--describe") {
        let described = dependencies::Described {
            host: H::describe(),
            dependencies: dependencies::all(H::dependencies()),
            libraries: dependencies::libraries(),
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
