//! Language host for Node.js: each worker starts `node` with the script, and relays requests to the server that it makes.
//!
//! Called by main, like every language host. The relay is `tutti-relay`; what is Node.js's about it is in the library beside.

use std::path::PathBuf;
use std::process::ExitCode;

use tutti_relay::Plan;
use tutti_worker::{Common, Describe, Exchange, Host, Process, Served, Start, StartError};

/// Applications of type `node`.
#[derive(Debug)]
enum Node {}

impl Host for Node {
    type App = Plan;

    fn describe() -> Describe {
        Describe {
            kind: "node".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    fn dependencies() -> Vec<PathBuf> {
        tutti_node::dependencies()
    }

    fn load(start: &Start, common: &Common) -> Result<Plan, StartError> {
        tutti_node::plan(start, common)
    }

    fn ends_orphans(_app: &Plan) -> bool {
        true
    }

    fn hands_over() -> bool {
        true
    }

    fn process(plan: &mut Plan, process: &mut Process) -> Result<(), StartError> {
        plan.run(process)
    }

    /// Never called: a worker has a loop of its own.
    fn serve(_plan: &mut Plan, exchange: &mut Exchange) -> Served {
        exchange.abort();
        Served::Recycle
    }
}

fn main() -> ExitCode {
    tutti_worker::main::<Node>()
}
