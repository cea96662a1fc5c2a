//! Language host for WebAssembly components: wasmtime, `wasi:http/proxy` 0.2, on the wire between.
//!
//! Called by main, like every language host. The prototype compiles the component once, its forks share the code and serve with an event
//! loop; each request has an instance of its own unless the configuration says otherwise. What must never happen: a component
//! that reaches what its configuration does not name, or a request that one instance keeps from being served by another.

mod clock;
mod component;
mod driver;
mod engine;
mod fault;
mod host;
mod instance;
mod limiter;
mod log;
mod outgoing;
mod request;
mod response;
mod settings;
mod state;

use std::process::ExitCode;

fn main() -> ExitCode {
    tutti_worker::main::<host::Wasm>()
}
