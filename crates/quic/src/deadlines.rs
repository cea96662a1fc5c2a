//! The deadlines of a connection, and its orderly end.

use quinn_proto::{ConnectionError, StreamId};
use tutti_conn::clock::Millis;
use tutti_conn::connections::NEVER;
use tutti_http::http3::frame::{FrameHead, GOAWAY};
use tutti_http::http3::{Code, varint};

use crate::driver::{Coming, Driver, Leaving};
use crate::ports::ASK_AFTER;
use crate::server::QuicConnection;

/// Maximum time for a client without requests to close the connection after the last GOAWAY.
const FAREWELL: Millis = 5_000;

/// Time after the first GOAWAY in which requests are still accepted: the client needs it to receive the frame (RFC 9114 §5.2).
const HEARING: Millis = 300;

impl<C: QuicConnection> Driver<C> {
    /// Sends GOAWAY if the connection is to end: first an announcement, then the number from which requests are not accepted.
    pub(crate) fn leave_if_due(&mut self, now: Millis) {
        if self.own_control.is_none() || self.quic.has_ended.get() {
            return;
        }
        match self.leaving {
            Leaving::No if self.connection.is_ending() || self.quic.is_worn_out() => {
                self.leave(now);
            }
            Leaving::Announced(since) if since.saturating_add(HEARING) <= now => {
                self.leaving = Leaving::From(self.next);
                self.send_goaway(self.next);
                self.quic.idle_since.set(None);
            }
            _ => {}
        }
    }

    fn leave(&mut self, now: Millis) {
        self.leaving = Leaving::Announced(now);
        // The largest number of a request (RFC 9114 §5.2).
        self.send_goaway(varint::LARGEST - 3);
    }

    fn send_goaway(&mut self, first: u64) {
        let mut payload = Vec::new();
        varint::write(first, &mut payload);
        let length = payload.len() as u64;
        FrameHead {
            kind: GOAWAY,
            length,
        }
        .write(&mut self.held);
        self.held.extend_from_slice(&payload);
        self.quic.wake();
    }

    /// Called when nothing moves: checks the deadlines and sets the next one.
    pub(crate) fn check_deadlines(&mut self, now: Millis) {
        let mut deadline = NEVER;
        if !self.is_connected {
            let limit = self.opened.saturating_add(self.timeouts.head);
            if limit <= now {
                self.quic
                    .close(Code::NO_ERROR, "the handshake takes too long");
                return self.lost(&ConnectionError::TimedOut);
            }
            return self.connection.set_deadline(limit);
        }
        if let Leaving::Announced(since) = self.leaving {
            deadline = deadline.min(since.saturating_add(HEARING));
        }
        deadline = deadline.min(self.check_heads(now));
        if self.quic.open.get() > 0 || !self.coming.is_empty() {
            self.quic.idle_since.set(None);
            self.connection.set_active(true);
            deadline = deadline.min(self.ask(now));
        } else {
            deadline = deadline.min(self.check_idleness(now));
        }
        self.connection.set_deadline(deadline);
    }

    /// Gives up requests whose heads do not arrive in time. Returns when the next check is due.
    fn check_heads(&mut self, now: Millis) -> Millis {
        let patience = self.timeouts.head;
        let due = |coming: &Coming| coming.since.saturating_add(patience);
        let late = self.coming.iter().filter(|(_, coming)| due(coming) <= now);
        let late: Vec<StreamId> = late.map(|(id, _)| *id).collect();
        for id in late {
            self.coming.remove(&id);
            self.quic.give_up(id, Code::REQUEST_INCOMPLETE);
        }
        self.coming.values().map(due).min().unwrap_or(NEVER)
    }

    /// Pings a client with open requests at intervals. Returns when the next ping is due.
    fn ask(&mut self, now: Millis) -> Millis {
        let pause = ASK_AFTER.as_millis() as Millis;
        if self.asked.saturating_add(pause) <= now {
            self.asked = now;
            self.quic.state.borrow_mut().ping();
            self.quic.wake();
        }
        self.asked.saturating_add(pause)
    }

    /// Closes a connection that was idle for too long. Returns when the next check is due.
    fn check_idleness(&mut self, now: Millis) -> Millis {
        let patience = match self.leaving {
            Leaving::No => self.timeouts.idle,
            Leaving::Announced(_) => NEVER,
            Leaving::From(_) if self.connection.drains_gently() => FAREWELL,
            Leaving::From(_) => 0,
        };
        let patience = match self.has_all_arrived() {
            true => patience,
            // The end of a response may still be in transit long after its request is done.
            false => patience.max(self.timeouts.idle),
        };
        let since = self.quic.idle_since.get().unwrap_or(now);
        self.quic.idle_since.set(Some(since));
        let limit = since.saturating_add(patience);
        if limit <= now {
            match self.leaving {
                Leaving::No => self.leave(now),
                _ => self.quic.close(Code::NO_ERROR, ""),
            }
            return NEVER;
        }
        self.connection.set_active(false);
        limit
    }

    /// True if the client has acknowledged all responses to their ends.
    fn has_all_arrived(&self) -> bool {
        let control = usize::from(self.own_control.is_some());
        self.quic.state.borrow_mut().streams().send_streams() <= control
    }
}
