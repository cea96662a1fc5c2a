//! Tells of lines that were lost, seldom, and when it is over.

use std::sync::{Mutex, PoisonError};

use tutti_sys::log_stream::LogStream;

/// So many milliseconds pass between two lines about one log: a full disk is no reason to fill another.
const WINDOW: u64 = 60_000;

/// Knows which lost lines of one log, which several threads write, have been told of.
#[derive(Debug, Default)]
pub struct Losses(Mutex<LossRecord>);

#[derive(Debug, Default)]
struct LossRecord {
    /// Lines that were lost, when it was told last.
    lost: u64,
    /// The same before that began of which it is not known that it is over.
    before: Option<u64>,
    /// When the next line may be written.
    next: u64,
}

impl Losses {
    /// The line to be written about the log called `name`, if there is something new. `now` is in milliseconds, of a clock that never
    /// goes back. Cheap where nothing was lost.
    pub fn news(&self, name: &str, stream: &LogStream, now: u64) -> Option<String> {
        let lost = stream.lost();
        if lost == 0 {
            return None;
        }
        // Numbers: whole even if a holder panicked.
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lost > told.lost && now >= told.next {
            told.next = now.saturating_add(WINDOW);
            let before = told.lost;
            told.before.get_or_insert(before);
            told.lost = lost;
            let count = lost - before;
            let reason = match stream.failure() {
                Some(error) => format!("cannot write the {name}: {error}; {count} lines are lost"),
                None => format!(
                    "{count} lines of the {name} are lost: whoever reads it stands still, and nothing waits for that"
                ),
            };
            return Some(format!("{reason}; requests go on"));
        }
        if stream.failure().is_some() || stream.has_waiting() {
            return None;
        }
        let before = told.before.take()?;
        told.lost = lost;
        Some(format!(
            "the {name} is written again; {} lines were lost",
            lost - before
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tutti_sys::log_stream::Later;

    #[test]
    fn losses_are_told_once_a_minute_and_their_end_once() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let stream = LogStream::new(writer.into(), Later::Caller, None, Arc::default());
        let losses = Losses::default();
        let line = [&[b'x'; 999][..], b"\n"].concat();
        assert_eq!(losses.news("log", &stream, 0), None);
        while stream.lost() < 2 {
            stream.write(&line);
        }
        let told = losses.news("log", &stream, 0).unwrap();
        assert!(
            told.starts_with("2 lines of the log are lost: whoever"),
            "{told}"
        );
        stream.write(&line);
        assert_eq!(losses.news("log", &stream, 59_999), None);
        let told = losses.news("log", &stream, 60_000).unwrap();
        assert!(told.starts_with("1 lines of"), "{told}");
        let mut some = vec![0; 100_000];
        while stream.has_waiting() {
            assert!(std::io::Read::read(&mut reader, &mut some).unwrap() > 0);
            stream.flush();
        }
        let told = losses.news("log", &stream, 60_001).unwrap();
        assert_eq!(told, "the log is written again; 3 lines were lost");
        assert_eq!(losses.news("log", &stream, 200_000), None);
        drop(reader);
        // Another test that forks may hold the reading end for a moment.
        tutti_testkit::wait_until("nobody reads", || {
            stream.write(b"x\n");
            stream.failure().is_some()
        });
        let told = losses.news("log", &stream, 200_000).unwrap();
        assert!(
            told.starts_with("cannot write the log: Broken pipe"),
            "{told}"
        );
    }
}
