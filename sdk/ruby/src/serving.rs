//! A thread that serves, as the C part sees it: its place, and the request it has.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;

use tutti_seam::taken_over::take_over;
use tutti_seam::{Memory, RawRequest, functions};
use tutti_worker::{Exchange, Served, Thread, UnstartedThread};

use crate::response::Body;

/// The place of a thread that has not begun.
#[derive(Debug)]
pub(crate) struct ThreadSlot {
    pub(crate) thread: UnstartedThread,
    /// Most connections that its application may have taken over.
    pub(crate) most_taken_over: u32,
}

/// A thread with the request that it serves.
#[derive(Debug)]
pub(crate) struct Serving {
    thread: Thread,
    most_taken_over: u32,
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
    pub(crate) fn begin(place: ThreadSlot) -> Self {
        Self {
            thread: place.thread.begin(),
            most_taken_over: place.most_taken_over,
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

    /// True if the application may take over another connection.
    pub(crate) fn may_take_over(&self) -> bool {
        self.exchange.is_some() && self.thread.detached() < self.most_taken_over
    }

    /// Gives the application the connection of the request, which has ended for this thread then: the application's end of it.
    ///
    /// # Errors
    /// When there is no descriptor for it, or no thread. The request is given up then.
    pub(crate) fn take_over(&mut self) -> io::Result<OwnedFd> {
        self.request = None;
        self.body = None;
        let exchange = self.exchange.take().ok_or(io::ErrorKind::NotFound)?;
        take_over(self.thread.detach(exchange, Served::Again))
    }

    /// Ends the request.
    pub(crate) fn done(&mut self, then: Served) {
        self.request = None;
        self.body = None;
        if let Some(exchange) = self.exchange.take() {
            self.thread.done(exchange, then);
        } else if then == Served::Recycle {
            self.thread.leave();
        }
    }
}
