//! One exchange: its state, its messages in memory, its client, and its request for the stages.

pub(crate) mod arrival;
pub(crate) mod attempts;
pub(crate) mod body;
pub(crate) mod channel;
pub(crate) mod client;
pub(crate) mod collector;
pub(crate) mod messages;
pub(crate) mod received;
pub(crate) mod refusals;
pub(crate) mod request;
pub(crate) mod respond;
pub(crate) mod route_log;
mod state;
pub(crate) mod stream;
pub(crate) mod trace;

pub(crate) use state::Exchange;
