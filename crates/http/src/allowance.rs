//! How much a client may make the server work without asking for anything: a bucket that such frames empty, and that time and the bytes
//! sent to the client fill. HTTP/2 and HTTP/3 have it.

/// Milliseconds of the caller's clock, which never goes back.
pub(crate) type Millis = u64;

/// Frames without use that may come at once. A page of a hundred files costs a client some dozens of them.
const BURST: i64 = 10_000;

/// How many more may come each millisecond.
const PER_MILLISECOND: i64 = 1;

/// The cost of one stream that a client gives up: five hundred at once, fifty a second. A browser resets what a page that is left had
/// asked for, a hundred streams at most.
const RESET_COST: i64 = 20;

/// Streams that a client may give up on one connection. Spaced in time they pass as a flood does not, and each may have cost an upstream a
/// request. A client that has given up so many opens another connection, which costs it more than it costs the server.
const MOST_RESETS: u32 = 500;

/// One WINDOW_UPDATE or two are due for so many bytes at most: the smallest window there is, halved again and again by eager clients.
const BYTES_PER_FRAME: u64 = 1024;

/// More than a client may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flood;

/// The bucket of one connection.
#[derive(Debug)]
pub struct Allowance {
    left: i64,
    filled: Millis,
    /// Bytes sent that have not been counted as frames.
    sent: u64,
    /// Streams that the client has given up.
    resets: u32,
}

impl Allowance {
    /// A full one.
    pub fn new(now: Millis) -> Self {
        Self {
            left: BURST,
            filled: now,
            sent: 0,
            resets: 0,
        }
    }

    #[cfg(test)]
    pub(crate) fn empty() -> Self {
        Self {
            left: 0,
            ..Self::new(0)
        }
    }

    /// So many bytes have gone to the client.
    pub fn sent(&mut self, bytes: usize) {
        self.sent = self.sent.saturating_add(bytes as u64);
        let frames = self.sent / BYTES_PER_FRAME;
        self.sent %= BYTES_PER_FRAME;
        self.fill(i64::try_from(frames).unwrap_or(BURST));
    }

    /// It is this late.
    pub fn pass(&mut self, now: Millis) {
        let passed = i64::try_from(now.saturating_sub(self.filled)).unwrap_or(BURST);
        self.fill(passed.saturating_mul(PER_MILLISECOND));
        self.filled = now;
    }

    /// The client has done something of this cost.
    pub fn spend(&mut self, cost: i64) -> Result<(), Flood> {
        self.left = self.left.saturating_sub(cost);
        if self.left < 0 { Err(Flood) } else { Ok(()) }
    }

    /// The client has given a stream up.
    pub fn reset(&mut self) -> Result<(), Flood> {
        self.resets = self.resets.saturating_add(1);
        self.spend(RESET_COST)
    }

    /// True if the client has given up as many streams as it may on one connection, which is to end in good order.
    pub fn is_worn_out(&self) -> bool {
        self.resets >= MOST_RESETS
    }

    fn fill(&mut self, frames: i64) {
        self.left = self.left.saturating_add(frames).min(BURST);
    }
}
