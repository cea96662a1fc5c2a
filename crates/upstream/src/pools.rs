//! Connections that wait for their next request: those of one thread.
//!
//! The one used last is used first, so that under less load the others become old and are closed. A connection on which something
//! has happened meanwhile is not used.

use std::cell::{Cell, RefCell};

use rustc_hash::FxHashMap;
use tutti_config::model::UpstreamOptions;

use crate::connection::Connection;
use crate::server::Server;
use crate::{Millis, millis};

/// Idle connections of a thread, by server.
#[derive(Debug, Default)]
pub struct Pools {
    idle: RefCell<FxHashMap<u64, Idle>>,
    /// Somebody calls [`Pools::sweep`].
    is_swept: Cell<bool>,
}

#[derive(Debug)]
struct Idle {
    /// How long they may wait.
    limit: Millis,
    /// The one used last at the end.
    connections: Vec<Connection>,
}

impl Pools {
    /// A connection to this server on which nothing has happened since its last request.
    pub fn take(&self, server: &Server, now: Millis) -> Option<Connection> {
        let mut idle = self.idle.borrow_mut();
        let Idle { limit, connections } = idle.get_mut(&server.id())?;
        while let Some(connection) = connections.pop() {
            if is_fit(&connection, *limit, now) {
                return Some(connection);
            }
        }
        None
    }

    /// Keeps a connection whose request has been answered. True: [`Pools::sweep`] is to be called from now on, until it says that
    /// nothing is left.
    #[must_use]
    pub fn put(
        &self,
        server: &Server,
        options: &UpstreamOptions,
        mut connection: Connection,
        now: Millis,
    ) -> bool {
        let mut idle = self.idle.borrow_mut();
        let kept = idle.entry(server.id()).or_insert_with(|| Idle {
            limit: 0,
            connections: Vec::new(),
        });
        kept.limit = millis(options.keepalive_timeout);
        if kept.connections.len() >= options.keepalive || kept.limit == 0 {
            return false;
        }
        connection.rest(now);
        kept.connections.push(connection);
        !self.is_swept.replace(true)
    }

    /// Closes what has waited too long, and what the server has closed; whether anything is left.
    pub fn sweep(&self, now: Millis) -> bool {
        let mut idle = self.idle.borrow_mut();
        idle.retain(|_, Idle { limit, connections }| {
            connections.retain(|connection| is_fit(connection, *limit, now));
            !connections.is_empty()
        });
        self.is_swept.set(!idle.is_empty());
        !idle.is_empty()
    }

    /// Closes those to servers that are not `used` any more.
    pub fn keep_only(&self, used: impl Fn(u64) -> bool) {
        self.idle.borrow_mut().retain(|server, _| used(*server));
    }

    /// Connections that wait.
    pub fn len(&self) -> usize {
        let idle = self.idle.borrow();
        idle.values().map(|idle| idle.connections.len()).sum()
    }

    /// Whether none do.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn is_fit(connection: &Connection, limit: Millis, now: Millis) -> bool {
    now.saturating_sub(connection.idle_since) < limit && connection.seems_at_rest()
}
