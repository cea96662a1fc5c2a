//! The control socket as this router serves it, or leaves it to wait for another router.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::AbortHandle;
use tutti_pool::Level;

use super::service::RouterService;
use crate::log::Log;

/// A handle: clones are the same thing.
#[derive(Clone)]
pub(super) struct Control(Arc<Inner>);

struct Inner {
    socket: OwnedFd,
    service: RouterService,
    log: Log,
    serving: Mutex<Option<AbortHandle>>,
}

impl Control {
    pub(super) fn new(socket: OwnedFd, service: RouterService, log: Log) -> Control {
        Control(Arc::new(Inner {
            socket,
            service,
            log,
            serving: Mutex::default(),
        }))
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
            .and_then(tutti_control::Listener::from_fd);
        match listener {
            Ok(listener) => {
                let service = Arc::new(self.0.service.clone());
                let task = tokio::spawn(tutti_control::serve(listener, service));
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
    }
}
