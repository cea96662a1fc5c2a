//! Changes of the configuration: one at a time, in order of arrival, each completed.

use std::sync::{Arc, PoisonError};
use std::time::SystemTime;

use tokio::sync::{Mutex, watch};
use tutti_config::{Diagnostics, Document, FaultKind, Format, Pointer};
use tutti_protocol::Cause;

use crate::api_response::ApiResponse;
use crate::etag::{self, Conditions};
use crate::maintenance;
use crate::node_options;
use crate::service::Service;

/// An edit at a path.
#[derive(Clone, Debug)]
pub(crate) enum Edit {
    /// Replace or add.
    Put(Vec<u8>, Format),
    /// Append to an array.
    Post(Vec<u8>, Format),
    /// Merge (RFC 7386).
    Patch(Vec<u8>, Format),
    /// Remove.
    Delete,
}

/// A change of the configuration.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// A part of it, or the whole.
    Edit {
        path: Vec<String>,
        edit: Edit,
        conditions: Conditions,
    },
    /// Restore the configuration of an earlier change.
    Restore(u64),
    /// Apply the current configuration files.
    Reload,
    /// Start maintenance with these options; `None`: end it.
    Maintenance(Option<(Vec<u8>, Format)>),
}

/// Serializes changes. A server has one, even if its control socket is served by several listeners in turn.
#[derive(Debug, Default)]
pub struct Changes {
    /// tokio's mutex is fair: first come, first served.
    turn: Mutex<()>,
    /// Requests whose responses have not been written yet.
    due: watch::Sender<usize>,
    /// See [`Changes::refused`].
    refused: std::sync::Mutex<Option<Arc<RefusedChange>>>,
}

/// Largest rejected configuration that is remembered, in bytes.
const LARGEST_REMEMBERED: usize = 1 << 20;

/// A change that was rejected because of its configuration.
#[derive(Debug)]
pub struct RefusedChange {
    /// When.
    pub time: SystemTime,
    /// The caller.
    pub cause: Cause,
    /// The rejected configuration; `None` if it could not be read, or is too large to be remembered.
    pub document: Option<Document>,
    /// The faults.
    pub faults: Diagnostics,
}

/// A response that is still to be sent. Dropped once it has been sent or its client has disconnected.
pub(crate) struct Due(watch::Sender<usize>);

impl Drop for Due {
    fn drop(&mut self) {
        self.0.send_modify(|due| *due = due.saturating_sub(1));
    }
}

impl Changes {
    /// Records that a response is to be sent.
    pub(crate) fn owe(&self) -> Due {
        self.due.send_modify(|due| *due += 1);
        Due(self.due.clone())
    }

