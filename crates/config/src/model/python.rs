//! Options of a Python application.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::pointer::Pointer;

/// Options of a Python application.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Python {
    /// Without `targets` exactly one, under the name `None`.
    pub targets: Vec<PythonTarget>,
    /// Virtual environment.
    pub home: Option<PathBuf>,
    /// Folders put before `sys.path`, in order.
    pub path: Vec<PathBuf>,
    /// The interface; `None`: found out from the callable.
    pub protocol: Option<PythonProtocol>,
    /// Threads of a process that serve requests.
    pub threads: u32,
    /// Bytes of such a thread's stack; `None`: the system's default.
    pub thread_stack_size: Option<u32>,
}

/// An interface between server and Python application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PythonProtocol {
    /// PEP 3333.
    Wsgi,
    /// <https://asgi.readthedocs.io>
    Asgi,
}

/// One entry point of a Python application.
#[derive(Clone, Debug, PartialEq)]
pub struct PythonTarget {
    /// Where it was written.
    pub pointer: Pointer,
    /// `None`: the application itself, without targets.
    pub name: Option<String>,
    /// Module to import.
    pub module: String,
    /// Its callable.
    pub callable: String,
    /// The callable makes the application.
    pub factory: bool,
    /// `SCRIPT_NAME` or `root_path`.
    pub prefix: Option<String>,
}

impl Python {
    /// `targets` is always an object here; the application itself, without targets, is the one called ``.
    pub(super) fn start_config(&self) -> Value {
        let targets: serde_json::Map<String, Value> = self
            .targets
            .iter()
            .map(|target| {
                let value = json!({
                    "module": target.module,
                    "callable": target.callable,
                    "factory": target.factory,
                    "prefix": target.prefix,
                });
                (target.name.clone().unwrap_or_default(), value)
            })
            .collect();
        let paths = self.path.iter().map(|path| path.to_string_lossy());
        json!({
            "targets": targets,
            "home": super::path(self.home.as_ref()),
            "path": paths.collect::<Vec<_>>(),
            "protocol": self.protocol.map(|protocol| match protocol {
                PythonProtocol::Wsgi => "wsgi",
                PythonProtocol::Asgi => "asgi",
            }),
            "threads": self.threads,
            "thread_stack_size": self.thread_stack_size,
        })
    }
}
