//! The control socket as this controller serves it, or leaves it to wait for another.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::AbortHandle;
use tutti_config::Diagnostics;
use tutti_control::{Access, Cause, Changes};
use tutti_log::Level;
use tutti_log::Log;

use super::service::ControllerService;

/// Clients get the answers that are due, also that to the upgrade, within this time.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// A handle: clones are the same thing.
#[derive(Clone)]
pub(super) struct Control(Arc<Inner>);

struct Inner {
    socket: OwnedFd,
    access: Access,
    service: ControllerService,
    log: Log,
    serving: Mutex<Option<AbortHandle>>,
    /// One order for all changes, also those of connections from before a rest.
    changes: Arc<Changes>,
}

impl Control {
    pub(super) fn new(
        socket: OwnedFd,
        access: Access,
        service: ControllerService,
        log: Log,
    ) -> Control {
        Control(Arc::new(Inner {
            socket,
            access,
            service,
            log,
            serving: Mutex::default(),
            changes: Arc::default(),
        }))
    }

    /// Puts in force what the configuration files say now. Returns its warnings; `None` where that is nothing new.
    pub(super) async fn reload(&self, by: &str) -> Result<Option<Diagnostics>, Diagnostics> {
        self.0.changes.reload(&self.0.service, by).await
    }

    /// Puts a document of the fleet in force. Returns its warnings; `None` where that is nothing new.
    pub(super) async fn follow(
        &self,
        text: &[u8],
        cause: Cause,
    ) -> Result<Option<Diagnostics>, Diagnostics> {
        self.0.changes.follow(&self.0.service, text, cause).await
    }

    /// Accepts connections, unless it does already.
    pub(super) fn serve(&self) {
        let mut serving = self
            .0
            .serving
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if serving.is_some() {
            return;
        }
        let listener = self
            .0
            .socket
            .try_clone()
            .and_then(|socket| tutti_control::Listener::from_fd(socket, self.0.access.clone()));
        match listener {
            Ok(listener) => {
                let service = Arc::new(self.0.service.clone());
                let changes = Arc::clone(&self.0.changes);
                self.0.service.open_dashboard(&changes);
                let task = tokio::spawn(tutti_control::serve(listener, service, changes));
                *serving = Some(task.abort_handle());
            }
            Err(error) => self.0.log.line(
                Level::Alert,
                &format!("cannot serve the control socket: {error}"),
            ),
        }
    }

    /// Accepts no more: whoever connects waits in the socket's queue. Connections there are go on.
    pub(super) fn rest(&self) {
        let mut serving = self
            .0
            .serving
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(task) = serving.take() {
            task.abort();
        }
        self.0.service.close_dashboard();
    }

    /// Accepts no more, and waits for the answers that are due.
    pub(super) async fn end(&self) {
        self.rest();
        let _ = tokio::time::timeout(LAST_ANSWERS, self.0.changes.answered()).await;
    }
}
