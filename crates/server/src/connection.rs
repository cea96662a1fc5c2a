//! One connection: a small task that waits for requests and answers at once what can be answered at once.
//!
//! While it waits, a connection is this struct, a slab entry and a kernel socket: no buffer, no timer of its own. When bytes come,
//! a buffer is taken from the thread, read into, and every complete request in it is answered into one output buffer, which goes
//! out in one write. Whatever cannot be finished like that (a head or body still to come, a large file, an application, a full
//! socket) moves into [`exchange`](crate::exchange), a future in a box that lives until the connection is idle again.

use std::cell::{Cell, OnceCell};
use std::future::poll_fn;
use std::hash::BuildHasher;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use rustix::net::SendFlags;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tutti_http::{HeadError, Progress, RequestHead};

use crate::clock::{Millis, now_millis};
use crate::exchange;
use crate::listen::{Accepted, Listener, Peer, inet};
use crate::request::{Request, Step};
use crate::respond::{self, Page, Persistence};
use crate::sender::{self, Gone, Output, Received, poll_receive};
use crate::snapshot::Snapshot;
use crate::thread::Local;

/// With more than this to send, pipelined requests wait: a client that does not read its answers must not make us keep them.
const OUTPUT_BYTES: usize = 64 * 1024;

/// A connection and its place in the thread.
pub(crate) struct Connection {
    pub(crate) io: AsyncFd<OwnedFd>,
    pub(crate) local: Rc<Local>,
    pub(crate) listener: Arc<Listener>,
    pub(crate) peer: Peer,
    /// When the head of the current request was complete.
    pub(crate) arrived: Cell<Instant>,
    /// Number of the current request on this thread.
    serial: Cell<u64>,
    /// Where the connection came to, asked of the kernel at most once; only for listeners on any address.
    local_address: OnceCell<SocketAddr>,
    key: usize,
    /// Counted as idle.
    is_idle: bool,
    /// A request has been read on it before.
    has_served: bool,
}

/// What is left to do for requests that could not be finished at once.
pub(crate) struct Work {
    pub(crate) snapshot: Arc<Snapshot>,
    /// Bytes read; those before `position` are done with.
    pub(crate) input: Vec<u8>,
    pub(crate) position: usize,
    /// The head being read or acted on, over `input[position..]`.
    pub(crate) head: Box<RequestHead>,
    pub(crate) output: Output,
    pub(crate) step: Step,
}

/// How a round of requests ended.
pub(crate) enum Ending {
    /// All answered; the connection waits for the next request.
    Idle,
    /// Close it now.
    Close,
    /// An answer has been sent that the client may not have read while it still sends: read on for a while, then close.
    Linger,
}

/// Starts the task of a connection.
pub(crate) fn spawn(local: Rc<Local>, accepted: Accepted) {
    tokio::task::spawn_local(run(local, accepted));
}

async fn run(local: Rc<Local>, accepted: Accepted) {
    let waker = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
    let io = match sender::watch(accepted.socket, Interest::READABLE | Interest::WRITABLE) {
        Ok(io) => io,
        Err(error) => {
            local.log(
                tutti_pool::Level::Alert,
                &format!("cannot watch a connection: {error}"),
            );
            local.connection_ended();
            return;
        }
    };
    let key = local.connections.insert(waker);
    let (listener, peer) = (accepted.listener, accepted.peer);
    let mut connection = Connection {
        io,
        local,
        listener,
        peer,
        arrived: Cell::new(Instant::now()),
        serial: Cell::new(0),
        local_address: OnceCell::new(),
        key,
        is_idle: false,
        has_served: false,
    };
    connection.set_idle();
    loop {
        let ending = match poll_fn(|cx| connection.poll_requests(cx)).await {
            Ok(mut work) => {
                // In a box, so that an idle connection does not pay for it.
                let ending = Box::pin(exchange::run(&connection, &mut work)).await;
                work.give_back(&connection.local);
                ending
            }
            Err(ending) => ending,
        };
        match ending {
            Ending::Idle => connection.set_idle(),
            Ending::Close => return,
            Ending::Linger => {
                Box::pin(exchange::linger(&connection)).await;
                return;
            }
        }
    }
}

impl Connection {
    pub(crate) fn set_deadline(&self, deadline: Millis) {
        self.local.connections.set_deadline(self.key, deadline);
    }

    /// Whether it must end with the current request.
    pub(crate) fn is_ending(&self) -> bool {
        self.listener.is_closing() || self.local.draining.get()
    }

    /// The address the client connected to.
    pub(crate) fn local_address(&self) -> Option<SocketAddr> {
        if let Some(address) = self.listener.local {
            return Some(address);
        }
        if !self.listener.is_inet() {
            return None;
        }
        if self.local_address.get().is_none() {
            let address = rustix::net::getsockname(self.io.get_ref())
                .ok()
                .and_then(inet)?;
            let _ = self.local_address.set(address);
        }
        self.local_address.get().copied()
    }

    /// A number that no other request has and nobody can guess, the same at every call for one request.
    pub(crate) fn request_id(&self) -> u128 {
        let half = |salt: u8| {
            u128::from(
                self.local
                    .identity
                    .hash_one((self.local.thread, self.serial.get(), salt)),
            )
        };
        half(0) << 64 | half(1)
    }

    fn set_idle(&mut self) {
        if !self.is_idle {
            self.is_idle = true;
            self.local.counters().idle.add(1);
        }
        let snapshot = self.local.snapshot();
        // Until its first request a connection counts as reading a head.
        let timeout = if self.has_served {
            snapshot.timeouts.idle
        } else {
            snapshot.timeouts.header_read
        };
        self.set_deadline(now_millis().saturating_add(timeout));
    }