    /// Returns the last change if it was rejected: a successful change clears it.
    pub fn refused(&self) -> Option<Arc<RefusedChange>> {
        let refused = self.refused.lock();
        refused.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn remember(&self, refused: Option<RefusedChange>) {
        let mut last = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        *last = refused.map(Arc::new);
    }

    /// Applies a document, and remembers it if its configuration is rejected.
    async fn apply(
        &self,
        service: &dyn Service,
        document: Document,
        cause: Cause,
    ) -> Result<Diagnostics, Diagnostics> {
        let done = service.apply(document.clone(), cause.clone()).await;
        match &done {
            Ok(_) => self.remember(None),
            // Nothing is wrong with the configuration: a fleet's one is sent again until an upgrade is over.
            Err(faults) if faults.kind() == FaultKind::Unavailable => {}
            Err(faults) => self.remember(Some(RefusedChange {
                time: SystemTime::now(),
                cause,
                document: Some(document).filter(|one| one.to_json().len() <= LARGEST_REMEMBERED),
                faults: faults.clone(),
            })),
        }
        done
    }

    /// Remembers a change that cannot be read.
    fn refuse(&self, cause: Cause, faults: &Diagnostics) {
        self.remember(Some(RefusedChange {
            time: SystemTime::now(),
            cause,
            document: None,
            faults: faults.clone(),
        }));
    }

    /// Waits until every request that has been read has its response.
    pub async fn answered(&self) {
        // `self` owns the sender, which therefore outlives this wait.
        let _ = self.due.subscribe().wait_for(|due| *due == 0).await;
    }

    /// Reads the configuration files again and applies them. Returns the warnings; `None` if nothing changes.
    ///
    /// # Errors
    /// The faults; nothing has changed. Empty if there are no files.
    pub async fn reload(
        &self,
        service: &dyn Service,
        by: &str,
    ) -> Result<Option<Diagnostics>, Diagnostics> {
        let _turn = self.turn.lock().await;
        let cause = Cause {
            by: by.to_owned(),
            change: "reload of the configuration files".to_owned(),
        };
        let files = service.files().await;
        let files = files.inspect_err(|faults| self.refuse(cause.clone(), faults));
        let Some(mut document) = files? else {
            return Err(Diagnostics::default());
        };
        maintenance::keep(&service.document(), &mut document);
        if document == *service.document() {
            return Ok(None);
        }
        self.apply(service, document, cause).await.map(Some)
    }

    /// Applies a document of the fleet, except for the parts that belong to this node. Returns the warnings; `None` if
    /// nothing changes.
    ///
    /// # Errors
    /// The faults; nothing has changed.
    pub async fn follow(
        &self,
        service: &dyn Service,
        text: &[u8],
        cause: Cause,
    ) -> Result<Option<Diagnostics>, Diagnostics> {
        let _turn = self.turn.lock().await;
        let current = service.document();
        let read =
            tutti_config::parse(text).and_then(|document| node_options::put(&current, document));
        let document = read.inspect_err(|faults| self.refuse(cause.clone(), faults))?;
        if document == *current {
            return Ok(None);
        }
        self.apply(service, document, cause).await.map(Some)
    }

    /// Waits for its turn, edits the configuration of that moment, and applies it.
    ///
    /// Runs in its own task, so that a client that disconnects does not interrupt it.
    pub(crate) async fn run(
        self: Arc<Self>,
        service: Arc<dyn Service>,
        change: Change,
        cause: Cause,
    ) -> ApiResponse {
        let worker = tokio::spawn(async move {
            match change {
                Change::Edit {
                    path,
                    edit,
                    conditions,
                } => {
                    let _turn = self.turn.lock().await;
                    carry_out(&self, &*service, path, edit, conditions, cause).await
                }
                Change::Maintenance(options) => {
                    let _turn = self.turn.lock().await;
                    match maintenance::switched(&service.document(), options) {
                        Ok(document) => put_in_force(&self, &*service, document, cause).await,
                        Err(faults) => ApiResponse::faults(&faults),
                    }
                }
                Change::Restore(number) => {
                    let _turn = self.turn.lock().await;
                    restore(&self, &*service, number, cause).await
                }
                Change::Reload => match self.reload(&*service, &cause.by).await {
                    Ok(Some(warnings)) => done(service.document(), warnings).await,
                    Ok(None) => ApiResponse::success("The files match the configuration in force."),
                    // Certificates in files have been reloaded anyway.
                    Err(faults) if faults.0.is_empty() => ApiResponse::success(
                        "There are no configuration files: the stored configuration stays in force. Certificates in files have been reloaded.",
                    ),
                    Err(faults) => ApiResponse::faults(&faults),
                },
            }
        });
        worker.await.unwrap_or_else(|_| {
            ApiResponse::error(
                500,
                "Internal error.",
                Some("The change failed unexpectedly; see the log."),
            )
        })
    }
}

async fn carry_out(
    changes: &Changes,
    service: &dyn Service,
    path: Vec<String>,
    change: Edit,
    conditions: Conditions,
    cause: Cause,
) -> ApiResponse {
    let current = service.document();
    let tag = current.get(&path).ok().map(etag::of);
    if !conditions.allow_change(tag.as_deref()) {
        return ApiResponse::changed_meanwhile();
    }
    let edited = match edit(&current, &path, change) {
        Ok(edited) => edited,
        Err(faults) => {
            // A missing path says nothing about the configuration.
            if faults.0.iter().any(|fault| fault.kind == FaultKind::Syntax) {
                changes.refuse(cause, &faults);
            }
            return ApiResponse::faults(&faults);
        }
    };
    let mut answer = put_in_force(changes, service, edited, cause).await;
    if answer.status != 200 {
        return answer;
    }
    answer.etag = service.document().get(&path).ok().map(etag::of);
    answer
}

async fn restore(
    changes: &Changes,
    service: &dyn Service,
    number: u64,
    cause: Cause,
) -> ApiResponse {
    let mut document = match service.past(number).await {
        Ok(Some(document)) => document,
        Ok(None) => return ApiResponse::missing(),
        Err(reason) => return ApiResponse::error(500, "Cannot read the history.", Some(&reason)),
    };
    maintenance::keep(&service.document(), &mut document);
    put_in_force(changes, service, document, cause).await
}

/// Applies a document, unless it is in force already: as documented for Unit, a change that makes no difference does
/// nothing.
async fn put_in_force(
    changes: &Changes,
    service: &dyn Service,
    document: Document,
    cause: Cause,
) -> ApiResponse {
    if document == *service.document() {
        return done(Arc::new(document), Diagnostics::default()).await;
    }
    match changes.apply(service, document, cause).await {
        Ok(warnings) => done(service.document(), warnings).await,
        Err(faults) => ApiResponse::faults(&faults),
    }
}

/// The response for an applied change, with its warnings and those of the configuration.
async fn done(document: Arc<Document>, mut warnings: Diagnostics) -> ApiResponse {
    // The check reads folders, which may be on another machine.
    let looking = tokio::task::spawn_blocking(move || {
        tutti_config::warnings(&document, &tutti_sys::file::names_in)
    });
    let found = looking.await.unwrap_or_default();
    warnings.0.extend(found.0);
    ApiResponse::done("Reconfiguration done.", &warnings)
}

fn edit(current: &Document, path: &[String], edit: Edit) -> Result<Document, Diagnostics> {
    let mut document = current.clone();
    document.forget_source();
    let base = Pointer::from_segments(path);
    let read = |bytes: &[u8], format| {
        tutti_config::read(bytes, format).map_err(|faults| faults.under(&base))
    };
    match edit {
        Edit::Put(bytes, format) => {
            document.put(path, read(&bytes, format)?)?;
            if path.is_empty() {
                maintenance::keep(current, &mut document);
            }
        }
        Edit::Post(bytes, format) => document.post(path, read(&bytes, format)?)?,
        Edit::Patch(bytes, format) => document.patch(path, read(&bytes, format)?)?,
        Edit::Delete => document.delete(path)?,
    }
    Ok(document)
}
