//! Language host for applications that are programs of their own: Go, and whatever else is linked with an SDK, or speaks HTTP.
//!
//! The prototype checks once that there is such a program. A worker is that program (`tutti_worker::Program`), if it speaks
//! the wire itself; or starts it and relays (`tutti-relay`), if it speaks HTTP, as Node.js does. Called by main, like every language
//! host. What must never happen: a program cannot run, and no message says why.

mod program;

use std::process::ExitCode;

use tutti_options::Options as _;
use tutti_options::application::ApplicationSupport as _;
use tutti_options::external::External as Configured;
use tutti_relay::{Plan, RelayOptions};
use tutti_worker::{Common, Describe, Exchange, Host, Process, Program, Served, Start, StartError};

/// Applications of type `external`.
#[derive(Debug)]
enum External {}

/// The kind of a worker.
#[derive(Debug)]
enum App {
    /// The program itself.
    Wire(Program),
    /// A relay stands between the router and the program.
    Relay(Plan),
}

impl Host for External {
    type App = App;

    fn describe() -> Describe {
        Describe {
            kind: "external".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    fn load(start: &Start, common: &Common) -> Result<App, StartError> {
        let configured = Configured::from_json(&start.config)?;
        let program = program::find(&configured)?;
        // Nothing for Node.js speaks the wire: it is a program for Unit, whose `unit-http` is ours.
        let preload = match configured.is_relayed() {
            true => None,
            false if tutti_node::runs_node(&program) => {
                Some(tutti_node::preload("executable", "executable"))
            }
            false => return Ok(App::Wire(program)),
        };
        let options = RelayOptions {
            listen: configured.listen,
            probe: configured.probe,
            start_limit: common.limits.start_timeout,
            preload,
        };
        Ok(App::Relay(Plan::new(program, options)))
    }

    fn program(app: &App, _number: u32) -> Option<Program> {
        match app {
            App::Wire(program) => Some(program.clone()),
            App::Relay(_) => None,
        }
    }

    fn starts_programs(app: &App) -> bool {
        matches!(app, App::Relay(_))
    }

    fn ends_orphans(app: &App) -> bool {
        matches!(app, App::Relay(_))
    }

    fn hands_over() -> bool {
        true
    }

    fn process(app: &mut App, process: &mut Process) -> Result<(), StartError> {
        match app {
            App::Relay(plan) => plan.run(process),
            // Its worker is the program.
            App::Wire(_) => Ok(()),
        }
    }

    /// Never called: a worker is the program, or has a loop of its own.
    fn serve(_app: &mut App, exchange: &mut Exchange) -> Served {
        exchange.abort();
        Served::Recycle
    }
}

fn main() -> ExitCode {
    tutti_worker::main::<External>()
}
