//! Futexes (futex(2)): processes that sleep on a word of memory, which each may have mapped at another address.

use crate::kernel::{try_with, with, yield_now};
use crate::state::mappings::Word;
use crate::state::processes::Waits;
use crate::{AtomicU32, note};

/// Notes that `length` bytes at `start` are those of the file `file`.
pub fn mapped(start: usize, length: usize, file: u64) {
    try_with(|kernel| kernel.mappings.add(start, length, file));
}

/// Notes that the mapping at `start` is gone.
pub fn unmapped(start: usize) {
    try_with(|kernel| kernel.mappings.remove(start));
}

fn word_at(address: usize) -> Word {
    with(|kernel| kernel.mappings.word_at(address))
}

/// Sleeps while the word is `expected`.
///
/// # Panics
/// On a thread of the router: it would stop the server.
pub fn wait(word: &AtomicU32, expected: u32) {
    if word.peek() != expected {
        return;
    }
    let place = word_at(std::ptr::from_ref(word) as usize);
    let pid = with(|kernel| {
        let pid = kernel.running_process();
        if let Some(pid) = pid {
            kernel.processes.wait(pid, Waits::Word(place));
        }
        pid
    });
    assert!(pid.is_some(), "the router sleeps on a futex");
    note!("sleeps on the word at {:#x}", place.offset);
    yield_now();
}

/// Wakes all processes that sleep on the word.
pub fn wake(word: &AtomicU32) {
    let place = word_at(std::ptr::from_ref(word) as usize);
    with(|kernel| {
        kernel
            .processes
            .wake(|waits| matches!(waits, Waits::Word(word) if *word == place));
    });
}
