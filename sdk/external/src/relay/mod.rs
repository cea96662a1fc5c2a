//! Programs that speak HTTP and know nothing of us: each worker starts one, waits until it listens, and relays.
//!
//! The worker is an event loop: a request is taken from the queue, written to a kept connection to the program, and what the
//! program answers goes into the response ring. So limits, the queue, deaths, rolling restarts and status are those of any
//! other application. Called by the host's `main`.
//!
//! Must never happen: a request sent twice that was not safe to repeat; an answer cut short that looks whole; a program
//! that outlives its worker.

mod connection;
mod driver;
mod error;
mod event_loop;
mod feed;
mod head;
mod http;
mod options;
mod owner;
mod program;
mod request;
mod websocket;

use std::rc::Rc;

use tutti_worker::{Program, Start, StartError};

pub(crate) use options::Options;

use connection::Pool;
use request::Relay;

/// Exchanges that a worker holds at once when `limits.concurrency` says nothing.
const DEFAULT_CONCURRENCY: u32 = 128;

/// A relaying application, as its workers start with it.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    program: Program,
    options: Options,
}

impl Plan {
    /// `None` for an application that speaks the wire itself.
    pub(crate) fn of(start: &Start, program: &Program) -> Result<Option<Plan>, StartError> {
        let plan = Options::of(start)?.map(|options| Plan {
            program: program.clone(),
            options,
        });
        Ok(plan)
    }

    /// The life of a worker process.
    pub(crate) fn run(&self, process: &mut tutti_worker::Process) -> Result<(), StartError> {
        let Some(unstarted) = process.take_worker() else {
            return Ok(());
        };
        let mut worker = unstarted.into_worker();
        let concurrency = match process.concurrency() {
            0 => DEFAULT_CONCURRENCY,
            given => given,
        };
        worker
            .enter_loop(concurrency)
            .map_err(|error| StartError::new("entering the event loop", error))?;
        let (child, address) =
            program::Child::start(&self.program, &self.options, || worker.must_stop())?;
        worker.ready();
        process.ready();
        let relay = Rc::new(Relay::new(Pool::new(address, concurrency as usize)));
        let ended = driver::run(worker, child, &relay, process.request_limit())
            .map_err(|error| StartError::new("running the event loop", error))?;
        match ended {
            Some(how) => {
                let broken_off = relay.broken_off();
                let message = match broken_off.as_str() {
                    "" => format!("it {how}"),
                    titles => format!("it {how} while serving `{titles}`"),
                };
                Err(StartError::new("running the program", message))
            }
            None => Ok(()),
        }
    }
}
