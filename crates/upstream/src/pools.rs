//! The idle connections of one thread.
//!
//! The most recently used one is reused first, so that under less load the others expire and are closed. A connection on which bytes have
//! arrived meanwhile is not reused.
//!
//! For servers with one worker per connection, some are closed for waiting requests: see [`contention`](crate::contention). Idle ones are
//! closed for them at the next [`Pools::sweep`], which comes soon. Where the number of connections is limited (`max_connections`), one is
//! closed when its slot goes to another thread.
//!
//! Must never: keep anything of a server that has neither a request nor an idle connection.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustc_hash::FxHashMap;
use tutti_config::model::UpstreamOptions;

use crate::connection::UpstreamConnection;
use crate::contention::{InFlight, ThreadQueue, ThreadQueues};
use crate::queue::QueueEntry;
use crate::server::GroupServer;
use crate::{Millis, micros, millis};

/// Interval between checks of idle connections.
const SWEEP: Duration = Duration::from_millis(500);

/// The same, while there are some that others may wait for.
const SOON: Duration = Duration::from_millis(20);

/// The idle connections of a thread, by server.
#[derive(Debug, Default)]
pub struct Pools {
    idle: RefCell<FxHashMap<u64, Idle>>,
    /// For servers with one worker per connection.
    queues: Rc<ThreadQueues>,
    /// Some task calls [`Pools::sweep`].
    is_swept: Cell<bool>,
}

#[derive(Debug)]
struct Idle {
    /// The state of a server with one worker per connection.
    shared: Option<Arc<GroupServer>>,
    /// The time that they may be idle.
    limit: Millis,
    /// The most recently used last.
    connections: Vec<UpstreamConnection>,
}

impl Pools {
    /// Returns a connection to this server on which no bytes have arrived since its last request, unless others wait for one.
    pub fn take(&self, server: &GroupServer, now: Millis) -> Option<UpstreamConnection> {
        let queue = self.queues.of(server.id());
        if queue.is_some_and(|queue| queue.waiting.length() > 0) {
            return None;
        }
        self.take_idle(server, now)
    }

    fn take_idle(&self, server: &GroupServer, now: Millis) -> Option<UpstreamConnection> {
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

    /// Keeps a connection whose request has been answered. True: [`Pools::sweep`] must be called from now on, until it reports that none is
    /// left.
    #[must_use]
    pub fn put(
        &self,
        server: &Arc<GroupServer>,
        (options, has_workers): (&UpstreamOptions, bool),
        mut connection: UpstreamConnection,
        now: Millis,
    ) -> bool {
        let mut idle = self.idle.borrow_mut();
        let limit = millis(options.keepalive_timeout);
        let count = idle.get_mut(&server.id()).map_or(0, |kept| {
            kept.limit = limit;
            kept.connections.len()
        });
        if count >= options.keepalive || limit == 0 {
            return false;
        }
        connection.rest(now);
        let age = now.saturating_sub(connection.kept_since);
        if has_workers
            && (server.is_next_elsewhere() || server.contention().must_make_room(age, now, micros))
        {
            return false;
        }
        let kept = idle.entry(server.id()).or_insert_with(|| Idle {
            shared: None,
            limit,
            connections: Vec::new(),
        });
        kept.shared = has_workers.then(|| Arc::clone(server));
        kept.connections.push(connection);
        if let Some(queue) = self.queues.of(server.id()) {
            queue.waiting.wake_next();
        }
        !self.is_swept.replace(true)
    }

    /// Notes a request to a server with one worker per connection. Keep the result until the request has been answered.
    pub fn begin(&self, server: &GroupServer) -> InFlight {
        InFlight::new(&self.queues, server.id())
    }

    /// The queue in which a request to such a server waits instead of opening a connection; `None` if it should not wait.
    pub fn thread_queue(&self, server: &GroupServer, now: Millis) -> Option<Rc<ThreadQueue>> {
        let contention = server.contention();
        if !contention.is_full() {
            return None;
        }
        let queue = self.queues.of(server.id())?;
        (queue.served.get() > 0 && !contention.may_probe(now)).then_some(queue)
    }

    /// Waits there for a connection; `None`: there will be none.
    pub fn poll_take(
        &self,
        (queue, place): (&ThreadQueue, &QueueEntry<'_>),
        server: &GroupServer,
        now: Millis,
        context: &Context<'_>,
    ) -> Poll<Option<UpstreamConnection>> {
        if !place.may_try(context) {
            return Poll::Pending;
        }
        match self.take_idle(server, now) {
            None if queue.served.get() > 0 => Poll::Pending,
            taken => Poll::Ready(taken),
        }
    }

    /// Closes connections that were idle too long, that the server has closed, and that others wait for. Returns when to call it again, if
    /// any is left.
    pub fn sweep(&self, now: Millis) -> Option<Duration> {
        let mut idle = self.idle.borrow_mut();
        let mut next = SWEEP;
        idle.retain(|_, kept| {
            let limit = kept.limit;
            let shared = kept.shared.as_ref();
            kept.connections.retain_mut(|connection| {
                let rested = now.saturating_sub(connection.idle_since);
                let must_go =
                    || shared.is_some_and(|server| server.contention().is_left(rested, now));
                is_fit(connection, limit, now) && !must_go()
            });
            let is_left = !kept.connections.is_empty();
            if is_left && shared.is_some() {
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
        self.queues.prune();
    }

    /// Number of idle connections.
    pub fn len(&self) -> usize {
        let idle = self.idle.borrow();
        idle.values().map(|idle| idle.connections.len()).sum()
    }

    /// True if none do.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn is_fit(connection: &mut UpstreamConnection, limit: Millis, now: Millis) -> bool {
    now.saturating_sub(connection.idle_since) < limit && connection.seems_at_rest()
}
