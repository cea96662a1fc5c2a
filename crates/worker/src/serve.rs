//! A worker's life: prepare, report, serve until asked to end.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Arc;

use tutti_options::application::Common;
use tutti_wire::control::Start;
use tutti_wire::worker::{Attached, Descriptors, end_if_forked};

use crate::become_program::Handed;
use crate::error::StartError;
use crate::host::Host;
use crate::process::{Process, WorkerDescriptors};
use crate::reports::{panic_text, report};

/// The part of the prototype's start that a worker needs.
pub(crate) struct Inherited {
    pub(crate) start: Start,
    pub(crate) common: Common,
    pub(crate) segment: Attached,
    pub(crate) descriptors: Arc<Descriptors>,
    /// Never read; kept open so that the hang-up reaches this process.
    pub(crate) lifeline: Option<OwnedFd>,
    /// For programs that read these themselves: the segment's file and the start document.
    pub(crate) files: [OwnedFd; 2],
}

impl Inherited {
    /// The place of the worker `number`, for a program that takes it.
    pub(crate) fn handed<'a>(&'a self, number: u32, control: &'a OwnedFd) -> Handed<'a> {
        let [segment, start] = &self.files;
        let descriptors = &self.descriptors;
        Handed {
            number,
            control,
            segment,
            start,
            spool: descriptors.spool.as_ref(),
            lifeline: self.lifeline.as_ref(),
            events: descriptors
                .threads
                .iter()
                .chain(&descriptors.workers)
                .collect(),
        }
    }
}

/// Runs the workers `numbers` in their own process; returns its exit code.
pub(crate) fn run<H: Host>(
    app: &mut H::App,
    numbers: Range<u32>,
    inherited: Inherited,
    control: OwnedFd,
) -> ExitCode {
    let number = numbers.start;
    let Inherited {
        start,
        common: _,
        segment,
        descriptors,
        lifeline,
        files: [segment_file, start_file],
    } = inherited;
    // Reporting a failure needs the socket, too.
    let taken = control.try_clone().and_then(|control| {
        Process::take(numbers, &segment, &descriptors, &start, control, lifeline)
    });
    let started = taken
        .map_err(|error| StartError::new("taking the place in the segment", error))
        .and_then(|process| {
            catch_unwind(AssertUnwindSafe(|| H::worker_started(app, number)))
                .unwrap_or_else(|panic| {
                    Err(StartError::new("starting the worker", panic_text(&*panic)))
                })
                .map(|()| process)
        });
    // A child of the application's that has come to the end of the code which forked it.
    end_if_forked(i32::from(started.is_err()));
    let mut process = match started {
        Ok(process) => process,
        Err(error) => return report(&control, number, error),
    };
    drop(control);
    // Closed if it is not needed, so that user code in this process does not get it.
    process.place = H::hands_over().then_some(WorkerDescriptors {
        segment: segment_file,
        start: start_file,
        descriptors,
    });
    let served = catch_unwind(AssertUnwindSafe(|| H::process(app, &mut process)));
    end_if_forked(i32::from(!matches!(served, Ok(Ok(())))));
    match served {
        Ok(Ok(())) if !process.has_failed => ExitCode::SUCCESS,
        Ok(Ok(())) => ExitCode::FAILURE,
        Ok(Err(error)) => match process.control.take() {
            Some(control) => report(&control, number, error),
            None => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        },
        // The panic's text is on stderr. The router finds an unfinished request after the end of this process.
        Err(panic) => match process.control.take() {
            Some(control) => report(
                &control,
                number,
                StartError::new("starting the worker", panic_text(&*panic)),
            ),
            None => ExitCode::FAILURE,
        },
    }
}
