//! The control socket: this controller serves it, or leaves connections waiting for another.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::AbortHandle;
use tutti_config::Diagnostics;
use tutti_control::{Cause, Changes, ControlAccess, ControlListener};
use tutti_sys::error::context;

use super::service::ControllerService;

/// Time for the remaining responses to reach their clients, including the one to the upgrade.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// A handle: clones share the same state.
#[derive(Clone)]
pub(super) struct Control(Arc<Inner>);

/// The sockets of the control API.
pub(super) struct Sockets {
    pub(super) control: OwnedFd,
    /// The socket on which routers read the status.
    pub(super) status: OwnedFd,
}

struct Inner {
    sockets: Sockets,
    access: ControlAccess,
    service: ControllerService,
    serving: Mutex<Vec<AbortHandle>>,
    /// One order for all changes, including those of connections from before a pause.
    changes: Arc<Changes>,
}

impl Control {
    pub(super) fn new(
        sockets: Sockets,
        access: ControlAccess,
        service: ControllerService,
    ) -> Control {
        Control(Arc::new(Inner {
            sockets,
            access,
            service,
            serving: Mutex::default(),
            changes: Arc::default(),
        }))
    }

    /// Applies the current configuration files. Returns the warnings; `None` if nothing changes.
    pub(super) async fn reload(&self, by: &str) -> Result<Option<Diagnostics>, Diagnostics> {
        self.0.changes.reload(&self.0.service, by).await
    }

    /// Applies a document of the fleet. Returns the warnings; `None` if nothing changes.
    pub(super) async fn follow(
        &self,
        text: &[u8],
        cause: Cause,
    ) -> Result<Option<Diagnostics>, Diagnostics> {
        self.0.changes.follow(&self.0.service, text, cause).await
    }

    /// Accepts connections, unless it already does.
    ///
    /// # Errors
    /// It cannot, for example because descriptors are exhausted: this process must end, so that main starts another.
    pub(super) fn serve(&self) -> io::Result<()> {
        let mut serving = self
            .0
            .serving
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if !serving.is_empty() {
            return Ok(());
        }
        let listeners = self
            .listeners()
            .map_err(|e| context("serving the control socket", e))?;
        self.0.service.open_dashboard(&self.0.changes);
        serving.extend(listeners.map(|listener| {
            let service = Arc::new(self.0.service.clone());
            let changes = Arc::clone(&self.0.changes);
            let task = tokio::spawn(tutti_control::serve(listener, service, changes));
            task.abort_handle()
        }));
        Ok(())
    }

    fn listeners(&self) -> io::Result<[ControlListener; 2]> {
        let Sockets { control, status } = &self.0.sockets;
        Ok([
            ControlListener::from_fd(control.try_clone()?, self.0.access.clone())?,
            ControlListener::of_status(status.try_clone()?, self.0.access.token.clone())?,
        ])
    }

    /// Stops accepting: new connections wait in the socket's backlog. Open connections continue.
    pub(super) fn rest(&self) {
        let mut serving = self
            .0
            .serving
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for task in serving.drain(..) {
            task.abort();
        }
        self.0.service.close_dashboard();
    }

    /// Stops accepting, and waits for the responses that are still to be sent.
    pub(super) async fn end(&self) {
        self.rest();
        let _ = tokio::time::timeout(LAST_ANSWERS, self.0.changes.answered()).await;
    }
}
