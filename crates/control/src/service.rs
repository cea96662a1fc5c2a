//! The operations of the server that the control API calls.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tutti_config::{Diagnostic, Diagnostics, Document};
use tutti_protocol::{Cause, JobTask, PurgeScope, StoreKind};

/// A result that takes time.
pub type ServiceFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Why a restart did not happen.
#[derive(Clone, Debug, PartialEq)]
pub enum RestartError {
    /// No application has this name (404).
    Unknown,
    /// The new processes did not start, the old ones keep running (500).
    Failed(Diagnostics),
}

/// Why a certificate was not renewed.
#[derive(Clone, Debug, PartialEq)]
pub enum RenewError {
    /// No certificate has this name (404).
    Unknown,
    /// It was uploaded: only its owner can provide a newer one (409).
    Uploaded,
    /// No newer one is available, for this reason; the current one stays in force (500).
    Failed(String),
}

/// Why something was not stored or deleted.
#[derive(Clone, Debug, PartialEq)]
pub enum StoreError {
    /// Nothing has this name (404).
    Unknown,
    /// The text is not valid, or its name cannot be used (400).
    Invalid(Box<Diagnostic>),
    /// These places of the configuration refer to it (409).
    Used(Vec<String>),
    /// It cannot be done now (500).
    Failed(Diagnostics),
}

/// The end of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopKind {
    /// Requests in progress are answered first.
    Graceful,
    /// Requests in progress are aborted.
    Quick,
}

/// The server, as seen by the control API. All calls come from the control thread.
pub trait Service: Send + Sync + 'static {
    /// The configuration in force.
    fn document(&self) -> Arc<Document>;

    /// Makes `document` the configuration: validate, prepare, store, commit, in this order. Called for one change at a
    /// time; the future is always run to completion. Returns warnings: faults that do not prevent the change.
    ///
    /// # Errors
    /// Nothing has changed, neither in force nor in the store.
    fn apply(
        &self,
        document: Document,
        cause: Cause,
    ) -> ServiceFuture<Result<Diagnostics, Diagnostics>>;

    /// Reads the configuration files again; `None` if the server was started without any.
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

    /// Returns the configuration after the change of that number; `None` if it is no longer stored.
    fn past(&self, _number: u64) -> ServiceFuture<Result<Option<Document>, String>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Returns the content of `/status`.
    ///
    /// # Errors
    /// Why the status is not available (503).
    fn status(&self) -> ServiceFuture<Result<serde_json::Value, String>>;

    /// Returns the metrics in a format.
    ///
    /// # Errors
    /// Why the metrics are not available (503).
    fn metrics(
        &self,
        format: tutti_metrics::ExpositionFormat,
    ) -> ServiceFuture<Result<Vec<u8>, String>> {
        let _ = format;
        let reason = "there are no metrics here".to_owned();
        Box::pin(std::future::ready(Err(reason)))
    }

    /// Returns the content of a store: an object with a member for each stored object.
    fn stored(&self, store: StoreKind) -> serde_json::Value {
        let _ = store;
        serde_json::Value::Object(serde_json::Map::new())
    }

    /// Stores or replaces an object, and puts it in force if the configuration refers to it. Returns warnings.
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

    /// Deletes an object that the configuration does not refer to.
    ///
    /// # Errors
    /// Nothing has changed.
    fn discard(&self, store: StoreKind, name: &str) -> ServiceFuture<Result<(), StoreError>> {
        let _ = (store, name);
        Box::pin(std::future::ready(Err(StoreError::Unknown)))
    }

    /// Carries out a task with the jobs of a spooler and returns the result; `None` if there is no such spooler or job.
    ///
    /// # Errors
    /// Why the jobs are not available (503).
    fn jobs(
        &self,
        spooler: &str,
        task: JobTask,
    ) -> ServiceFuture<Result<Option<serde_json::Value>, String>> {
        let _ = (spooler, task);
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Purges a store of responses and returns their number; `None` if there is no such store.
    ///
    /// # Errors
    /// Why the store is not available (503).
    fn purge(
        &self,
        store: &str,
        purge: PurgeScope,
    ) -> ServiceFuture<Result<Option<serde_json::Value>, String>> {
        let _ = (store, purge);
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Replaces the processes of an application; completes when the new ones have taken over.
    fn restart(&self, application: &str) -> ServiceFuture<Result<(), RestartError>>;

    /// Orders a new certificate from its authority, or reads it from its files again; completes when it is in force.
    fn renew(&self, certificate: &str) -> ServiceFuture<Result<(), RenewError>> {
        let _ = certificate;
        Box::pin(std::future::ready(Err(RenewError::Unknown)))
    }

    /// Upgrades to the program now at the server's path; completes when that serves.
    fn upgrade(&self) -> ServiceFuture<Result<(), String>> {
        Box::pin(std::future::ready(Err(
            "this server cannot be upgraded while it runs".to_owned(),
        )))
    }

    /// Stops the server; completes when stopping has begun.
    fn stop(&self, kind: StopKind) -> ServiceFuture<Result<(), String>> {
        let _ = kind;
        Box::pin(std::future::ready(Err(
            "this server cannot be stopped from here".to_owned(),
        )))
    }

    /// The value of the `Server` field: `Tutti/VERSION`.
    fn server_name(&self) -> &str;
}
