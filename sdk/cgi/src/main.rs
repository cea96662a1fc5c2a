//! Language host for CGI scripts (RFC 3875): a worker starts the script of each request, and passes on what it answers.
//!
//! Called by main, like every language host. The prototype checks the configured folders; a worker has an event loop, so that the request's
//! body, the answer and the end of client or script are watched at once. What must never happen: a script that outlives its request, or one
//! that is sent as a file.

mod answer;
mod application;
mod process;
mod scripts;
mod serve;
mod variables;

use std::io;
use std::process::ExitCode;
use std::rc::Rc;

use tutti_event_loop::{self as event_loop, Runtime, behind_the_others, reap_orphans};
use tutti_options::Options as _;
use tutti_options::cgi::CgiScripts;
use tutti_sys::process::become_subreaper;
use tutti_sys::signal::Signals;
use tutti_worker::{Common, Describe, Exchange, Host, Process, Served, Start, StartError, Worker};

use crate::application::Application;
use crate::serve::serve;

/// The language.
#[derive(Debug)]
enum CgiHost {}

impl Host for CgiHost {
    type App = Rc<Application>;

    fn describe() -> Describe {
        Describe {
            kind: "cgi".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    fn load(start: &Start, common: &Common) -> Result<Rc<Application>, StartError> {
        let configured = CgiScripts::from_json(&start.config)?;
        Application::new(&configured, common).map(Rc::new)
    }

    fn ends_orphans(_app: &Rc<Application>) -> bool {
        true
    }

    fn process(app: &mut Rc<Application>, process: &mut Process) -> Result<(), StartError> {
        let Some(unstarted) = process.take_worker() else {
            return Ok(());
        };
        let mut worker = unstarted.into_worker();
        worker
            .enter_loop(process.concurrency())
            .map_err(|error| StartError::new("entering the event loop", error))?;
        // Processes that scripts leave behind fall to this one, and from it to the prototype, which ends them.
        become_subreaper().map_err(|error| StartError::new("taking care of orphans", error))?;
        let orphans = Signals::take(&[libc::SIGCHLD])
            .map_err(|error| StartError::new("taking the signal of ended processes", error))?;
        run(Rc::clone(app), worker, process, orphans)
            .map_err(|error| StartError::new("running the event loop", error))
    }

    /// Never called: a worker has a loop of its own.
    fn serve(_app: &mut Rc<Application>, exchange: &mut Exchange) -> Served {
        exchange.abort();
        Served::Recycle
    }
}

/// Serves until the worker has to leave and has finished its requests.
fn run(
    application: Rc<Application>,
    worker: Worker,
    process: &mut Process,
    orphans: Signals,
) -> io::Result<()> {
    let runtime = Runtime::new(&worker)?;
    worker.ready();
    process.ready();
    runtime.serve(worker, async {
        let running = application.running.clone();
        tokio::task::spawn_local(
            async move { reap_orphans(&orphans, |pid| running.has(pid)).await },
        );
        // A task like the others: the runtime would look at the system's events each time before it called this one.
        let all_taken = tokio::task::spawn_local(take_all(application));
        all_taken.await.map_err(io::Error::other)
    })
}

/// Takes requests until there are no more, and gives each to a task.
async fn take_all(application: Rc<Application>) {
    while let Some(exchange) = event_loop::next_request().await {
        let application = Rc::clone(&application);
        tokio::task::spawn_local(async move {
            serve(&application, exchange).await;
            // It may be what a leaving worker waits for, or a full one.
            event_loop::wake_taker();
        });
        behind_the_others().await;
    }
}

fn main() -> ExitCode {
    tutti_worker::main::<CgiHost>()
}
