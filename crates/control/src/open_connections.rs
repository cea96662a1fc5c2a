//! The open connections of a socket for few clients: the control socket's and the dashboard's.
//!
//! Their number is bounded. Beyond it the oldest is closed, those of unknown clients first, so that a stranger with many connections neither
//! uses up the descriptors of the process nor keeps others out. Must never: close one of a known client while there is one of a stranger.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::{AbortHandle, JoinSet};

/// Connections, each with its task. Dropping it ends them all, unless they are detached.
#[derive(Debug)]
pub struct OpenConnections {
    most: usize,
    tasks: JoinSet<()>,
    /// The oldest first.
    open: VecDeque<OpenConnection>,
}

#[derive(Debug)]
struct OpenConnection {
    task: AbortHandle,
    is_known: Arc<AtomicBool>,
}

impl OpenConnections {
    /// Room for `most` connections.
    pub fn new(most: usize) -> Self {
        assert!(most > 0, "room for no connection");
        Self {
            most,
            tasks: JoinSet::new(),
            open: VecDeque::new(),
        }
    }

    /// Runs a connection; another one is closed if there are too many. `is_known` is set as soon as its client is authenticated.
    pub fn add(
        &mut self,
        is_known: Arc<AtomicBool>,
        connection: impl Future<Output = ()> + Send + 'static,
    ) {
        self.open.retain(|open| !open.task.is_finished());
        if self.open.len() >= self.most {
            let is_strange = |open: &OpenConnection| !open.is_known.load(Ordering::Relaxed);
            let stranger = self.open.iter().position(is_strange);
            if let Some(open) = self.open.remove(stranger.unwrap_or_default()) {
                open.task.abort();
            }
        }
        let task = self.tasks.spawn(connection);
        self.open.push_back(OpenConnection { task, is_known });
        assert!(
            self.open.len() <= self.most,
            "more connections than allowed"
        );
    }

    /// Lets them continue to their own ends, whatever becomes of this.
    pub fn detach(&mut self) {
        self.tasks.detach_all();
    }

    /// Waits until one has ended; never returns if there is none.
    pub async fn one_ended(&mut self) {
        if self.tasks.join_next().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}
