//! The order in which responses are sent (RFC 9218): `quinn-proto` sends the streams of the highest level first, and those of one level in
//! turn.

use quinn_proto::{Connection, Dir, Side, StreamId};
use tutti_http::{EarlyPriorities, Known, Priority, Section};

/// Levels of one urgency: incremental streams share the lowest, the others have one each in the order of their requests.
const LEVELS: i32 = 1 << 24;

/// The priorities of one connection's requests.
#[derive(Debug, Default)]
pub(crate) struct Priorities {
    early: EarlyPriorities,
}

impl Priorities {
    /// Notes PRIORITY_UPDATE for the stream with this number.
    pub(crate) fn note(&mut self, quic: &mut Connection, stream: u64, priority: Priority) {
        let id = StreamId::new(Side::Client, Dir::Bi, stream / 4);
        set(quic, id, priority);
        // If the request has not been started, its own field must not take precedence then.
        self.early.note(id.index(), priority);
    }

    /// Applies the priority of a request that is started.
    pub(crate) fn begin(&mut self, quic: &mut Connection, id: StreamId, section: &Section) {
        let early = self.early.take(id.index());
        let priority = early.unwrap_or_else(|| Priority::of_lines(section.values(Known::Priority)));
        set(quic, id, priority);
    }
}

fn set(quic: &mut Connection, id: StreamId, priority: Priority) {
    // Fails if the stream has ended, or has not been opened.
    let _ = quic.send_stream(id).set_priority(level(id, priority));
}

/// The level of a stream; the highest is sent first.
fn level(id: StreamId, priority: Priority) -> i32 {
    let first = LEVELS * (7 - i32::from(priority.urgency.min(7)));
    if priority.is_incremental {
        return first;
    }
    let number = i32::try_from(id.index()).unwrap_or(i32::MAX);
    first + (LEVELS - 1).saturating_sub(number).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_levels_are_in_the_order_of_service() {
        let level = |number, value: &str| {
            let id = StreamId::new(Side::Client, Dir::Bi, number);
            level(id, Priority::parse(value.as_bytes()))
        };
        let far = 1 << 40;
        for (first, second) in [
            ((7, "u=0"), (0, "u=1")),
            ((far, "u=0, i"), (0, "u=1")),
            ((0, "u=3"), (1, "")),
            ((far, "u=3"), (0, "u=3, i")),
            ((0, "u=6, i"), (0, "u=7")),
        ] {
            assert!(
                level(first.0, first.1) > level(second.0, second.1),
                "{first:?} {second:?}"
            );
        }
        assert_eq!(level(1, "i"), level(9, "u=3, i"));
        assert_eq!(level(far, "u=7, i"), 0);
    }
}
