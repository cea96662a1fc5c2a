//! Sleeping on and waking by a word that may lie in memory shared between processes.

use std::io;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use rustix::thread::futex;

/// Why [`wait`] came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// This word was woken, or a signal came: look again.
    Maybe,
    /// The word was not `expected` any more.
    Changed,
    /// The time is over.
    TimedOut,
}

/// Sleeps while `*word == expected`, at most for `timeout`. The word may be shared between processes.
pub fn wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) -> Woken {
    let timeout = timeout.map(|t| futex::Timespec {
        tv_sec: i64::try_from(t.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(t.subsec_nanos()),
    });
    match futex::wait(word, futex::Flags::empty(), expected, timeout.as_ref()) {
        Ok(()) | Err(rustix::io::Errno::INTR) => Woken::Maybe,
        Err(rustix::io::Errno::TIMEDOUT) => Woken::TimedOut,
        Err(_) => Woken::Changed,
    }
}

/// Wakes at most `count` sleepers on `word`; the number woken.
pub fn wake(word: &AtomicU32, count: u32) -> io::Result<usize> {
    Ok(futex::wake(word, futex::Flags::empty(), count)?)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn changed_word_does_not_sleep_and_timeout_ends() {
        let word = AtomicU32::new(1);
        assert_eq!(wait(&word, 0, None), Woken::Changed);
        assert_eq!(
            wait(&word, 1, Some(Duration::from_millis(1))),
            Woken::TimedOut
        );
    }

    #[test]
    fn sleeper_is_woken() {
        let word = Arc::new(AtomicU32::new(0));
        let other = Arc::clone(&word);
        let sleeper = std::thread::spawn(move || {
            while other.load(Ordering::Acquire) == 0 {
                wait(&other, 0, None);
            }
        });
        word.store(1, Ordering::Release);
        wake(&word, 1).unwrap();
        sleeper.join().unwrap();
    }
}
