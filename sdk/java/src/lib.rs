//! Java language host: runs web applications (servlets) in the processes that the router asks for.
//!
//! Two parts. The Rust part finds Java, looks what the web application is, starts the virtual machine in each worker, and moves bytes
//! between it and the exchange. The Java part (`java/`) is Jetty without sockets: a connector whose streams are our exchanges. `main`
//! (the binary) runs it on the worker base. What must never happen: a request without exactly one answer, a fork of a process with a
//! virtual machine in it, a thread that waits with a lock held, an exchange that Java reaches after its end.

mod archive;
mod ffi;
pub mod home;
pub mod host;
mod jars;
mod jvm;
mod lifecycle;
mod log;
mod request;
mod response;
mod serving;
mod stack_location;
mod webapp;
mod websocket;
