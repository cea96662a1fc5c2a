//! The state of one stream that the connection's task and the stream's own share.

use std::task::Waker;

use tutti_http::{Priority, Trailers};

use crate::windows::{ReceiveWindow, SendWindow};

/// The state of a stream, while its exchange is in progress.
#[derive(Debug)]
pub(crate) struct StreamState {
    pub(crate) window: SendWindow,
    pub(crate) priority: Priority,
    /// Bytes sent since it last waited for its turn.
    pub(crate) turn: usize,
    /// The request's body; `None` if it has none.
    pub(crate) upload: Option<Box<Upload>>,
    /// The client has sent everything.
    pub(crate) has_received_end: bool,
    /// Everything has been sent.
    pub(crate) has_sent_end: bool,
    /// Either side has reset it, or the connection has ended.
    pub(crate) is_reset: bool,
    /// The server has reset it: frames of the client may be on their way.
    pub(crate) is_reset_here: bool,
    /// It counts as open (RFC 9113 §5.1.2).
    pub(crate) is_counted: bool,
    /// Wakes the task that reads, that waits for this stream's window, and that waits for a reset.
    pub(crate) reader: Option<Waker>,
    pub(crate) writer: Option<Waker>,
    pub(crate) watcher: Option<Waker>,
}

/// The body of a request.
#[derive(Debug)]
pub(crate) struct Upload {
    pub(crate) window: ReceiveWindow,
    /// The declared length.
    pub(crate) declared: Option<u64>,
    /// Bytes that have arrived.
    pub(crate) arrived: u64,
    /// Bytes that have arrived; those before `read` have been read.
    pub(crate) data: Vec<u8>,
    pub(crate) read: usize,
    pub(crate) trailers: Trailers,
}

/// Read bytes are kept in front of the others up to this many.
const READ_BYTES: usize = 16 * 1024;

impl Upload {
    /// Unread bytes.
    pub(crate) fn unread(&self) -> usize {
        self.data.len() - self.read
    }

    /// Moves unread bytes into the spare capacity of `buffer`; returns their number.
    pub(crate) fn read(&mut self, buffer: &mut Vec<u8>) -> usize {
        let room = buffer.capacity() - buffer.len();
        let count = self.unread().min(room);
        let unread = self.data.get(self.read..).unwrap_or_default();
        buffer.extend_from_slice(unread.get(..count).unwrap_or_default());
        self.read += count;
        if self.read == self.data.len() {
            self.data.clear();
            self.read = 0;
        } else if self.read >= READ_BYTES && self.read >= self.data.len() / 2 {
            self.data.drain(..self.read);
            self.read = 0;
        }
        count
    }
}

impl StreamState {
    pub(crate) fn new(window: SendWindow, priority: Priority, upload: Option<Box<Upload>>) -> Self {
        Self {
            window,
            priority,
            turn: 0,
            has_received_end: upload.is_none(),
            upload,
            has_sent_end: false,
            is_reset: false,
            is_reset_here: false,
            is_counted: true,
            reader: None,
            writer: None,
            watcher: None,
        }
    }

    /// True when it is no longer open in the sense of RFC 9113 §5.1.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_reset || self.has_sent_end && self.has_received_end
    }

    /// Wakes all tasks that wait for something of it.
    pub(crate) fn wake_all(&mut self) {
        for waker in [&mut self.reader, &mut self.writer, &mut self.watcher] {
            if let Some(waker) = waker.take() {
                waker.wake();
            }
        }
    }
}

/// Keeps a waker, unless the same is kept already.
pub(crate) fn keep(place: &mut Option<Waker>, waker: &Waker) {
    if !place.as_ref().is_some_and(|kept| kept.will_wake(waker)) {
        *place = Some(waker.clone());
    }
}
