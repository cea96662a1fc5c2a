//! Modules of NGINX Unit's SDK (`unit-wasm`): functions that share memory with the server.

mod handlers;
mod imports;
mod instance;
mod load;
mod request;
mod shared;
mod state;

pub(crate) use instance::Maker;
