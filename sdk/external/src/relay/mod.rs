//! Programs that speak HTTP and know nothing of us: each worker starts one, waits until it listens, and relays.
//!
//! The worker is an event loop: a request is taken from the queue, written to a kept connection to the program, and what the
//! program answers goes into the response ring. So limits, the queue, deaths, rolling restarts and status are those of any
//! other application. Called by the host's `main`.
//!
//! What must never happen: a request sent twice that was not safe to repeat; an answer cut short that looks whole; a program
//! that outlives its worker.

mod connection;
mod driver;
mod exchange;
mod feed;
mod head;
mod options;
mod owner;
mod program;
mod websocket;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tutti_worker::{Program, Start, StartError};

pub(crate) use options::Options;

use connection::Pool;
use driver::{Carriers, Driver};

/// Exchanges that a worker holds at once when `limits.concurrency` says nothing.
const DEFAULT_CONCURRENCY: u32 = 128;

/// Requests told of when the program ends: beyond that, a line of the log is no help.
const MOST_TOLD: usize = 16;

/// A connection that ended this long before the program was heard to end was closed by its end. Both come with the same turn of the loop,
/// or the next one.
const JUST_NOW: Duration = Duration::from_secs(1);

/// What a relay's exchanges share.
#[derive(Debug)]
struct Relay {
    pool: Pool,
    carriers: Carriers,
    broken_off: RefCell<BrokenOff>,
}

/// The last requests whose connection to the program ended, and when.
#[derive(Debug, Default)]
struct BrokenOff(VecDeque<(Instant, String)>);

impl BrokenOff {
    fn note(&mut self, title: String) {
        if self.0.len() >= MOST_TOLD {
            self.0.pop_front();
        }
        self.0.push_back((Instant::now(), title));
    }

    /// Those that the program's end, now, broke off.
    fn by_the_end(&self) -> String {
        let titles: Vec<&str> = self
            .0
            .iter()
            .filter(|(when, _)| when.elapsed() < JUST_NOW)
            .map(|(_, title)| title.as_str())
            .collect();
        titles.join("`, `")
    }
}

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
        let Some(seat) = process.take_seat() else {
            return Ok(());
        };
        let mut worker = seat.into_worker();
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
        let relay = Rc::new(Relay {
            pool: Pool::new(address, concurrency as usize),
            carriers: Carriers::default(),
            broken_off: RefCell::default(),
        });
        let ended = Driver::run(worker, child, &relay, process.request_limit())
            .map_err(|error| StartError::new("running the event loop", error))?;
        match ended {
            Some(how) => {
                let broken_off = relay.broken_off.borrow().by_the_end();
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
