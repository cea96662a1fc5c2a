//! WebSocket connections: the client's frames on one side, the application's messages on the other.
//!
//! Entered from [`exchange`](crate::exchange) when an application has accepted a handshake; ends with the connection. [`session`] is what is
//! said, [`connection`] moves the bytes.

mod connection;
mod session;
#[cfg(test)]
mod session_tests;

pub(crate) use connection::run;
