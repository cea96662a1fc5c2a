//! What can be done with a request: one module per action.

pub(crate) mod answer;
pub(crate) mod app;
mod app_response;
mod conversation;
pub(crate) mod file;
pub(crate) mod proxy;
pub(crate) mod share;
mod upgrade;
