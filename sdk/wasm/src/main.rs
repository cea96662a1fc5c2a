//! Language host for WebAssembly, on wasmtime: components (`wasi:http/proxy` 0.2), and modules of NGINX Unit's SDK.
//!
//! Called by main, like every language host. The prototype compiles the file once, its forks share the code and serve with an event
//! loop; each request has an instance of its own unless the configuration says otherwise. What must never happen: an instance
//! that reaches what its configuration does not name, or a request that one instance keeps from being served by another.

mod body;
mod clock;
mod code;
mod component;
mod driver;
mod engine;
mod fault;
mod guest;
mod host;
mod instance;
mod limiter;
mod log;
mod module;
mod response;
mod settings;
mod wasi;

use std::process::ExitCode;

fn main() -> ExitCode {
    tutti_worker::main::<host::WebAssembly>()
}
