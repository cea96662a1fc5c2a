//! Language host for applications that are programs of their own: Go, and whatever else is linked with an SDK.
//!
//! The prototype checks once that there is such a program; each worker becomes it (`tutti_worker::Program`) and then speaks
//! the wire itself. Called by main, like every language host. What must never happen: a program that cannot run and
//! nobody told why.

mod program;

use std::process::ExitCode;

use tutti_worker::{Describe, Exchange, Host, Program, Served, Start, StartError};

/// Applications of type `external`.
#[derive(Debug)]
enum External {}

impl Host for External {
    type App = Program;

    fn describe() -> Describe {
        Describe {
            kind: "external".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    fn load(start: &Start) -> Result<Program, StartError> {
        program::find(start)
    }

    fn program(app: &Program, _number: u32) -> Option<Program> {
        Some(app.clone())
    }

    /// Never called: a worker is the program.
    fn serve(_app: &mut Program, exchange: &mut Exchange) -> Served {
        exchange.abort();
        Served::Recycle
    }
}

fn main() -> ExitCode {
    tutti_worker::main::<External>()
}
