//! PHP language host: runs PHP applications in the processes that the router asks for.
//!
//! Two halves. The C half (`csrc/`) is the SAPI module, as thin as Zend's macros and `setjmp` allow; the Rust half finds the script, builds
//! `$_SERVER`, and moves bytes between PHP and the exchange. `main` (the binary) runs it on the worker base. What must never happen:
//! a script outside the root, a request without exactly one answer, a Rust frame under a `longjmp`.

mod abi;
mod adapters;
pub mod exchange;
mod ffi;
pub mod host;
mod log;
mod options;
mod resident;
mod running;
mod script;
mod serve;
mod serving;
mod variables;

pub use options::LoadError;
pub use resident::RequestSource;
pub use serve::{After, PhpInstance, VERSION};
