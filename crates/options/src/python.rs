//! Python.

use std::num::NonZeroU32;
use std::path::PathBuf;

use crate::application::{ApplicationSupport, Common, Threads, check_targets, entries};
use crate::table::{Text, ValueKind};
use crate::{Complaints, Named, Options, options, prefix, words};

options! {
    /// A Python application (WSGI or ASGI)
    pub struct Python: PYTHON = "python", beside [Common::ROWS], exactly_one ["module", "targets"] {
        ..threads: Threads,
        ..entry: PythonTarget,
        /// Several entry points
        targets: Option<Named<PythonTarget>> [],
        /// Virtual environment
        home: Option<PathBuf> [],
        /// Folders to put before `sys.path`
        path: Vec<PathBuf> [kind(ValueKind::OneOf(&[ValueKind::String(Text::PathOrEmpty), ValueKind::Array(&ValueKind::String(Text::PathOrEmpty))]))],
        /// Interface; detected if unset
        protocol: Option<Protocol> [],
    }
}

options! {
    /// An entry point of a Python application
    #[derive(Eq)]
    pub struct PythonTarget: PYTHON_TARGET = "python target", exactly_one ["module"] {
        /// Module to import
        module: String [],
        /// Its callable
        callable: String [default("\"application\""), needs(&["module"])],
        /// Call the callable to get the application
        factory: bool [default("false"), needs(&["module"])],
        /// `SCRIPT_NAME` or `root_path`; begins with a slash
        prefix: Option<String> [needs(&["module"])],
    }
}

words! {
    /// An interface between server and application.
    pub enum Protocol {
        /// PEP 3333.
        Wsgi = "wsgi",
        /// <https://asgi.readthedocs.io>
        Asgi = "asgi",
    }
}

impl PythonTarget {
    /// The prefix without a slash at its end.
    pub fn path_prefix(&self) -> &str {
        prefix::trimmed(self.prefix.as_deref())
    }

    fn check(&self, complaints: &mut Complaints<'_>) {
        prefix::check(self.prefix.as_deref(), complaints);
    }
}

impl Python {
    /// The entry points by the names of their targets; of an application without targets the only one, whose name is empty.
    pub fn entries(&self) -> Vec<(&str, &PythonTarget)> {
        entries(self.targets.as_ref(), &self.entry)
    }
}

impl ApplicationSupport for Python {
    const HAS_VERSIONS: bool = true;
    const MAY_RUN_EVENT_LOOPS: bool = true;

    fn check(&self, complaints: &mut Complaints<'_>) {
        self.threads.check(complaints);
        match &self.targets {
            None => self.entry.check(complaints),
            Some(Named(targets)) => check_targets(targets, PythonTarget::check, complaints),
        }
    }

    fn targets(&self) -> Vec<&str> {
        let targets = self.targets.iter().flat_map(|Named(targets)| targets);
        targets.map(|(name, _)| name.as_str()).collect()
    }

    fn threads(&self) -> NonZeroU32 {
        self.threads.threads
    }

    fn watched(&self) -> Vec<PathBuf> {
        self.path.clone()
    }
}
