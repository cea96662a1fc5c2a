//! Options of a Perl application.

use std::path::PathBuf;

use serde_json::{Value, json};

/// Options of a Perl application.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Perl {
    /// The PSGI script.
    pub script: PathBuf,
    /// Threads of a process that serve requests, each with an interpreter of its own.
    pub threads: u32,
    /// Bytes of such a thread's stack; `None`: the system's default.
    pub thread_stack_size: Option<u64>,
}

impl Perl {
    pub(super) fn start_config(&self) -> Value {
        json!({
            "script": self.script.to_string_lossy(),
            "threads": self.threads,
            "thread_stack_size": self.thread_stack_size,
        })
    }
}
