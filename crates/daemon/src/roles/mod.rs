//! The roles of the program: main, which may do much and parses nothing from the network; the controller, which says what the
//! configuration is; and the router, which parses what strangers send and may do nothing.

pub(crate) mod controller;
mod link;
pub(crate) mod main;
pub(crate) mod router;
mod unprivileged;
