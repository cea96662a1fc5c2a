//! A worker's life: prepare, say so, serve until told to leave.

use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use tutti_sys::process;
use tutti_wire::control::FromPrototype;
use tutti_wire::worker::{Exchange, Worker};

use crate::become_program::{self, Handed};
use crate::prototype::{Inherited, cut, panic_text, send};
use crate::{Host, Served, StartError};

/// Runs worker `number` in its own process; its exit code.
pub(crate) fn run<H: Host>(
    app: &mut H::App,
    number: u32,
    inherited: Inherited,
    control: OwnedFd,
) -> ExitCode {
    if let Some(program) = H::program(app, number) {
        let [segment, start] = &inherited.files;
        let handed = Handed {
            number,
            control: &control,
            segment,
            start,
            spool: inherited.spool.as_ref(),
            lifeline: inherited.lifeline.as_ref(),
            events: inherited.events.iter().collect(),
        };
        let error = become_program::run(&program, &handed);
        return report(&control, number, error);
    }
    let Inherited {
        start,
        segment,
        events,
        spool,
        // Stays open while we live.
        lifeline: _lifeline,
        files: _,
    } = inherited;
    let started = segment
        .into_worker(number, events, spool)
        .and_then(|mut worker| {
            worker.catch_signals(&[libc::SIGTERM, libc::SIGQUIT])?;
            Ok(worker)
        })
        .map_err(|error| StartError::new("taking the place in the segment", error));
    let started = started.and_then(|worker| {
        catch_unwind(AssertUnwindSafe(|| H::worker_started(app, number)))
            .unwrap_or_else(|panic| {
                Err(StartError::new("starting the worker", panic_text(&*panic)))
            })
            .map(|()| worker)
    });
    let mut worker = match started {
        Ok(worker) => worker,
        Err(error) => return report(&control, number, error),
    };
    let mut requests = Requests {
        worker: &mut worker,
        number,
        control: Some(control),
        limit: start.request_limit,
        served: 0,
        is_leaving: false,
    };
    match catch_unwind(AssertUnwindSafe(|| H::run(app, &mut requests))) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => match requests.control.take() {
            Some(control) => report(&control, number, error),
            None => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        },
        // The panic's text is on stderr. A request that is not finished is found by the router when we are dead.
        Err(panic) => match requests.control.take() {
            Some(control) => report(
                &control,
                number,
                StartError::new("starting the worker", panic_text(&*panic)),
            ),
            None => ExitCode::FAILURE,
        },
    }
}

/// Tells why this worker does not start.
fn report(control: &OwnedFd, worker: u32, error: StartError) -> ExitCode {
    let text = error.to_string();
    let failed = FromPrototype::WorkerFailed {
        worker,
        pid: process::id(),
        step: cut(error.step),
        message: cut(error.message),
        hint: error.hint.map(cut),
        member: error.member.map(cut),
    };
    if send(control, &failed).is_err() {
        eprintln!("{text}");
    }
    ExitCode::FAILURE
}

/// What a worker is asked: one request after the other, until it is to leave.
///
/// [`Host::run`] gets it. Most hosts leave that as it is; one whose user code owns the loop calls it from within.
#[derive(Debug)]
pub struct Requests<'a> {
    worker: &'a mut Worker,
    number: u32,
    /// To the router; closed by `ready`.
    control: Option<OwnedFd>,
    limit: u64,
    served: u64,
    is_leaving: bool,
}

impl Requests<'_> {
    /// Announces that the worker takes requests from now on: an error of [`Host::run`] before is one of its start. Only the
    /// first call counts.
    pub fn ready(&mut self) {
        let Some(control) = self.control.take() else {
            return;
        };
        self.worker.ready();
        let ready = FromPrototype::WorkerReady {
            worker: self.number,
            pid: process::id(),
        };
        // Without a router there will be no request either; the prototype ends us then. User code gets no way to speak to
        // the router: the socket is closed here.
        let _ = send(&control, &ready);
    }

    /// Waits for the next request. `None`: leave; `run` should return.
    pub fn next_request(&mut self) -> Option<Exchange> {
        if self.is_leaving {
            return None;
        }
        let next = self.worker.next_request();
        self.is_leaving = next.is_none();
        next
    }

    /// Ends a request: what is not finished is finished now (or given up, answered 502, when nothing was started).
    pub fn done(&mut self, mut exchange: Exchange, then: Served) {
        if !exchange.is_ended() {
            if exchange.is_started() {
                exchange.finish();
            } else {
                exchange.abort();
            }
        }
        self.served += 1;
        if then == Served::Recycle || (self.limit != 0 && self.served >= self.limit) {
            self.leave();
        }
    }

    /// No further request: another worker takes them.
    pub fn leave(&mut self) {
        if !self.is_leaving {
            self.is_leaving = true;
            self.worker.retire();
        }
    }
}
