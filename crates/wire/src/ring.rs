//! Credit for the byte rings: counters that only grow, and the word in which a worker declares what it waits for.
//!
//! A ring's `written` belongs to the producer and `consumed` to the consumer; the consumer may read the bytes in between, the producer may
//! fill the rest of the capacity. The router keeps its own counters privately and checks the worker's against them; it trusts nothing here.

use crate::sync::{Futex, Ordering, fence};

/// A worker sleeps on the word.
const ASLEEP: u32 = 1;
/// A worker with an event loop wants attention when there is data to read.
pub(crate) const WANTS_DATA: u32 = 2;
/// A worker with an event loop wants attention when there is room to write.
pub(crate) const WANTS_ROOM: u32 = 4;
/// Counts the intents to sleep of two threads on one word, in the bits above.
const ROUND: u32 = 1 << 8;

/// Sleeps until `is_ready`. `notify` is called once, after the intent to sleep is visible, to notify the other side.
pub(crate) fn wait_until(word: &Futex, is_ready: impl Fn() -> bool, notify: impl FnOnce()) {
    let mut notify = Some(notify);
    loop {
        word.word().fetch_or(ASLEEP, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        if is_ready() {
            break;
        }
        match notify.take() {
            Some(notify) => notify(),
            None => {
                let bits = word.word().load(Ordering::Relaxed);
                if bits & ASLEEP != 0 {
                    word.wait(bits);
                }
            }
        }
    }
    word.word().fetch_and(!ASLEEP, Ordering::AcqRel);
}

/// As [`wait_until`], for a word that two threads of a process sleep on, each for its own reason: the one that continues preserves the
/// intent of the other. An intent without a sleeper costs the other side a system call.
///
/// Each intent that follows a wake-up differs: a thread that was about to sleep notices that the word has changed, even if the other thread
/// has been woken and is about to sleep again meanwhile.
pub(crate) fn wait_beside(word: &Futex, is_ready: impl Fn() -> bool) {
    let intent = |bits: u32| match bits & ASLEEP {
        0 => bits.wrapping_add(ROUND) | ASLEEP,
        _ => bits,
    };
    loop {
        let mut before = word.word().load(Ordering::Relaxed);
        while let Err(other) = word.word().compare_exchange(
            before,
            intent(before),
            Ordering::AcqRel,
            Ordering::Relaxed,
        ) {
            before = other;
        }
        fence(Ordering::SeqCst);
        if is_ready() {
            return;
        }
        word.wait(intent(before));
    }
}

/// Asks for attention when `is_ready` may have become true; false when it is true already. For event loops.
#[must_use]
pub(crate) fn ask(word: &Futex, wanted: u32, is_ready: impl Fn() -> bool) -> bool {
    word.word().fetch_or(wanted, Ordering::AcqRel);
    fence(Ordering::SeqCst);
    if is_ready() {
        word.word().fetch_and(!wanted, Ordering::AcqRel);
        return false;
    }
    true
}

/// Wakes a worker in [`wait_until`], after the caller has published what it waits for. True when it had asked for one of `wanted` and must
/// be given attention.
#[must_use]
pub(crate) fn nudge(word: &Futex, wanted: u32) -> bool {
    fence(Ordering::SeqCst);
    let about = ASLEEP | wanted;
    if word.word().load(Ordering::Relaxed) & about == 0 {
        return false;
    }
    let before = word.word().fetch_and(!about, Ordering::AcqRel);
    if before & ASLEEP != 0 {
        word.wake();
    }
    before & wanted != 0
}

/// True if the worker waits for data, as far as its word shows: a sleeping one may wait for room instead.
pub(crate) fn waits_for_data(word: &Futex) -> bool {
    word.word().load(Ordering::Acquire) & (ASLEEP | WANTS_DATA) != 0
}

/// The number of bytes between the counters; `None` when they are invalid.
pub(crate) fn filled(written: u64, consumed: u64, capacity: u32) -> Option<u32> {
    debug_assert!(capacity.is_power_of_two());
    let amount = written.wrapping_sub(consumed);
    (amount <= u64::from(capacity)).then_some(amount as u32)
}
