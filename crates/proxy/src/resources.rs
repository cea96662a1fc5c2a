//! The shared state of one thread's requests to upstreams: connections, scripts that were found, buffers.

use std::cell::RefCell;
use std::rc::Rc;

use tutti_conn::buffers::Buffers;
use tutti_http::ResponseHead;
use tutti_upstream::Pools;

use crate::scripts::ScriptCache;
use crate::sessions::Sessions;

/// The connections, caches and buffers of one thread.
pub struct Resources {
    /// Idle connections of HTTP/1 and CGI.
    pub(crate) pools: Pools,
    /// Connections of HTTP/2.
    pub(crate) sessions: Rc<Sessions>,
    pub(crate) scratches: Scratches,
    /// Recently found scripts of FastCGI applications.
    pub scripts: ScriptCache,
    pub(crate) buffers: Rc<Buffers>,
}

impl Resources {
    /// Uses the buffers of the thread.
    pub fn new(buffers: Rc<Buffers>) -> Self {
        Self {
            pools: Pools::default(),
            sessions: Rc::default(),
            scratches: Scratches::default(),
            scripts: ScriptCache::default(),
            buffers,
        }
    }

    /// Closes connections to servers that are not `used` any more. Requests in progress continue.
    pub fn keep_only(&self, used: impl Fn(u64) -> bool) {
        self.pools.keep_only(&used);
        self.sessions.keep_only(used);
    }
}

/// Sets of buffers kept per thread.
const KEPT: usize = 32;

/// A buffer that has grown beyond this is dropped instead of kept.
const KEPT_BYTES: usize = 128 * 1024;

/// The buffers of one request: taken when it begins, returned when it ends.
#[derive(Default)]
pub(crate) struct Scratch {
    /// The request to send.
    pub(crate) sent: Vec<u8>,
    /// The received part of the answer.
    pub(crate) received: Vec<u8>,
    /// The same before decoding, if it arrives in records.
    pub(crate) raw: Vec<u8>,
    pub(crate) head: ResponseHead,
}

/// Free sets; at most [`KEPT`].
#[derive(Default)]
#[expect(
    clippy::vec_box,
    reason = "a set is large, and moves between requests and this list"
)]
pub(crate) struct Scratches(RefCell<Vec<Box<Scratch>>>);

impl Scratches {
    pub(crate) fn take(&self) -> Box<Scratch> {
        self.0.borrow_mut().pop().unwrap_or_default()
    }

    pub(crate) fn give(&self, mut scratch: Box<Scratch>) {
        let mut kept = self.0.borrow_mut();
        if kept.len() >= KEPT {
            return;
        }
        let Scratch {
            sent,
            received,
            raw,
            ..
        } = &mut *scratch;
        for buffer in [sent, received, raw] {
            buffer.clear();
            if buffer.capacity() > KEPT_BYTES {
                *buffer = Vec::new();
            }
        }
        kept.push(scratch);
    }
}
