//! Sleeping on and waking by a word that may lie in memory shared between processes.

use std::sync::atomic::AtomicU32;

#[cfg(not(miri))]
use rustix::thread::futex;

/// Sleeps while `*word == expected`. Returns after a wake-up, after a signal, or at once if the word differs: the caller checks the word.
#[cfg(not(miri))]
#[inline]
pub fn wait(word: &AtomicU32, expected: u32) {
    // Not FUTEX_PRIVATE: other processes may use the word.
    let _ = futex::wait(word, futex::Flags::empty(), expected, None);
}

/// Wakes all sleepers on `word`.
#[cfg(not(miri))]
#[inline]
pub fn wake_all(word: &AtomicU32) {
    let _ = futex::wake(word, futex::Flags::empty(), ALL);
}

/// The kernel takes a signed number.
const ALL: u32 = i32::MAX.cast_unsigned();

#[cfg(miri)]
pub fn wait(word: &AtomicU32, expected: u32) {
    call(word, libc::FUTEX_WAIT, expected);
}

#[cfg(miri)]
pub fn wake_all(word: &AtomicU32) {
    call(word, libc::FUTEX_WAKE, ALL);
}

/// Miri checks the types of a system call's arguments, and rustix passes a pointer to an atomic.
#[cfg(miri)]
fn call(word: &AtomicU32, operation: i32, value: u32) {
    let forever = std::ptr::null::<libc::timespec>();
    // SAFETY: the word is borrowed for as long as the call takes.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, forever) };
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn a_changed_word_does_not_sleep() {
        wait(&AtomicU32::new(1), 0);
    }

    #[test]
    fn a_sleeper_is_woken() {
        let word = Arc::new(AtomicU32::new(0));
        let other = Arc::clone(&word);
        let sleeper = std::thread::spawn(move || {
            while other.load(Ordering::Acquire) == 0 {
                wait(&other, 0);
            }
        });
        word.store(1, Ordering::Release);
        wake_all(&word);
        sleeper.join().unwrap();
    }
}
