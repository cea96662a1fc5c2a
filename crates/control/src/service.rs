//! The orders of the control API to the server.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tutti_config::{Diagnostic, Diagnostics, Document};
use tutti_protocol::{Cause, JobTask, PurgeScope, StoreKind};

/// An answer that takes time.
pub type ServiceFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Why a restart did not happen.
#[derive(Clone, Debug, PartialEq)]
pub enum RestartError {
    /// No application has this name (404).
    Unknown,
    /// The new processes did not come up, the old ones go on (500).
    Failed(Diagnostics),
}

/// Why a certificate was not renewed.
#[derive(Clone, Debug, PartialEq)]
pub enum RenewError {
    /// No certificate has this name (404).
    Unknown,
    /// It was uploaded: only a person has a newer one (409).
    Uploaded,
    /// There is no newer one now, and this is why; the one in force stays (500).
    Failed(String),
}

/// Why something was not stored or deleted.
#[derive(Clone, Debug, PartialEq)]
pub enum StoreError {
    /// Nothing has this name (404).
    Unknown,
    /// The text is no such thing, or has no name that can be used (400).
    Invalid(Box<Diagnostic>),
    /// These places of the configuration name it (409).
    Used(Vec<String>),
    /// It cannot be done here and now (500).
    Failed(Diagnostics),
}

/// The end of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopKind {
    /// Requests under way are answered first.
    Graceful,
    /// They are not.
    Quick,
}

/// The server, as the control API knows it. All calls come from the control thread.
pub trait Service: Send + Sync + 'static {
    /// The configuration in force.
    fn document(&self) -> Arc<Document>;

    /// Makes `document` the configuration: validate, prepare, store, commit, in this order. Called for one change at a time;
    /// the future is always run to its end. Returns warnings: faults that do not stand against it.
    ///
    /// # Errors
    /// Nothing has changed, neither what is served nor what is stored.
    fn apply(
        &self,
        document: Document,
        cause: Cause,
    ) -> ServiceFuture<Result<Diagnostics, Diagnostics>>;

    /// Reads the configuration files anew; `None` where the server was started without any.
    ///
    /// # Errors
    /// The faults in them, with file, line and column.
    fn files(&self) -> ServiceFuture<Result<Option<Document>, Diagnostics>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// The last changes, newest first: an array of objects with `number`, `time`, `by` and `change`.
    fn history(&self) -> ServiceFuture<Result<serde_json::Value, String>> {
        Box::pin(std::future::ready(Ok(serde_json::Value::Array(Vec::new()))))
    }

    /// The configuration after the change of that number; `None` if it is not kept.
    fn past(&self, _number: u64) -> ServiceFuture<Result<Option<Document>, String>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// The content of `/status`.
    ///
    /// # Errors
    /// Why whoever knows it does not tell (503).
    fn status(&self) -> ServiceFuture<Result<serde_json::Value, String>>;

    /// The metrics in a format.
    ///
    /// # Errors
    /// Why whoever knows them does not tell (503).
    fn metrics(
        &self,
        format: tutti_metrics::ExpositionFormat,
    ) -> ServiceFuture<Result<Vec<u8>, String>> {
        let _ = format;
        let reason = "there are no metrics here".to_owned();
        Box::pin(std::future::ready(Err(reason)))
    }

    /// The content of a store: an object with a member for each thing.
    fn stored(&self, store: StoreKind) -> serde_json::Value {
        let _ = store;
        serde_json::Value::Object(serde_json::Map::new())
    }

    /// Stores something, or puts another in its place, and in force where the configuration names it. Returns what is odd about it.
    ///
    /// # Errors
    /// Nothing has changed.
    fn keep(
        &self,
        store: StoreKind,
        name: &str,
        bytes: Vec<u8>,
    ) -> ServiceFuture<Result<Vec<String>, StoreError>> {
        let _ = (store, name, bytes);
        Box::pin(std::future::ready(Err(StoreError::Unknown)))
    }

    /// Deletes something that nothing names.
    ///
    /// # Errors
    /// Nothing has changed.
    fn discard(&self, store: StoreKind, name: &str) -> ServiceFuture<Result<(), StoreError>> {
        let _ = (store, name);
        Box::pin(std::future::ready(Err(StoreError::Unknown)))
    }

    /// Carries out a task with the jobs of a spooler; what came of it, or `None`: there is no such spooler or job.
    ///
    /// # Errors
    /// Why whoever has the jobs does not do it (503).
    fn jobs(
        &self,
        spooler: &str,
        task: JobTask,
    ) -> ServiceFuture<Result<Option<serde_json::Value>, String>> {
        let _ = (spooler, task);
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Purges a store of responses; how many there were, or `None`: there is no such store.
    ///
    /// # Errors
    /// Why whoever has them does not do it (503).
    fn purge(
        &self,
        store: &str,
        purge: PurgeScope,
    ) -> ServiceFuture<Result<Option<serde_json::Value>, String>> {
        let _ = (store, purge);
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Replaces the processes of an application; done when the new ones have taken over.
    fn restart(&self, application: &str) -> ServiceFuture<Result<(), RestartError>>;

    /// Orders a new certificate from its authority, or reads it again from its files; done when it is in force.
    fn renew(&self, certificate: &str) -> ServiceFuture<Result<(), RenewError>> {
        let _ = certificate;
        Box::pin(std::future::ready(Err(RenewError::Unknown)))
    }

    /// Puts the program now at the server's path in its place; done when that serves.
    fn upgrade(&self) -> ServiceFuture<Result<(), String>> {
        Box::pin(std::future::ready(Err(
            "this server cannot be upgraded while it runs".to_owned(),
        )))
    }

    /// Stops the server; done when that has begun.
    fn stop(&self, kind: StopKind) -> ServiceFuture<Result<(), String>> {
        let _ = kind;
        Box::pin(std::future::ready(Err(
            "this server cannot be stopped from here".to_owned(),
        )))
    }

    /// The value of the `Server` field: `Tutti/VERSION`.
    fn server_name(&self) -> &str;
}
