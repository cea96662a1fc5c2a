//! Programs that speak HTTP and know nothing of us: each worker starts one, waits until it listens, and relays.
//!
//! The worker is an event loop: a request is taken from the queue, written to a kept connection to the program, and what the
//! program answers goes into the response ring. So limits, the queue, deaths, rolling restarts and status are those of any
//! other application. Called by the hosts whose applications are programs: `external`, `node`.
//!
//! Must never happen: a request sent twice that was not safe to repeat; an answer cut short that looks whole; a program
//! that outlives its worker.

mod address;
mod connection;
mod driver;
mod error;
pub mod executable;
mod feed;
mod folder;
pub mod head;
mod http;
pub mod line;
mod liveness;
mod options;
mod owner;
mod preload;
mod program;
mod request;
mod websocket;

use std::rc::Rc;

use connection::Pool;
use driver::{Course, Serving, WorkerSignals};
pub use options::{Listen, RelayOptions};
pub use preload::{InheritedDescriptors, Preload, PreloadFiles};
use request::Relay;
use tutti_sys::process::{Ended, become_subreaper};
use tutti_sys::signal::Signals;
use tutti_worker::{Program, StartError};

/// Signals that make a worker leave.
const STOPS: [i32; 2] = [libc::SIGTERM, libc::SIGQUIT];

/// A relaying application, as its workers start with it.
#[derive(Clone, Debug)]
pub struct Plan {
    program: Program,
    options: RelayOptions,
}

impl Plan {
    /// Each worker will start `program`.
    pub fn new(program: Program, options: RelayOptions) -> Plan {
        Plan { program, options }
    }

    /// The life of a worker process.
    ///
    /// # Errors
    /// The reason why the program does not listen, or why it has ended.
    pub fn run(&self, process: &mut tutti_worker::Process) -> Result<(), StartError> {
        let Some(unstarted) = process.take_worker() else {
            return Ok(());
        };
        let mut worker = unstarted.into_worker();
        let concurrency = process.concurrency();
        worker
            .enter_loop(concurrency)
            .map_err(|error| StartError::new("entering the event loop", error))?;
        let question = liveness::question()
            .map_err(|error| StartError::new("taking the server's signal", error))?;
        // Processes that the program leaves behind fall to this one, and from it to the prototype, which ends them.
        become_subreaper().map_err(|error| StartError::new("taking care of orphans", error))?;
        let orphans = Signals::take(&[libc::SIGCHLD])
            .map_err(|error| StartError::new("taking the signal of ended processes", error))?;
        let launch = program::Launch {
            program: &self.program,
            options: &self.options,
            worker: worker.id(),
            process,
        };
        let (child, address) = program::Child::start(&launch, || worker.must_stop())?;
        let broken = |error| StartError::new("running the event loop", error);
        let mut leave = None;
        if child.line().is_some() {
            let signals = Signals::take(&STOPS).map_err(broken)?;
            process.ready();
            let told = WorkerSignals {
                question: &question,
                leave: &signals,
                orphans: &orphans,
            };
            match driver::accompany(&worker, &child, &told).map_err(broken)? {
                Course::Left => return Ok(()),
                Course::Ended => return outcome(child.how_it_ended(), ""),
                Course::Relay => leave = Some(signals),
            }
        }
        worker.ready();
        process.ready();
        let tells_client = self.options.preload.is_some();
        let pool = Pool::new(address, concurrency as usize, tells_client);
        let relay = Rc::new(Relay::new(pool));
        let serving = Serving {
            question,
            leave,
            orphans,
        };
        let ended = driver::run(worker, child, &relay, serving).map_err(broken)?;
        outcome(ended, &relay.broken_off())
    }
}

/// The worker's outcome, of its program's end and the requests that this broke off.
fn outcome(ended: Option<Ended>, broken_off: &str) -> Result<(), StartError> {
    let Some(how) = ended else {
        return Ok(());
    };
    let message = match broken_off {
        "" => format!("it {how}"),
        titles => format!("it {how} while serving `{titles}`"),
    };
    Err(StartError::new("running the program", message))
}
