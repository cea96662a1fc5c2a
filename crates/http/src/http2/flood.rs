//! Limits the work that a client may cause without requesting anything.
//!
//! PING and SETTINGS must be answered, a WINDOW_UPDATE processed, a stream that is opened only to be reset must be set up and torn down
//! (CVE-2023-44487); each costs the client next to nothing. `h2` bounds the memory for them; this bounds their number: a token bucket that
//! such frames empty, and that time and the bytes sent to the client fill. The frames are inspected on their way to `h2`, only by their
//! heads.
//!
//! It also records whether a request's head is incomplete, which must not take longer than in HTTP/1.
//!
//! Must never: fail a client that merely downloads fast, or occasionally cancels requests.

use super::frame::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEAD_BYTES, HEADERS, RST_STREAM,
};
use crate::allowance::{Allowance, Flood, Millis};

/// The least payload of a GOAWAY frame (RFC 9113 §6.8).
const LEAST_GOAWAY: usize = 8;

/// Why a connection is closed because of its client's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misuse {
    /// Too many useless frames.
    Flood,
    /// A frame that is too short, for which `h2` would send another error than RFC 9113 §4.2 requires.
    FrameSize,
}

impl From<Flood> for Misuse {
    fn from(_: Flood) -> Self {
        Self::Flood
    }
}

/// The inspection of one client's frames.
#[derive(Debug)]
pub struct FloodGauge {
    /// Remaining bytes of the preface, then of each frame's payload.
    rest: usize,
    head: [u8; HEAD_BYTES],
    head_length: usize,
    /// The current frame ends a head.
    ends_head: bool,
    allowance: Allowance,
    /// When the incomplete head began.
    head_since: Option<Millis>,
}

impl FloodGauge {
    /// For a connection that begins with the preface, of this length.
    pub fn new(preface: usize, now: Millis) -> Self {
        Self {
            rest: preface,
            head: [0; HEAD_BYTES],
            head_length: 0,
            ends_head: false,
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

    /// Inspects received bytes.
    pub fn received(&mut self, mut bytes: &[u8], now: Millis) -> Result<(), Misuse> {
        self.allowance.pass(now);
        while !bytes.is_empty() {
            if self.rest > 0 {
                let skipped = self.rest.min(bytes.len());
                self.rest -= skipped;
                bytes = bytes.get(skipped..).unwrap_or_default();
            } else {
                let wanted = HEAD_BYTES - self.head_length;
                let (part, others) = bytes.split_at(wanted.min(bytes.len()));
                if let Some(room) = self
                    .head
                    .get_mut(self.head_length..self.head_length + part.len())
                {
                    room.copy_from_slice(part);
                }
                self.head_length += part.len();
                bytes = others;
                if self.head_length == HEAD_BYTES {
                    self.head_length = 0;
                    self.frame(now)?;
                }
            }
            if self.rest == 0 && self.ends_head {
                self.ends_head = false;
                self.head_since = None;
            }
        }
        Ok(())
    }

    /// Inspects the head of a frame.
    fn frame(&mut self, now: Millis) -> Result<(), Misuse> {
        let [high, middle, low, kind, flags, ..] = self.head;
        self.rest = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        let cost = match kind {
            HEADERS | CONTINUATION => {
                self.head_since.get_or_insert(now);
                self.ends_head = flags & END_HEADERS != 0;
                // Each but the first is useless unless it has content.
                i64::from(kind == CONTINUATION && self.rest == 0)
            }
            DATA => i64::from(self.rest == 0 && flags & END_STREAM == 0),
            RST_STREAM => return Ok(self.allowance.reset()?),
            GOAWAY if self.rest < LEAST_GOAWAY => return Err(Misuse::FrameSize),
            _ => 1,
        };
        Ok(self.allowance.spend(cost)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PING: u8 = 6;

    fn frame(kind: u8, flags: u8, length: u8) -> Vec<u8> {
        let mut frame = vec![0, 0, length, kind, flags, 0, 0, 0, 1];
        frame.resize(frame.len() + usize::from(length), 0xaa);
        frame
    }

    /// The number of frames of this kind that are accepted.
    fn passes(gauge: &mut FloodGauge, frame: &[u8], now: Millis) -> usize {
        (0..100_000)
            .take_while(|_| gauge.received(frame, now).is_ok())
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
            assert_eq!(passes(&mut FloodGauge::new(0, 0), &frame, 0), expected);
        }
    }

    /// Issue 28: resets at a pace that is not a flood.
    #[test]
    fn a_connection_wears_out_by_resets_at_any_pace() {
        let mut gauge = FloodGauge::new(0, 0);
        let reset = frame(RST_STREAM, 0, 4);
        for number in 0..500 {
            assert!(!gauge.is_worn_out());
            gauge.received(&reset, number * 1000).unwrap();
        }
        assert!(gauge.is_worn_out());
    }

    /// Issue 28, 2.6.
    #[test]
    fn a_goaway_that_is_too_short_is_of_a_wrong_size() {
        let mut gauge = FloodGauge::new(0, 0);
        assert_eq!(gauge.received(&frame(GOAWAY, 0, 8), 0), Ok(()));
        let short = frame(GOAWAY, 0, 7);
        assert_eq!(gauge.received(&short, 0), Err(Misuse::FrameSize));
    }

    #[test]
    fn time_and_bytes_sent_give_back() {
        let ping = frame(PING, 0, 8);
        // A flood ends the connection, so each needs its own gauge.
        let empty = || FloodGauge {
            allowance: Allowance::empty(),
            ..FloodGauge::new(0, 0)
        };
        assert_eq!(passes(&mut FloodGauge::new(0, 0), &ping, 0), 10_000);
        assert_eq!(passes(&mut empty(), &ping, 0), 0);
        assert_eq!(passes(&mut empty(), &ping, 50), 50);
        let mut gauge = empty();
        (0..3).for_each(|_| gauge.sent(1000));
        assert_eq!(passes(&mut gauge, &ping, 0), 2);
        let mut gauge = empty();
        gauge.sent(usize::MAX);
        assert_eq!(passes(&mut gauge, &ping, 0), 10_000);
    }

    #[test]
    fn frames_are_found_in_any_split() {
        let mut bytes = b"PREFACE".to_vec();
        for _ in 0..3 {
            bytes.extend(frame(DATA, 0, 200));
            bytes.extend(frame(PING, 0, 8));
        }
        for step in 1..40 {
            let mut gauge = FloodGauge::new(7, 0);
            for piece in bytes.chunks(step) {
                gauge.received(piece, 0).unwrap();
            }
            let left = passes(&mut gauge, &frame(PING, 0, 8), 0);
            assert_eq!(left, 10_000 - 3, "{step}");
        }
    }

    #[test]
    fn a_head_is_on_its_way_until_its_last_byte() {
        let mut gauge = FloodGauge::new(0, 0);
        gauge.received(&frame(HEADERS, 0, 3), 5).unwrap();
        assert_eq!(gauge.head_since(), Some(5));
        let last = frame(CONTINUATION, END_HEADERS, 2);
        let (part, rest) = last.split_at(last.len() - 1);
        gauge.received(part, 6).unwrap();
        assert_eq!(gauge.head_since(), Some(5));
        gauge.received(rest, 7).unwrap();
        assert_eq!(gauge.head_since(), None);
        gauge.received(&frame(HEADERS, END_HEADERS, 0), 8).unwrap();
        assert_eq!(gauge.head_since(), None);
    }
}
