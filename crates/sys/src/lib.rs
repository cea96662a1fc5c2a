//! The safe face of Linux.
//!
//! Owns every system call that needs `unsafe` outside the shared-memory mapping of `wire` and the language
//! hosts. Called by all other crates; knows nothing of HTTP, configuration or applications. What must never
//! happen here: a safe function whose misuse corrupts memory, and a descriptor that outlives its owner or leaks
//! into a child by accident (every descriptor made here is close-on-exec).

pub mod anonymous_file;
pub mod cgroup;
pub mod clock;
pub mod credentials;
pub mod daemon;
pub mod datagrams;
pub mod error;
pub mod event;
pub mod exec;
pub mod exposed;
pub mod file;
pub mod file_mark;
pub mod fork;
pub mod futex;
pub mod guarded;
pub mod handover;
pub mod isolation;
pub mod libraries;
pub mod lifeline;
pub mod listen;
pub mod log_line;
pub mod log_stream;
pub mod memfd;
pub mod oom;
pub mod path_snapshot;
pub mod port_group;
pub mod priority;
pub mod proc;
pub mod process;
pub mod sandbox;
pub mod seqpacket;
pub mod signal;
pub mod span;
pub mod spawn;
pub mod tcp;
pub mod time;
pub mod title;

pub use error::{ErrorContext, os_code, remedy};
