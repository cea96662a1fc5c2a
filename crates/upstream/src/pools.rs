//! Connections that wait for their next request: those of one thread.
//!
//! The one used last is used first, so that under less load the others become old and are closed. A connection on which something
//! has happened meanwhile is not used.
//!
//! Some servers have a worker for each connection, and as many connections as workers (PHP-FPM): there, one that is kept keeps a worker
//! from whoever else has connected. So while requests wait on connections opened for them, no connection to such a server is kept, and
//! idle ones are closed at the next [`Pools::sweep`], which comes soon.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;
use tutti_config::model::UpstreamOptions;

use crate::connection::Connection;
use crate::server::Server;
use crate::{Millis, millis};

/// How often idle connections are looked at.
const SWEEP: Duration = Duration::from_millis(500);

/// The same, while there are some that others may wait for.
const SOON: Duration = Duration::from_millis(20);

/// Idle connections of a thread, by server.
#[derive(Debug, Default)]
pub struct Pools {
    idle: RefCell<FxHashMap<u64, Idle>>,
    /// Somebody calls [`Pools::sweep`].
    is_swept: Cell<bool>,
}

#[derive(Debug)]
struct Idle {
    /// Of a server with a worker for each connection.
    shared: Option<Arc<Server>>,
    /// How long they may wait.
    limit: Millis,
    /// The one used last at the end.
    connections: Vec<Connection>,
}

impl Pools {
    /// A connection to this server on which nothing has happened since its last request.
    pub fn take(&self, server: &Server, now: Millis) -> Option<Connection> {
        let mut idle = self.idle.borrow_mut();
        let Idle {
            limit, connections, ..
        } = idle.get_mut(&server.id())?;
        while let Some(mut connection) = connections.pop() {
            if is_fit(&mut connection, *limit, now) {
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
        server: &Arc<Server>,
        (options, has_workers): (&UpstreamOptions, bool),
        mut connection: Connection,
        now: Millis,
    ) -> bool {
        let mut idle = self.idle.borrow_mut();
        let kept = idle.entry(server.id()).or_insert_with(|| Idle {
            shared: None,
            limit: 0,
            connections: Vec::new(),
        });
        kept.limit = millis(options.keepalive_timeout);
        if kept.connections.len() >= options.keepalive || kept.limit == 0 {
            return false;
        }
        if has_workers && server.is_waited_for() {
            return false;
        }
        connection.rest(now);
        kept.shared = has_workers.then(|| Arc::clone(server));
        kept.connections.push(connection);
        !self.is_swept.replace(true)
    }

    /// Closes what has waited too long, what the server has closed, and what others wait for; when to look again, if anything is left.
    pub fn sweep(&self, now: Millis) -> Option<Duration> {
        let mut idle = self.idle.borrow_mut();
        let mut next = SWEEP;
        idle.retain(|_, kept| {
            let is_shared = kept.shared.is_some();
            if kept
                .shared
                .as_ref()
                .is_some_and(|server| server.is_waited_for())
            {
                kept.connections.clear();
            }
            let limit = kept.limit;
            kept.connections
                .retain_mut(|connection| is_fit(connection, limit, now));
            let is_left = !kept.connections.is_empty();
            if is_left && is_shared {
                next = SOON;
            }
            is_left
        });
        self.is_swept.set(!idle.is_empty());
        (!idle.is_empty()).then_some(next)
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

fn is_fit(connection: &mut Connection, limit: Millis, now: Millis) -> bool {
    now.saturating_sub(connection.idle_since) < limit && connection.seems_at_rest()
}
