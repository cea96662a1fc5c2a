//! The priority of a response among others on its connection, as a client asks for it (RFC 9218).

use std::collections::VecDeque;

use crate::field::list_members;

/// A priority; its order is the order of service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Priority {
    /// 0 to 7; the lowest is served first.
    pub urgency: u8,
    /// Its parts are useful before it is complete, so that it shares the connection with others of its urgency.
    pub is_incremental: bool,
}

impl Default for Priority {
    /// RFC 9218 §4.
    fn default() -> Self {
        Self {
            urgency: 3,
            is_incremental: false,
        }
    }
}

impl Priority {
    /// Reads the value of a `Priority` field or a `PRIORITY_UPDATE` frame. Members that are not understood have no effect (§4).
    pub fn parse(value: &[u8]) -> Self {
        let mut priority = Self::default();
        for member in list_members(value) {
            // Parameters have no meaning yet.
            let member = member
                .split(|byte| *byte == b';')
                .next()
                .unwrap_or_default();
            match member.trim_ascii() {
                [b'u', b'=', urgency @ b'0'..=b'7'] => priority.urgency = urgency - b'0',
                b"i" | b"i=?1" => priority.is_incremental = true,
                // The last member of a key counts (RFC 9651 §3.2), also if it is not understood.
                b"u" | [b'u', b'=', ..] => priority.urgency = Self::default().urgency,
                [b'i', b'=', ..] => priority.is_incremental = false,
                _ => {}
            }
        }
        priority
    }
}

/// The priorities of requests that have not arrived: a `PRIORITY_UPDATE` may overtake its request, whose own field does not count then (§7).
#[derive(Debug, Default)]
pub struct EarlyPriorities(VecDeque<(u64, Priority)>);

impl EarlyPriorities {
    /// So many are kept; the oldest makes room.
    const MOST: usize = 32;

    /// Notes the priority of a stream, instead of an earlier one.
    pub fn note(&mut self, stream: u64, priority: Priority) {
        self.0.retain(|(one, _)| *one != stream);
        self.0.push_back((stream, priority));
        if self.0.len() > Self::MOST {
            self.0.pop_front();
        }
    }

    /// Returns and forgets the priority of a stream whose request has arrived.
    pub fn take(&mut self, stream: u64) -> Option<Priority> {
        let place = self.0.iter().position(|(one, _)| *one == stream)?;
        self.0.remove(place).map(|(_, priority)| priority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_that_are_understood_count() {
        for (value, urgency, is_incremental) in [
            ("", 3, false),
            ("u=0", 0, false),
            ("u=7, i", 7, true),
            ("i=?1,u=1", 1, true),
            ("i, i=?0", 3, false),
            ("u=5;x=1, i;y", 5, true),
            ("u=8", 3, false),
            ("u=1, u=8, i, i=1", 3, false),
            ("u=1, i, u", 3, true),
            ("u=-1, x=2, u = 1, \u{e9}, i=1", 3, false),
        ] {
            let expected = Priority {
                urgency,
                is_incremental,
            };
            assert_eq!(Priority::parse(value.as_bytes()), expected, "{value}");
        }
    }

    #[test]
    fn the_order_is_that_of_service() {
        let of = |value: &str| Priority::parse(value.as_bytes());
        assert!(of("u=1, i") < of("u=2"));
        assert!(of("u=2") < of("u=2, i"));
    }

    #[test]
    fn the_last_of_a_stream_and_the_newest_of_many_are_kept() {
        let mut early = EarlyPriorities::default();
        let urgent = |value: &str| Priority::parse(value.as_bytes());
        for stream in 0..33 {
            early.note(stream, urgent("u=1"));
        }
        early.note(1, urgent("u=2"));
        assert_eq!(early.take(0), None);
        assert_eq!(early.take(1), Some(urgent("u=2")));
        assert_eq!(early.take(1), None);
        assert_eq!(early.take(32), Some(urgent("u=1")));
    }
}
