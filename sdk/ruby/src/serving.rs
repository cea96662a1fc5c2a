//! A thread that serves, as the C part sees it: its place, and the request it has.

use std::ffi::CString;

use tutti_seam::{Memory, RawRequest, functions};
use tutti_worker::{Exchange, Served, Thread, UnstartedThread};

use crate::response::Body;

/// A thread with the request that it serves.
#[derive(Debug)]
pub(crate) struct Serving {
    thread: Thread,
    memory: Memory,
    request: Option<RawRequest>,
    pub(crate) exchange: Option<Exchange>,
    /// The file that is the body of its answer.
    pub(crate) body: Option<Body>,
    /// The reason why the head could not be sent: the C part reads it.
    pub(crate) fault: CString,
}

impl functions::Serving for Serving {
    fn exchange(&mut self) -> Option<&mut Exchange> {
        self.exchange.as_mut()
    }
}

impl Serving {
    pub(crate) fn begin(place: UnstartedThread) -> Self {
        Self {
            thread: place.begin(),
            memory: Memory::default(),
            request: None,
            exchange: None,
            body: None,
            fault: CString::default(),
        }
    }

    /// Waits for the next request. `None`: leave.
    pub(crate) fn next(&mut self) -> Option<&RawRequest> {
        let exchange = self.exchange.insert(self.thread.next_request()?);
        Some(self.request.insert(self.memory.describe(exchange)))
    }

    /// Ends the request.
    pub(crate) fn done(&mut self, then: Served) {
        self.request = None;
        self.body = None;
        if let Some(exchange) = self.exchange.take() {
            self.thread.done(exchange, then);
        }
    }
}
