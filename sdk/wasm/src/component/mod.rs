//! Components of the world `wasi:http/proxy`, WASI 0.2.

mod instance;
mod load;
mod outgoing;
mod request;
mod state;

pub(crate) use instance::Maker;
