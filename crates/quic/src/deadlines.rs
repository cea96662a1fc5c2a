//! The deadlines of a connection, and its end in good order.

use quinn_proto::{ConnectionError, StreamId};
use tutti_conn::clock::Millis;
use tutti_conn::connections::NEVER;
use tutti_http::http3::frame::{FrameHead, GOAWAY};
use tutti_http::http3::{Code, varint};

use crate::driver::{Coming, Driver, Leaving};
use crate::ports::ASK_AFTER;
use crate::server::QuicConnection;

/// How long a client that has been told to go, and has nothing under way, may take to go.
const FAREWELL: Millis = 5_000;

/// How long a client may take to hear that it is to go: what it has sent until then is answered (RFC 9114 §5.2).
const HEARING: Millis = 300;

impl<C: QuicConnection> Driver<C> {
    /// Tells the client to go if the connection is to end: first that it is to, then from which request on it has to ask somebody else.
    pub(crate) fn leave_if_due(&mut self, now: Millis) {
        if self.own_control.is_none() || self.quic.has_ended.get() {
            return;
        }
        match self.leaving {
            Leaving::No if self.connection.is_ending() || self.quic.is_worn_out() => {
                self.leave(now);
            }
            Leaving::Told(since) if since.saturating_add(HEARING) <= now => {
                self.leaving = Leaving::From(self.next);
                self.say_goaway(self.next);
                self.quic.idle_since.set(None);
            }
            _ => {}
        }
    }

    fn leave(&mut self, now: Millis) {
        self.leaving = Leaving::Told(now);
        // The largest number of a request (RFC 9114 §5.2).
        self.say_goaway(varint::LARGEST - 3);
    }

    fn say_goaway(&mut self, first: u64) {
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

    /// Nothing moves: has it waited too long, and how long may it wait?
    pub(crate) fn mind_deadlines(&mut self, now: Millis) {
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
        if let Leaving::Told(since) = self.leaving {
            deadline = deadline.min(since.saturating_add(HEARING));
        }
        deadline = deadline.min(self.mind_heads(now));
        if self.quic.open.get() > 0 || !self.coming.is_empty() {
            self.quic.idle_since.set(None);
            self.connection.set_active(true);
            deadline = deadline.min(self.ask(now));
        } else {
            deadline = deadline.min(self.mind_idleness(now));
        }
        self.connection.set_deadline(deadline);
    }

    /// Gives up requests whose heads do not come; when the next is due.
    fn mind_heads(&mut self, now: Millis) -> Millis {
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

    /// Asks now and then a client that has a request under way whether it is there; when it is due again.
    fn ask(&mut self, now: Millis) -> Millis {
        let pause = ASK_AFTER.as_millis() as Millis;
        if self.asked.saturating_add(pause) <= now {
            self.asked = now;
            self.quic.state.borrow_mut().ping();
            self.quic.wake();
        }
        self.asked.saturating_add(pause)
    }

    /// Closes a connection that has had nothing to do for too long; when it is due.
    fn mind_idleness(&mut self, now: Millis) -> Millis {
        let patience = match self.leaving {
            Leaving::No => self.timeouts.idle,
            Leaving::Told(_) => NEVER,
            Leaving::From(_) if self.connection.drains_gently() => FAREWELL,
            Leaving::From(_) => 0,
        };
        let patience = match self.has_all_arrived() {
            true => patience,
            // The end of a response may be on its way long after its request is over.
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
