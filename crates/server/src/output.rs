//! Bytes on their way out, and why they may not get there.

/// Why a connection cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    /// The client closed it, or it broke.
    Closed,
    /// The client did not send or take anything for too long.
    TimedOut,
}

/// Bytes that have gone out are kept in front of those that have not, up to this many.
const SENT_BYTES: usize = 64 * 1024;

/// Bytes on their way out.
#[derive(Debug, Default)]
pub(crate) struct Output {
    pub(crate) bytes: Vec<u8>,
    sent: usize,
}

impl Output {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, sent: 0 }
    }

    /// What has not been sent.
    pub(crate) fn pending(&self) -> &[u8] {
        self.bytes.get(self.sent..).unwrap_or_default()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sent >= self.bytes.len()
    }

    /// Takes back what has not been sent.
    pub(crate) fn discard(&mut self) {
        self.bytes.clear();
        self.sent = 0;
    }

    /// `n` more bytes have gone out; an empty buffer starts anew.
    pub(crate) fn advance(&mut self, n: usize) {
        self.sent += n;
        if self.is_empty() {
            self.bytes.clear();
            self.sent = 0;
        } else if self.sent >= SENT_BYTES && self.sent >= self.bytes.len() / 2 {
            // For a client that never takes all, what has gone out must not pile up. Each byte is moved once at most.
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
    }
}
