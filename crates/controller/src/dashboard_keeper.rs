//! The dashboard that is served now, and one that is prepared.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tutti_config::Diagnostic;
use tutti_dashboard::{DashboardAccess, Site};

/// The state of the dashboard.
#[derive(Default)]
pub(super) struct Keeper {
    state: Mutex<State>,
    /// Its settings may have changed: it is looked after at once.
    pub(super) due: Notify,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) site: Option<Arc<Site>>,
    /// The control socket is served, so the dashboard may be too.
    pub(super) may_serve: bool,
    pub(super) listening: Option<Listening>,
    /// Why it differs from the configuration.
    pub(super) problem: Option<Diagnostic>,
}

pub(super) struct Listening {
    pub(super) address: SocketAddr,
    pub(super) accepting: AbortHandle,
    pub(super) watching: AbortHandle,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.accepting.abort();
        self.watching.abort();
    }
}

/// A prepared dashboard.
pub(super) struct Ready {
    pub(super) address: SocketAddr,
    /// `None`: it already listens there.
    pub(super) socket: Option<OwnedFd>,
    pub(super) entry: DashboardAccess,
}

impl Keeper {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn problem(&self) -> Option<Diagnostic> {
        self.state().problem.clone()
    }

    pub(super) fn address(&self) -> Option<SocketAddr> {
        let state = self.state();
        state.listening.as_ref().map(|listening| listening.address)
    }
}
