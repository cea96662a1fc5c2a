//! The priority of a response among others on its connection, as a client asks for it (RFC 9218).

use std::collections::VecDeque;
use std::convert::Infallible;

use sfv::visitor::{DictionaryVisitor, EntryVisitor, Ignored, InnerListVisitor, ItemVisitor};
use sfv::{BareItemFromInput, KeyRef, Parser};

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
    /// Reads the `Priority` field of a request (§5). Its lines are one value (RFC 9110 §5.3).
    pub fn of_lines<'f>(mut lines: impl Iterator<Item = &'f [u8]>) -> Self {
        let Some(first) = lines.next() else {
            return Self::default();
        };
        let Some(second) = lines.next() else {
            return Self::parse(first);
        };
        let mut value = [first, second].join(&b", "[..]);
        for line in lines {
            value.extend_from_slice(b", ");
            value.extend_from_slice(line);
        }
        Self::parse(&value)
    }

    /// Reads the value of a `Priority` field or a `PRIORITY_UPDATE` frame. Members that are not understood have no effect (§4), and neither
    /// has a value that is no dictionary (RFC 9651 §4.2).
    pub fn parse(value: &[u8]) -> Self {
        let members = Members(Self::default());
        let parsed = Parser::new(value).parse_dictionary_with_visitor(members);
        parsed.unwrap_or_default()
    }
}

/// Collects the members that are understood.
struct Members(Priority);

impl<'v> DictionaryVisitor<'v> for Members {
    type Out = Priority;
    type Error = Infallible;

    fn entry(&mut self, key: &'v KeyRef) -> Result<impl EntryVisitor<'v>, Infallible> {
        let Self(priority) = self;
        Ok(match key.as_str() {
            "u" => Some(Member::Urgency(&mut priority.urgency)),
            "i" => Some(Member::Incremental(&mut priority.is_incremental)),
            _ => None,
        })
    }

    fn finish(self) -> Result<Priority, Infallible> {
        Ok(self.0)
    }
}

/// Where the value of a member belongs. The last member of a key counts (RFC 9651 §3.2), also if it is not understood.
enum Member<'p> {
    Urgency(&'p mut u8),
    Incremental(&'p mut bool),
}

impl Member<'_> {
    fn set(self, value: Option<&BareItemFromInput<'_>>) {
        let default = Priority::default();
        match self {
            Self::Urgency(urgency) => {
                let read = match value {
                    Some(BareItemFromInput::Integer(number)) => u8::try_from(*number).ok(),
                    _ => None,
                };
                *urgency = read.filter(|read| *read <= 7).unwrap_or(default.urgency);
            }
            Self::Incremental(is_incremental) => {
                *is_incremental = match value {
                    Some(BareItemFromInput::Boolean(is_set)) => *is_set,
                    _ => default.is_incremental,
                }
            }
        }
    }
}

impl<'v> EntryVisitor<'v> for Member<'_> {
    type Error = Infallible;

    fn item(self) -> Result<impl ItemVisitor<'v>, Infallible> {
        Ok(|value: BareItemFromInput<'v>| {
            self.set(Some(&value));
            // Parameters have no meaning yet.
            Ok::<_, Infallible>(Ignored)
        })
    }

    fn inner_list(self) -> Result<impl InnerListVisitor<'v>, Infallible> {
        self.set(None);
        Ok(Ignored)
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

    fn priority(urgency: u8, is_incremental: bool) -> Priority {
        Priority {
            urgency,
            is_incremental,
        }
    }

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
            ("u=-1, i=1, x=2", 3, false),
            ("u=1.0, i=?1;a, urgency=0, I", 3, false),
            ("u=1, u=(0 1), i, i=(1)", 3, false),
            ("u=256", 3, false),
            ("u=1, i, x=(\"a, b\" ?0);y=:AA==:", 1, true),
            ("  u=1\t,\ti  ", 1, true),
        ] {
            assert_eq!(
                Priority::parse(value.as_bytes()),
                priority(urgency, is_incremental),
                "{value}"
            );
        }
    }

    #[test]
    fn a_value_that_is_no_dictionary_is_ignored_as_a_whole() {
        for value in [
            "u=1,",
            ",u=1",
            "u=1,,i",
            "u=1, u = 2",
            "u=1, i=",
            "u=1, i=?2",
            "u=1 i",
            "u=1, X",
            "u=1, \u{e9}",
            "u=1, x=\"",
            "u=1, x=(1",
            "u=1;",
            "u=01.2345, i",
            "\tu=1",
        ] {
            assert_eq!(
                Priority::parse(value.as_bytes()),
                Priority::default(),
                "{value}"
            );
        }
    }

    #[test]
    fn the_lines_of_the_field_are_one_value() {
        for (lines, urgency, is_incremental) in [
            (&[][..], 3, false),
            (&["u=1"], 1, false),
            (&["u=1", "i"], 1, true),
            (&["u=1", "x", "u=2"], 2, false),
            (&["u=1", ""], 3, false),
            (&["x=(1", "u=1)"], 3, false),
        ] {
            let lines = lines.iter().map(|line| line.as_bytes());
            let expected = priority(urgency, is_incremental);
            assert_eq!(Priority::of_lines(lines), expected);
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
