//! Python on the worker base: the prototype starts the interpreter, its forks import the application and serve.
//!
//! Between two requests the thread is detached, so that threads that the application has started run.

use std::path::PathBuf;

use pyo3::prelude::*;
use tutti_worker::{
    Common, Describe, Exchange, Host, Process, Requests, Served, Start, StartError,
};

use crate::asgi::{self, Loop, Support};
use crate::interpreter::{self, Away, PROGRAM, VERSION, short_version};
use crate::lifecycle::{self, Interface, Target, failure};
use crate::log;
use crate::options::{Options, Protocol, program};
use crate::position;
use crate::wsgi::{Setting, Wsgi};

/// The language.
#[derive(Debug)]
pub enum PythonHost {}

/// An application in a prototype or worker.
pub struct App {
    options: Options,
    targets: Option<Vec<Target>>,
    event_loop: Option<Loop>,
    /// Loaded before the fork, if it was known then that it is needed.
    support: Option<Support>,
    /// For the thread of a process that has only one, should the application turn out to be WSGI's.
    wsgi: Option<Wsgi>,
}

impl Host for PythonHost {
    type App = App;

    fn describe() -> Describe {
        Describe {
            kind: "python".to_owned(),
            version: VERSION.to_owned(),
        }
    }

    fn dependencies() -> Vec<PathBuf> {
        let folders = env!("TUTTI_PYTHON_FOLDERS").split(':');
        folders.chain([PROGRAM]).map(PathBuf::from).collect()
    }

    fn load(start: &Start, common: &Common) -> Result<App, StartError> {
        let options = Options::parse(&start.config)?;
        let program = program(options.home.as_deref(), PROGRAM, &short_version())?;
        interpreter::start(&program)?;
        Python::attach(|py| {
            lifecycle::search_path(py, &options)?;
            let targets = match common.preload {
                true => Some(lifecycle::import(py, &options)?),
                false => None,
            };
            // Here, and not in each worker: what is done after the fork copies memory that all have in common.
            position::tell_on_signal(py)
                .map_err(|error| failure(py, "installing a signal handler", &error))?;
            let is_asgi = options.protocol == Some(Protocol::Asgi)
                || targets.iter().flatten().any(|target| !is_wsgi(target));
            let (wsgi, support) = match is_asgi {
                true => (None, Some(support(py)?)),
                false if options.threads.threads.get() > 1 => (None, None),
                false => (Some(prepare(py, &setting(&options))?), None),
            };
            freeze(py).map_err(|error| failure(py, "preparing to fork", &error))?;
            Ok(App {
                options,
                targets,
                event_loop: None,
                support,
                wsgi,
            })
        })
    }

    fn before_fork() {
        interpreter::before_fork();
    }

    fn after_fork() {
        interpreter::after_fork_in_parent();
    }

    fn worker_started(app: &mut App, _worker: u32) -> Result<(), StartError> {
        interpreter::after_fork_in_child();
        Python::attach(|py| {
            let options = &app.options;
            // A module that asks for the loop when it is imported gets the one that will run.
            if options.protocol == Some(Protocol::Asgi) {
                app.event_loop = Some(make_loop(py, app.support.take())?);
            }
            if app.targets.is_none() {
                app.targets = Some(lifecycle::import(py, options)?);
            }
            Ok(())
        })
    }

    fn serve(_app: &mut App, _exchange: &mut Exchange) -> Served {
        // `process` serves.
        Served::Recycle
    }

    fn process(app: &mut App, process: &mut Process) -> Result<(), StartError> {
        Python::attach(|py| {
            let targets = app.targets.take().unwrap_or_default();
            if targets.iter().all(is_wsgi) {
                let outcome = serve_wsgi(py, app.wsgi.take(), &app.options, &targets, process);
                interpreter::finish(py);
                return outcome;
            }
            if let Some(target) = targets.iter().find(|target| is_wsgi(target)) {
                let name = String::from_utf8_lossy(&target.name);
                let message =
                    "it is a WSGI application, others of the targets are ASGI applications";
                return Err(StartError::new(format!("starting target `{name}`"), message)
                    .hint("make two applications of them; `protocol` tells what cannot be found out")
                    .member(format!("targets/{name}")));
            }
            let event_loop = match app.event_loop.take() {
                Some(event_loop) => event_loop,
                None => make_loop(py, app.support.take())?,
            };
            let outcome = asgi::run(py, targets, &event_loop, &app.options, process);
            interpreter::finish(py);
            outcome
        })
    }
}

fn is_wsgi(target: &Target) -> bool {
    target.interface == Interface::Wsgi
}

fn support(py: Python<'_>) -> Result<Support, StartError> {
    Support::load(py).map_err(|error| failure(py, "loading asyncio", &error))
}

fn make_loop(py: Python<'_>, loaded: Option<Support>) -> Result<Loop, StartError> {
    let support = match loaded {
        Some(support) => support,
        None => support(py)?,
    };
    Loop::new(py, support).map_err(|error| failure(py, "making an event loop", &error))
}

fn setting(options: &Options) -> Setting {
    Setting {
        multithread: options.threads.threads.get() > 1,
        multiprocess: options.is_multiprocess(),
    }
}

fn serve_wsgi(
    py: Python<'_>,
    prepared: Option<Wsgi>,
    options: &Options,
    targets: &[Target],
    process: &mut Process,
) -> Result<(), StartError> {
    let setting = setting(options);
    if process.threads() == 1 {
        let mut wsgi = match prepared {
            Some(wsgi) => wsgi,
            None => prepare(py, &setting)?,
        };
        return process.serve_alone(|requests| {
            requests.ready();
            serve_requests(py, &mut wsgi, targets, requests);
            Ok(())
        });
    }
    // The main thread only waits for the others.
    let away = Away::detach();
    let outcome = process.serve_threads(options.threads.thread_stack_size, |_, requests| {
        Python::attach(|py| match prepare(py, &setting) {
            Ok(mut wsgi) => serve_requests(py, &mut wsgi, targets, requests),
            Err(error) => log::error(&error.to_string()),
        });
    });
    away.attach();
    outcome
}

fn prepare(py: Python<'_>, setting: &Setting) -> Result<Wsgi, StartError> {
    Wsgi::new(py, setting).map_err(|error| failure(py, "preparing to serve", &error))
}

/// The loop of a thread.
fn serve_requests(
    py: Python<'_>,
    wsgi: &mut Wsgi,
    targets: &[Target],
    requests: &mut Requests<'_>,
) {
    loop {
        let away = Away::detach();
        let next = requests.next_request();
        away.attach();
        let Some(mut exchange) = next else {
            return;
        };
        let then = wsgi.serve(py, targets, &mut exchange);
        requests.done(exchange, then);
    }
}

/// Objects that have been loaded before the fork stay for good: collecting them would only copy its memory in every worker.
fn freeze(py: Python<'_>) -> PyResult<()> {
    let gc = py.import("gc")?;
    for module in ["traceback", "inspect", "functools", "io"] {
        py.import(module)?;
    }
    gc.call_method0("collect")?;
    gc.call_method0("freeze")?;
    Ok(())
}
