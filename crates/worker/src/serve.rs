//! A worker's life: prepare, say so, serve until told to leave.

use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use tutti_sys::process;
use tutti_wire::control::FromPrototype;
use tutti_wire::worker::Worker;

use crate::prototype::{Inherited, cut, panic_text, send};
use crate::{Host, Served, StartError};

/// Runs worker `number` in its own process; its exit code.
pub(crate) fn run<H: Host>(
    app: &mut H::App,
    number: u32,
    inherited: Inherited,
    control: OwnedFd,
) -> ExitCode {
    let Inherited {
        start,
        segment,
        events,
        spool,
        // Stays open while we live.
        lifeline: _lifeline,
    } = inherited;
    let pid = process::id();
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
        Err(error) => {
            let text = error.to_string();
            let failed = FromPrototype::WorkerFailed {
                worker: number,
                pid,
                step: cut(error.step),
                message: cut(error.message),
                hint: error.hint.map(cut),
                member: error.member.map(cut),
            };
            if send(&control, &failed).is_err() {
                eprintln!("{text}");
            }
            return ExitCode::FAILURE;
        }
    };
    worker.ready();
    let ready = FromPrototype::WorkerReady {
        worker: number,
        pid,
    };
    // Without a router there will be no request either; the prototype ends us then.
    let _ = send(&control, &ready);
    // User code gets no way to speak to the router.
    drop(control);
    serve::<H>(app, &mut worker, start.request_limit)
}

fn serve<H: Host>(app: &mut H::App, worker: &mut Worker, limit: u64) -> ExitCode {
    let mut served = 0u64;
    while let Some(mut exchange) = worker.next_request() {
        let result = catch_unwind(AssertUnwindSafe(|| H::serve(app, &mut exchange)));
        let Ok(then) = result else {
            // The panic's text is on stderr. Unfinished, the request is found by the router when we are dead.
            return ExitCode::FAILURE;
        };
        if !exchange.is_ended() {
            if exchange.is_started() {
                exchange.finish();
            } else {
                exchange.abort();
            }
        }
        served += 1;
        if then == Served::Recycle || (limit != 0 && served >= limit) {
            worker.retire();
            break;
        }
    }
    ExitCode::SUCCESS
}
