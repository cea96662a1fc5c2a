//! The two roles of the program: main, which may do much and parses nothing from the network, and the router,
//! which parses everything and may do nothing.

pub(crate) mod main;
pub(crate) mod router;
