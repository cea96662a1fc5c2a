//! Python on the worker base: the prototype starts the interpreter, its forks import the application and serve.
//!
//! Between two requests the thread is detached, so that threads that the application has started run.

use pyo3::prelude::*;
use tutti_worker::{Describe, Exchange, Host, Requests, Served, Start, StartError};

use crate::interpreter::{self, Away, PROGRAM, VERSION, short_version};
use crate::lifecycle::{self, Interface, Target, failure};
use crate::options::{Options, program};
use crate::wsgi::{Setting, Wsgi};

/// The language.
#[derive(Debug)]
pub enum PythonHost {}

/// An application in a prototype or worker.
pub struct App {
    options: Options,
    targets: Option<Vec<Target>>,
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

    fn load(start: &Start) -> Result<App, StartError> {
        let options = Options::parse(&start.config)?;
        let program = program(options.home.as_deref(), PROGRAM, &short_version())?;
        interpreter::start(&program)?;
        Python::attach(|py| {
            lifecycle::search_path(py, &options)?;
            let targets = match start.preload {
                true => Some(lifecycle::import(py, &options)?),
                false => None,
            };
            freeze(py).map_err(|error| failure(py, "preparing to fork", &error))?;
            Ok(App {
                options,
                targets,
                wsgi: None,
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
            let targets = match app.targets.take() {
                Some(targets) => targets,
                None => lifecycle::import(py, &app.options)?,
            };
            if let Some(target) = targets
                .iter()
                .find(|target| target.interface != Interface::Wsgi)
            {
                let module = String::from_utf8_lossy(&target.name);
                return Err(StartError::new(
                    format!("starting target `{module}`"),
                    "ASGI is not there yet",
                ));
            }
            let setting = Setting {
                multithread: app.options.threads > 1,
                multiprocess: app.options.is_multiprocess(),
            };
            let wsgi = Wsgi::new(py, &setting)
                .map_err(|error| failure(py, "preparing to serve", &error))?;
            app.wsgi = Some(wsgi);
            app.targets = Some(targets);
            Ok(())
        })?;
        Ok(())
    }

    fn serve(app: &mut App, exchange: &mut Exchange) -> Served {
        Python::attach(|py| match (&mut app.wsgi, &app.targets) {
            (Some(wsgi), Some(targets)) => wsgi.serve(py, targets, exchange),
            // A worker that has started has both.
            _ => Served::Recycle,
        })
    }

    fn run(app: &mut App, requests: &mut Requests<'_>) -> Result<(), StartError> {
        requests.ready();
        loop {
            let away = Away::detach();
            let next = requests.next_request();
            away.attach();
            let Some(mut exchange) = next else {
                return Ok(());
            };
            let then = Self::serve(app, &mut exchange);
            requests.done(exchange, then);
        }
    }
}

/// What has been loaded before the fork stays for good: collecting it would only copy its memory in every worker.
fn freeze(py: Python<'_>) -> PyResult<()> {
    let gc = py.import("gc")?;
    for module in ["traceback", "inspect", "functools", "io"] {
        py.import(module)?;
    }
    gc.call_method0("collect")?;
    gc.call_method0("freeze")?;
    Ok(())
}
