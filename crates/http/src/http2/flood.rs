//! A bound on the work that a client makes for the server without asking for anything.
//!
//! PING and SETTINGS must be answered, a WINDOW_UPDATE be acted on, a stream that is opened only to be reset be set up and torn down
//! (CVE-2023-44487); each costs the client next to nothing. `h2` bounds what it keeps for them; this bounds how many there may be: a
//! bucket that such frames empty, and that time and the bytes sent to the client fill. The frames are seen on their way to `h2`, by their
//! heads alone.
//!
//! It knows as well whether a request's head has begun and not ended, which must not take longer than HTTP/1's.
//!
//! Must never: fail a client that merely downloads fast, or gives up what it has asked for now and then.

use crate::allowance::{Allowance, Flood, Millis};

use super::frame::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEAD_BYTES, HEADERS, RST_STREAM,
};

/// Bytes that a GOAWAY frame has at least (RFC 9113 §6.8).
const LEAST_GOAWAY: usize = 8;

/// Why a connection ends for the frames of its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misuse {
    /// Too many of them ask for nothing.
    Flood,
    /// One is too short, which `h2` answers with another error than RFC 9113 §4.2 has.
    FrameSize,
}

impl From<Flood> for Misuse {
    fn from(_: Flood) -> Self {
        Self::Flood
    }
}

/// The frames of one client that have been seen.
#[derive(Debug)]
pub struct FloodGauge {
    /// Bytes of the preface, then of each frame's payload, that are still to come.
    rest: usize,
    head: [u8; HEAD_BYTES],
    head_length: usize,
    /// The frame being passed over ends a head.
    ends_head: bool,
    allowance: Allowance,
    /// When the head began that has not ended.
    head_since: Option<Millis>,
}

impl FloodGauge {
    /// The gauge of a connection that begins with the preface, of this many bytes.
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

    /// True if the client has given up as many streams as it may on one connection.
    pub fn is_worn_out(&self) -> bool {
        self.allowance.is_worn_out()
    }

    /// When the head began that is on its way, and has not come whole.
    pub fn head_since(&self) -> Option<Millis> {
        self.head_since
    }

    /// So many bytes have gone to the client.
    pub fn sent(&mut self, bytes: usize) {
        self.allowance.sent(bytes);
    }

    /// These bytes have come.
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

    /// A frame's head is there.
    fn frame(&mut self, now: Millis) -> Result<(), Misuse> {
        let [high, middle, low, kind, flags, ..] = self.head;
        self.rest = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        let cost = match kind {
            HEADERS | CONTINUATION => {
                self.head_since.get_or_insert(now);
                self.ends_head = flags & END_HEADERS != 0;
                // Each but the first is without use unless it brings something.
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

    /// Frames of this kind that pass before it is too much.
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

    /// Issue 28: resets at a pace that is no flood.
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
        // A flood ends the connection, so each has a gauge of its own.
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
