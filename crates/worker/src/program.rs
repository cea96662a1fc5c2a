//! The counterpart of [`become_program`](crate::become_program): a program finds its place in the server that runs it.
//!
//! Called by programs that are applications of type `external`, through the C ABI and the Rust adapter. What must never happen: a program
//! believes that it is run by the server when it is not.

use std::env;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use tutti_sys::{memfd, spawn};
use tutti_wire::Versions;
use tutti_wire::control::{
    FD_CONTROL, FD_EVENTS, FD_LIFELINE, FD_SEGMENT, FD_SPOOL, FD_START, Start, decode,
};
use tutti_wire::worker::{Attached, Descriptors};

use crate::error::StartError;
use crate::process::Process;

/// The variables that contain the program's place.
const VARIABLES: [&str; 3] = ["TUTTI_WIRE", "TUTTI_WORKER", "TUTTI_DESCRIPTORS"];

const REMEDY: &str = "build the program with the SDK that came with the server";

impl Process {
    /// The place of a program that Tutti runs as an application of type `external`. `None` when another program started it: then it may
    /// listen on a port of its own, for example.
    ///
    /// Call it once, before other threads are started and other files opened: it takes descriptors by number.
    ///
    /// # Errors
    /// The Tutti that started it works with other versions of the wire protocol, or the descriptors are missing.
    pub fn from_environment() -> Result<Option<Process>, StartError> {
        let Some(server) = env::var_os(VARIABLES[0]) else {
            return Ok(None);
        };
        let step = "finding the place in the server";
        let server = server.to_string_lossy();
        if !Versions::parse(&server).is_some_and(|server| server.meet(Versions::OWN)) {
            return Err(StartError::new(step, Versions::refusal(server)).hint(REMEDY));
        }
        let number: u32 = env::var(VARIABLES[1])
            .ok()
            .and_then(|number| number.parse().ok())
            .ok_or_else(|| StartError::new(step, "TUTTI_WORKER is not a number"))?;
        // An earlier runtime in this process may use the numbers of descriptors that we did not get.
        let named = env::var(VARIABLES[2]).unwrap_or_default();
        let process = Self::inherit(number, &named).map_err(|error| {
            let is_other = error.kind() == io::ErrorKind::InvalidData;
            let error = StartError::new(step, error);
            if is_other { error.hint(REMEDY) } else { error }
        })?;
        // Processes that the program starts must not take its place.
        for name in VARIABLES {
            // A program with threads keeps the variable; its children recognise their state by the descriptors, which they lack.
            let _ = tutti_sys::fork::unset_variable(name);
        }
        Ok(Some(process))
    }

    /// `named`: the existing descriptors, `NAME=NUMBER` separated by commas.
    fn inherit(number: u32, named: &str) -> io::Result<Process> {
        let is_there = |name: &str| {
            let mut all = named.split(',').filter_map(|part| part.split_once('='));
            all.any(|(other, _)| other == name)
        };
        let if_there =
            |name: &str, number: i32| is_there(name).then(|| spawn::inherited(number)).transpose();
        let events = |first: i32, count: u32| {
            (0..count)
                .map(|index| spawn::inherited(first + index as i32))
                .collect::<io::Result<Vec<_>>>()
        };
        let segment = Attached::open(spawn::inherited(FD_SEGMENT)?.as_fd())?;
        // Only now: the segment says whether both sides understand it alike.
        let document = spawn::inherited(FD_START).and_then(memfd::contents)?;
        let start: Start = decode(&document)?;
        let layout = segment.layout();
        let workers = if start.worker_events {
            events(FD_EVENTS + layout.threads as i32, layout.workers)?
        } else {
            Vec::new()
        };
        let descriptors = Descriptors {
            threads: events(FD_EVENTS, layout.threads)?,
            workers,
            spool: if_there("spool", FD_SPOOL)?,
        };
        // Tied to our group by the prototype.
        let lifeline = if_there("lifeline", FD_LIFELINE)?;
        Process::take(
            number..number + start.worker_threads.get(),
            &segment,
            &Arc::new(descriptors),
            &start,
            spawn::inherited(FD_CONTROL)?,
            lifeline,
        )
    }
}
