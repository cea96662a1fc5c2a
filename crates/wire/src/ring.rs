//! Credit for the byte rings: counters that only grow, and the word a worker sleeps on.
//!
//! A ring's `written` belongs to the producer and `consumed` to the consumer; the bytes in between are the consumer's to
//! read, the rest of the capacity the producer's to fill. The router keeps its own counters privately and checks the
//! worker's against them; nothing here is trusted by it.

use crate::sync::{Futex, Ordering, fence};

/// Sleeps until `is_ready`. `announce` is called once, after the intent to sleep is visible, to tell the other side.
pub(crate) fn wait_until(word: &Futex, is_ready: impl Fn() -> bool, announce: impl FnOnce()) {
    let mut announce = Some(announce);
    loop {
        word.word().store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if is_ready() {
            break;
        }
        match announce.take() {
            Some(tell) => tell(),
            None => word.wait(1),
        }
    }
    word.word().store(0, Ordering::Relaxed);
}

/// Wakes a worker in [`wait_until`], after the caller has made visible what it waits for.
pub(crate) fn nudge(word: &Futex) {
    fence(Ordering::SeqCst);
    if word.word().load(Ordering::Relaxed) != 0 && word.word().swap(0, Ordering::AcqRel) != 0 {
        word.wake();
    }
}

/// How many bytes lie between the counters; `None` when they cannot be right.
pub(crate) fn filled(written: u64, consumed: u64, capacity: u32) -> Option<u32> {
    let amount = written.wrapping_sub(consumed);
    (amount <= u64::from(capacity)).then_some(amount as u32)
}
