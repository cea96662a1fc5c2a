//! A language: the trait that a host implements.

use std::io;
use std::path::PathBuf;

use tutti_options::application::Common;
use tutti_sys::fork::Fork;
use tutti_wire::control::{Describe, Start};
use tutti_wire::worker::Exchange;

use crate::become_program::Program;
use crate::error::StartError;
use crate::process::{Process, Requests, Served};

/// A language.
pub trait Host {
    /// The loaded application, with which every worker starts.
    type App;

    /// Describes the language that this host runs.
    fn describe() -> Describe;

    /// Further types of applications that it runs, of the same version.
    fn also() -> Vec<String> {
        Vec::new()
    }

    /// Files and folders that the runtime reads while it runs, in addition to the libraries it is linked with: they are bound into another
    /// root (`isolation.rootfs`). Missing ones are skipped.
    fn dependencies() -> Vec<PathBuf> {
        Vec::new()
    }

    /// Loads runtime and application, once, in the prototype: privileges are dropped, environment and working directory set. Must leave the
    /// process with one thread. `common` are the options that every type of application has, from `start`.
    fn load(start: &Start, common: &Common) -> Result<Self::App, StartError>;

    /// Called in the prototype right before each fork: takes the locks that no other thread may hold across it.
    fn before_fork() {}

    /// Called in the prototype after each fork, even a failed one: releases them. In the new process
    /// [`worker_started`](Self::worker_started) does so.
    fn after_fork() {}

    /// Forks the prototype. A language whose runtime must be involved, or has threads of its own beside the application's, overrides it.
    fn fork() -> io::Result<Fork> {
        tutti_sys::fork::fork()
    }

    /// Prepares a new worker process after the fork: connections, random state. `worker` is its first number.
    fn worker_started(app: &mut Self::App, worker: u32) -> Result<(), StartError> {
        let _ = (app, worker);
        Ok(())
    }

    /// For languages whose applications are programs of their own: returns the program that worker `number` becomes, instead of a fork that
    /// serves here. The program inherits the descriptors and speaks the wire protocol itself (`spec/wire.md`, 9).
    fn program(app: &Self::App, number: u32) -> Option<Program> {
        let _ = (app, number);
        None
    }

    /// True if each worker starts a program that serves, and only supervises it or relays to it.
    fn starts_programs(app: &Self::App) -> bool {
        let _ = app;
        false
    }

    /// True if the host may hand a process's place over to a program that it starts ([`Process::hand_over`]).
    fn hands_over() -> bool {
        false
    }

    /// True if everything that a worker's program has started ends with that worker, even if it is killed. Each worker must be the
    /// subreaper of its program's orphans: those that fall to the prototype belong to workers that have ended.
    fn ends_orphans(app: &Self::App) -> bool {
        let _ = app;
        false
    }

    /// Serves one request. A response that is unfinished on return is finished then (or aborted and answered 502, if it was not started). A
    /// panic ends the worker: its request is answered 502.
    fn serve(app: &mut Self::App, exchange: &mut Exchange) -> Served;

    /// The life of a worker process, after its preparation until its end. A host with several threads or an event loop overrides it; an
    /// error before [`Process::ready`] says why the process does not start. By default, the process has one thread, and [`run`](Self::run)
    /// is its loop.
    fn process(app: &mut Self::App, process: &mut Process) -> Result<(), StartError> {
        process.serve_alone(|requests| Self::run(app, requests))
    }

    /// The loop of a worker. A host overrides it when user code calls for the next request, not the other way round. An error before
    /// [`Requests::ready`] says why the worker does not start.
    fn run(app: &mut Self::App, requests: &mut Requests<'_>) -> Result<(), StartError> {
        requests.ready();
        while let Some(mut exchange) = requests.next_request() {
            let then = Self::serve(app, &mut exchange);
            requests.done(exchange, then);
        }
        Ok(())
    }
}
