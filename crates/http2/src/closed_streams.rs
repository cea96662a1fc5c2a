//! Remembers streams that have ended, to tell late frames from wrong ones.

/// Streams that are remembered: more than a client may have open at once by default. A frame for an older one is an error.
const REMEMBERED: usize = 256;

/// The end of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closing {
    /// Both sides sent their end, or the client reset it: the client sends nothing more.
    Whole,
    /// The server reset it: frames of the client may be on their way.
    Reset,
}

/// The streams of one connection that ended last.
#[derive(Debug, Default)]
pub(crate) struct ClosedStreams {
    /// Empty until the first one ends; then a ring.
    last: Vec<(u32, Closing)>,
    next: usize,
}

impl ClosedStreams {
    pub(crate) fn note(&mut self, stream: u32, closing: Closing) {
        match self.last.get_mut(self.next) {
            Some(place) => *place = (stream, closing),
            None => self.last.push((stream, closing)),
        }
        self.next = (self.next + 1) % REMEMBERED;
    }

    pub(crate) fn get(&self, stream: u32) -> Option<Closing> {
        let found = self.last.iter().find(|(one, _)| *one == stream);
        found.map(|(_, closing)| *closing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_streams_are_remembered() {
        let mut closed = ClosedStreams::default();
        for stream in 0..1000 {
            let closing = match stream % 2 {
                0 => Closing::Whole,
                _ => Closing::Reset,
            };
            closed.note(stream, closing);
        }
        assert_eq!(closed.get(999), Some(Closing::Reset));
        assert_eq!(closed.get(1000 - REMEMBERED as u32), Some(Closing::Whole));
        assert_eq!(closed.get(999 - REMEMBERED as u32), None);
        assert_eq!(closed.last.len(), REMEMBERED);
    }
}
