//! Perl language host: runs PSGI applications in the processes that the router asks for.
//!
//! Two halves. The C half (`csrc/`) is what needs perl's macros and `setjmp`: the interpreter, the environ, the body's handles, the answer. The
//! Rust half reads the configuration and moves bytes between perl and the exchange. `main` (the binary)
//! runs it on the worker base. What must never happen: a request without exactly one answer, a Rust frame under a `longjmp`, a
//! process that the application has forked answering its parent's request.

mod ffi;
pub mod host;
mod lifecycle;
mod response;
