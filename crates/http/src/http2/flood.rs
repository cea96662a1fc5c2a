//! Limits the work that a client may cause without requesting anything.
//!
//! PING and SETTINGS must be answered, a WINDOW_UPDATE processed, a stream that is opened only to be reset must be set up and torn down
//! (CVE-2023-44487); each costs the client next to nothing. This bounds their number: a token bucket that
//! such frames empty, and that time and the bytes sent to the client fill. Only the heads of frames are inspected.
//!
//! It also records whether a request's head is incomplete, which must not take longer than in HTTP/1.
//!
//! Must never: fail a client that merely downloads fast, or occasionally cancels requests.

use super::frame::{CONTINUATION, DATA, END_HEADERS, END_STREAM, FrameHead, HEADERS, RST_STREAM};
use crate::allowance::{Allowance, Flood, Millis};

/// The inspection of one client's frames.
#[derive(Debug)]
pub struct FloodGauge {
    allowance: Allowance,
    /// When the incomplete head began.
    head_since: Option<Millis>,
}

impl FloodGauge {
    /// For a new connection.
    pub fn new(now: Millis) -> Self {
        Self {
            allowance: Allowance::new(now),
            head_since: None,
        }
    }

    /// True if the client has reset as many streams as it may on one connection.
    pub fn is_worn_out(&self) -> bool {
        self.allowance.is_worn_out()
    }

    /// When the incomplete head began.
    pub fn head_since(&self) -> Option<Millis> {
        self.head_since
    }

    /// Counts the bytes that were sent to the client.
    pub fn sent(&mut self, bytes: usize) {
        self.allowance.sent(bytes);
    }

    /// Advances the time, when bytes have arrived.
    pub fn pass(&mut self, now: Millis) {
        self.allowance.pass(now);
    }

    /// Notes that a stream was reset because of an error of the client, which costs as much as if the client had reset it: otherwise a
    /// client could have the server do the same work without a limit (CVE-2025-8671).
    pub fn note_error(&mut self) -> Result<(), Flood> {
        self.allowance.reset()
    }

    /// Notes that a head has begun and has not ended.
    pub fn note_incomplete_head(&mut self, now: Millis) {
        self.head_since.get_or_insert(now);
    }

    /// Inspects the head of a frame that has arrived.
    pub fn frame(&mut self, head: FrameHead) -> Result<(), Flood> {
        let cost = match head.kind {
            HEADERS | CONTINUATION => {
                if head.flags & END_HEADERS != 0 {
                    self.head_since = None;
                }
                // Each but the first is useless unless it has content.
                i64::from(head.kind == CONTINUATION && head.length == 0)
            }
            DATA => i64::from(head.length == 0 && head.flags & END_STREAM == 0),
            RST_STREAM => return self.allowance.reset(),
            _ => 1,
        };
        self.allowance.spend(cost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PING: u8 = 6;

    fn frame(kind: u8, flags: u8, length: usize) -> FrameHead {
        FrameHead {
            length,
            kind,
            flags,
            stream: 1,
        }
    }

    /// The number of frames of this kind that are accepted.
    fn passes(gauge: &mut FloodGauge, frame: FrameHead) -> usize {
        (0..100_000)
            .take_while(|_| gauge.frame(frame).is_ok())
            .count()
    }

    #[test]
    fn frames_without_use_are_bounded_and_requests_are_not() {
        for (frame, expected) in [
            (frame(PING, 0, 8), 10_000),
            (frame(DATA, 0, 0), 10_000),
            (frame(CONTINUATION, 0, 0), 10_000),
            (frame(RST_STREAM, 0, 4), 500),
            (frame(0x77, 0, 1), 10_000),
            (frame(HEADERS, END_HEADERS, 20), 100_000),
            (frame(DATA, 0, 1), 100_000),
            (frame(DATA, END_STREAM, 0), 100_000),
        ] {
            assert_eq!(passes(&mut FloodGauge::new(0), frame), expected);
        }
        let mut gauge = FloodGauge::new(0);
        let errors = (0..1000).take_while(|_| gauge.note_error().is_ok());
        assert_eq!(errors.count(), 500);
    }

    /// Issue 28: resets at a pace that is not a flood.
    #[test]
    fn a_connection_wears_out_by_resets_at_any_pace() {
        let mut gauge = FloodGauge::new(0);
        let reset = frame(RST_STREAM, 0, 4);
        for number in 0..500 {
            assert!(!gauge.is_worn_out());
            gauge.pass(number * 1000);
            gauge.frame(reset).unwrap();
        }
        assert!(gauge.is_worn_out());
    }

    #[test]
    fn time_and_bytes_sent_give_back() {
        let ping = frame(PING, 0, 8);
        // A flood ends the connection, so each needs its own gauge.
        let empty = || FloodGauge {
            allowance: Allowance::empty(),
            head_since: None,
        };
        assert_eq!(passes(&mut FloodGauge::new(0), ping), 10_000);
        assert_eq!(passes(&mut empty(), ping), 0);
        let mut gauge = empty();
        gauge.pass(50);
        assert_eq!(passes(&mut gauge, ping), 50);
        let mut gauge = empty();
        (0..3).for_each(|_| gauge.sent(1000));
        assert_eq!(passes(&mut gauge, ping), 2);
        let mut gauge = empty();
        gauge.sent(usize::MAX);
        assert_eq!(passes(&mut gauge, ping), 10_000);
    }

    #[test]
    fn a_head_is_on_its_way_until_its_last_frame() {
        let mut gauge = FloodGauge::new(0);
        gauge.frame(frame(HEADERS, 0, 3)).unwrap();
        gauge.note_incomplete_head(5);
        gauge.note_incomplete_head(6);
        assert_eq!(gauge.head_since(), Some(5));
        gauge.frame(frame(CONTINUATION, END_HEADERS, 2)).unwrap();
        assert_eq!(gauge.head_since(), None);
    }
}
