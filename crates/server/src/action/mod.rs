//! The actions that answer a request, a module for each.

pub(crate) mod abandon;
pub(crate) mod answer;
pub(crate) mod app;
mod app_response;
mod conversation;
pub(crate) mod file;
pub(crate) mod listing;
pub(crate) mod metrics;
pub(crate) mod share;
pub(crate) mod spooler;
mod upgrade;
pub(crate) mod upstream;
