//! Limits the work that a client may cause without requesting anything: a token bucket that such frames empty, and that time and the bytes
//! sent to the client fill. Used for HTTP/2 and HTTP/3.

/// Milliseconds of the caller's clock, which never goes back.
pub(crate) type Millis = u64;

/// Useless frames that may come at once. A page of a hundred files costs a client some dozens of them.
const BURST: i64 = 10_000;

/// Further useless frames that may come each millisecond.
const PER_MILLISECOND: i64 = 1;

/// The cost of one reset stream: five hundred at once, fifty a second. When a page is left, a browser resets its open streams, a hundred at
/// most.
const RESET_COST: i64 = 20;

/// Streams that a client may reset on one connection. Spread over time they do not count as a flood, although each may have cost an
/// upstream a request. A client that has reset this many must open another connection, which costs it more than the server.
const MOST_RESETS: u32 = 500;

/// One or two WINDOW_UPDATE frames are expected for this many bytes: the smallest window, halved repeatedly by eager clients.
const BYTES_PER_FRAME: u64 = 1024;

/// The client has exceeded its allowance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flood;

/// The bucket of one connection.
#[derive(Debug)]
pub struct Allowance {
    left: i64,
    filled: Millis,
    /// Bytes sent that have not been counted as frames.
    sent: u64,
    /// Streams that the client has reset.
    resets: u32,
}

impl Allowance {
    /// A full bucket.
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

    /// Counts the bytes that were sent to the client.
    pub fn sent(&mut self, bytes: usize) {
        self.sent = self.sent.saturating_add(bytes as u64);
        let frames = self.sent / BYTES_PER_FRAME;
        self.sent %= BYTES_PER_FRAME;
        self.fill(i64::try_from(frames).unwrap_or(BURST));
    }

    /// Advances the time.
    pub fn pass(&mut self, now: Millis) {
        let passed = i64::try_from(now.saturating_sub(self.filled)).unwrap_or(BURST);
        self.fill(passed.saturating_mul(PER_MILLISECOND));
        self.filled = now;
    }

    /// Notes an action of the client with this cost.
    pub fn spend(&mut self, cost: i64) -> Result<(), Flood> {
        self.left = self.left.saturating_sub(cost);
        if self.left < 0 { Err(Flood) } else { Ok(()) }
    }

    /// Notes that the client has reset a stream.
    pub fn reset(&mut self) -> Result<(), Flood> {
        self.resets = self.resets.saturating_add(1);
        self.spend(RESET_COST)
    }

    /// True if the client has reset as many streams as it may on one connection, which then ends in an orderly way.
    pub fn is_worn_out(&self) -> bool {
        self.resets >= MOST_RESETS
    }

    fn fill(&mut self, frames: i64) {
        self.left = self.left.saturating_add(frames).min(BURST);
    }
}