    fn set_active(&mut self) {
        if self.is_idle {
            self.is_idle = false;
            self.local.counters().idle.subtract(1);
        }
    }

    /// Waits for requests and answers them, until there is work that takes longer (`Ok`) or the connection ends (`Err`).
    fn poll_requests(&mut self, cx: &mut Context<'_>) -> Poll<Result<Box<Work>, Ending>> {
        loop {
            let mut input = self.local.buffers.take();
            let received = poll_receive(&self.io, &mut input, cx);
            match received {
                Poll::Ready(Ok(Received::Bytes(_))) => {}
                Poll::Ready(_) => {
                    self.local.buffers.give(input);
                    return Poll::Ready(Err(Ending::Close));
                }
                Poll::Pending => {
                    self.local.buffers.give(input);
                    return self.poll_idle();
                }
            }
            self.set_active();
            match self.answer(input) {
                Ok(None) => self.set_idle(),
                Ok(Some(work)) => return Poll::Ready(Ok(work)),
                Err(ending) => return Poll::Ready(Err(ending)),
            }
        }
    }

    /// Nothing came: has it waited too long, or is it to go?
    fn poll_idle(&mut self) -> Poll<Result<Box<Work>, Ending>> {
        if self.is_ending() {
            return Poll::Ready(Err(Ending::Close));
        }
        if self.local.connections.expired(self.key) {
            // Documented: "Unit returns a 408 response and closes the connection". One that never sent a byte is just closed.
            if self.has_served {
                let mut output = Output::default();
                self.refuse(&self.local.snapshot(), 408, &mut output);
                let _ = output.try_send(self.io.get_ref(), SendFlags::empty());
            }
            return Poll::Ready(Err(Ending::Close));
        }
        Poll::Pending
    }

    /// Answers the requests in `input`.
    fn answer(&mut self, input: Vec<u8>) -> Result<Option<Box<Work>>, Ending> {
        self.has_served = true;
        let snapshot = self.local.snapshot();
        let output = Output::new(self.local.buffers.take());
        let head = self.local.take_head();
        let step = Step::ReadHead { deadline: None };
        // On the stack until it turns out that it must live longer.
        let mut work = Work {
            snapshot,
            input,
            position: 0,
            head,
            output,
            step,
        };
        self.answer_complete(&mut work);
        let ending = match work.step {
            Step::ReadHead { .. } if work.position >= work.input.len() => Ending::Idle,
            Step::End(Persistence::Close) => Ending::Close,
            Step::Linger => Ending::Linger,
            _ => return Ok(Some(Box::new(work))),
        };
        match work.output.try_send(self.io.get_ref(), SendFlags::empty()) {
            Ok(true) => {}
            Ok(false) => return Ok(Some(Box::new(work))),
            Err(_) => return Err(Ending::Close),
        }
        work.give_back(&self.local);
        match ending {
            Ending::Idle => Ok(None),
            other => Err(other),
        }
    }

    /// Reads and answers complete requests from `work.input`, until one needs more than what is there.
    pub(crate) fn answer_complete(&self, work: &mut Work) {
        loop {
            let rest = work.input.get(work.position..).unwrap_or_default();
            match work.head.parse(rest, &work.snapshot.limits) {
                Ok(Progress::Incomplete) => {
                    work.step = Step::ReadHead { deadline: None };
                    return;
                }
                Ok(Progress::Complete { length }) => {
                    self.local.counters().requests.add(1);
                    self.arrived.set(Instant::now());
                    self.serial.set(self.local.next_serial());
                    let request = Request::new(self, &work.snapshot, work.head.view(rest));
                    match request.start(&mut work.output.bytes) {
                        Step::End(persistence) if persistence.is_open() => {
                            work.position += length;
                        }
                        step => {
                            work.step = step;
                            return;
                        }
                    }
                    if work.output.pending().len() > OUTPUT_BYTES {
                        work.step = Step::Flush;
                        return;
                    }
                }
                Err(error) => {
                    self.refuse_head(work, error);
                    return;
                }
            }
        }
    }

    /// Answers a malformed head; the connection ends.
    fn refuse_head(&self, work: &mut Work, error: HeadError) {
        self.refuse(&work.snapshot, error.status(), &mut work.output);
        work.step = Step::Linger;
    }

    /// Appends an error page that says `Connection: close`.
    pub(crate) fn refuse(&self, snapshot: &Snapshot, status: u16, output: &mut Output) {
        let page = Page {
            status,
            is_head: false,
            persistence: Persistence::Close,
            fields: b"",
        };
        respond::page(&mut output.bytes, &self.local, snapshot, &page);
    }
}

impl Work {
    /// The request whose head is in front of the input.
    pub(crate) fn request<'a>(&'a self, connection: &'a Connection) -> Request<'a> {
        let rest = self.input.get(self.position..).unwrap_or_default();
        Request::new(connection, &self.snapshot, self.head.view(rest))
    }

    /// That request, and where its response goes.
    pub(crate) fn parts<'a>(
        &'a mut self,
        connection: &'a Connection,
    ) -> (Request<'a>, &'a mut Output) {
        let rest = self.input.get(self.position..).unwrap_or_default();
        (
            Request::new(connection, &self.snapshot, self.head.view(rest)),
            &mut self.output,
        )
    }

    /// Gives the buffers back to the thread.
    pub(crate) fn give_back(self, local: &Local) {
        local.buffers.give(self.input);
        local.buffers.give(self.output.bytes);
        local.give_head(self.head);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.set_active();
        self.local.connections.remove(self.key);
        self.local.connection_ended();
    }
}

impl From<Gone> for Ending {
    fn from(_: Gone) -> Self {
        Ending::Close
    }
}
