//! Reports lost lines, at most once a minute, and when the losses are over.

use std::sync::{Mutex, PoisonError};

use tutti_sys::log_stream::LogStream;

/// Milliseconds between two reports about one log: a full disk is no reason to fill another one.
const WINDOW: u64 = 60_000;

/// Remembers which lost lines of one log, written by several threads, have been reported.
#[derive(Debug, Default)]
pub struct Losses(Mutex<Reported>);

#[derive(Debug, Default)]
struct Reported {
    /// The number of lost lines at the last report.
    lost: u64,
    /// The number of lost lines before the current losses began; `None` if there are no current losses.
    before: Option<u64>,
    /// The earliest time of the next report.
    next: u64,
}

impl Losses {
    /// Returns the line to write about the log called `name`, if there is something new. `now` is in milliseconds, from
    /// a monotonic clock. Cheap if nothing was lost.
    pub fn news(&self, name: &str, stream: &LogStream, now: u64) -> Option<String> {
        let lost = stream.lost();
        if lost == 0 {
            return None;
        }
        // Numbers are consistent even if a holder panicked.
        let mut reported = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lost > reported.lost && now >= reported.next {
            reported.next = now.saturating_add(WINDOW);
            let before = reported.lost;
            reported.before.get_or_insert(before);
            reported.lost = lost;
            let count = lost - before;
            let (lines, are) = words(count);
            let reason = match stream.failure() {
                Some(error) => format!("cannot write the {name}: {error}; {lines} {are} lost"),
                None => format!(
                    "{lines} of the {name} {are} lost: its reader is too slow, and the server does not wait for it"
                ),
            };
            return Some(format!("{reason}; requests continue"));
        }
        if stream.failure().is_some() || stream.has_waiting() {
            return None;
        }
        let before = reported.before.take()?;
        reported.lost = lost;
        let (lines, are) = words(lost - before);
        let were = if are == "is" { "was" } else { "were" };
        Some(format!(
            "the {name} can be written again; {lines} {were} lost"
        ))
    }
}

/// `1 line` and `is`, `3 lines` and `are`.
pub(crate) fn words(count: u64) -> (String, &'static str) {
    match count {
        1 => ("1 line".to_owned(), "is"),
        count => (format!("{count} lines"), "are"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tutti_sys::log_stream::Later;

    use super::*;

    #[test]
    fn losses_are_reported_once_a_minute_and_their_end_once() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let stream = LogStream::new(writer.into(), Later::Caller, None, Arc::default());
        let losses = Losses::default();
        let line = [&[b'x'; 999][..], b"\n"].concat();
        assert_eq!(losses.news("log", &stream, 0), None);
        while stream.lost() < 2 {
            stream.write(&line);
        }
        let reported = losses.news("log", &stream, 0).unwrap();
        assert!(
            reported.starts_with("2 lines of the log are lost: its reader"),
            "{reported}"
        );
        stream.write(&line);
        assert_eq!(losses.news("log", &stream, 59_999), None);
        let reported = losses.news("log", &stream, 60_000).unwrap();
        assert!(
            reported.starts_with("1 line of the log is lost: "),
            "{reported}"
        );
        let mut some = vec![0; 100_000];
        while stream.has_waiting() {
            assert!(std::io::Read::read(&mut reader, &mut some).unwrap() > 0);
            stream.flush();
        }
        let reported = losses.news("log", &stream, 60_001).unwrap();
        assert_eq!(reported, "the log can be written again; 3 lines were lost");
        assert_eq!(losses.news("log", &stream, 200_000), None);
        drop(reader);
        // Another test that forks may hold the reading end for a moment.
        tutti_testkit::wait_until("the reader has gone", || {
            stream.write(b"x\n");
            stream.failure().is_some()
        });
        let reported = losses.news("log", &stream, 200_000).unwrap();
        assert!(
            reported.starts_with("cannot write the log: Broken pipe"),
            "{reported}"
        );
    }
}
