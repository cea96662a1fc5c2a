//! Ruby language host: runs Rack applications in the processes that the router asks for.
//!
//! Three parts. The C part (`csrc/`) is what needs ruby's API, in which an exception is a longjmp: the environment, the answer, threads and
//! forks. `lib/tutti.rb` is what Ruby says best: how an application is loaded, what `rack.input` can do. The Rust part reads the
//! configuration, and moves bytes between ruby and the exchange. `main` (the binary) runs it on the worker base. What must never
//! happen: a request without exactly one answer, a Rust frame under a longjmp, a wait that holds the lock of all Ruby
//! threads, a process that the application has forked answering its parent's request.

mod ffi;
pub mod host;
mod lifecycle;
mod response;
mod serving;
