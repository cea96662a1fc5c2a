//! Counts a client's connection: accepted, idle or active, and ended.
//!
//! Owned by its task ([`connection_task`](crate::connection::connection_task), or HTTP/3's). Must never: count twice, or not at all,
//! however it ends.

use std::cell::Cell;
use std::rc::Rc;

use tutti_conn::clock::now_millis;

use crate::exchange::client::ClientSide;
use crate::local::Local;

/// A connection in the counters of its thread, until this is dropped.
pub(crate) struct Counted {
    local: Rc<Local>,
    is_idle: Cell<bool>,
}

impl Counted {
    /// For a connection that is counted as open already.
    pub(crate) fn new(local: &Rc<Local>) -> Self {
        Self {
            local: Rc::clone(local),
            is_idle: Cell::new(false),
        }
    }

    /// Notes whether it has a request.
    pub(crate) fn set_active(&self, is_active: bool) {
        match (is_active, self.is_idle.replace(!is_active)) {
            (true, true) => self.local.counters().idle.subtract(1),
            (false, false) => self.local.counters().idle.add(1),
            _ => {}
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.set_active(true);
        self.local.connection_ended();
    }
}

/// A connection with its own socket: HTTP/1, and HTTP/2 until it is split into streams.
pub(crate) struct TcpConnection {
    pub(crate) client: ClientSide,
    pub(crate) counted: Counted,
    /// Bytes of a request have been read on it before.
    pub(crate) has_served: bool,
    /// It has been given a last moment for its first request.
    pub(crate) is_hurried: bool,
}

impl TcpConnection {
    /// Notes that it waits for a request.
    pub(crate) fn set_idle(&self) {
        self.counted.set_active(false);
        let timeouts = self.client.local.timeouts(&self.client.listener);
        // Until its first request, a connection counts as reading a head.
        let timeout = match self.has_served {
            true => timeouts.idle,
            false => timeouts.header_read,
        };
        self.client
            .set_deadline(now_millis().saturating_add(timeout));
    }
}
