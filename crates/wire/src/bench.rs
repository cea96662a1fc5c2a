//! A bare ping-pong between two processes, for the micro-benchmark to compare with. Not part of the protocol.

use std::io;
use std::os::fd::AsFd;

use crate::layout::{HEADER_LENGTH, WorkerEntry};
use crate::map::{Mapping, create_file};
use crate::sync::{Futex, Ordering};

/// Two words on which two processes answer each other.
#[derive(Debug)]
pub struct PingPong {
    map: Mapping,
}

impl PingPong {
    /// Maps the words; fork afterwards.
    pub fn create() -> io::Result<Self> {
        let file = create_file("ping-pong", HEADER_LENGTH)?;
        Ok(Self {
            map: Mapping::new(file.as_fd())?,
        })
    }

    fn words(&self) -> Option<(&Futex, &Futex, &Futex)> {
        match self.map.slice::<WorkerEntry>(0, 3)? {
            [call, answer, sleeping] => Some((&call.wake.0, &answer.wake.0, &sleeping.wake.0)),
            _ => None,
        }
    }

    /// One round trip, spinning or sleeping for the answer.
    pub fn call(&self, asleep: bool) {
        let Some((call, answer, _)) = self.words() else {
            return;
        };
        let before = answer.word().load(Ordering::Relaxed);
        call.word().store(before.wrapping_add(1), Ordering::Release);
        if asleep {
            call.wake();
        }
        await_change(answer, before, asleep);
    }

    /// The other side of one round trip.
    pub fn answer(&self, asleep: bool) {
        let Some((call, answer, sleeping)) = self.words() else {
            return;
        };
        let before = answer.word().load(Ordering::Relaxed);
        sleeping.word().store(1, Ordering::Release);
        await_change(call, before, asleep);
        sleeping.word().store(0, Ordering::Release);
        answer
            .word()
            .store(before.wrapping_add(1), Ordering::Release);
        if asleep {
            answer.wake();
        }
    }

    /// Waits until the other side is about to sleep.
    pub fn wait_until_asleep(&self) {
        let Some((_, _, sleeping)) = self.words() else {
            return;
        };
        while sleeping.word().load(Ordering::Acquire) == 0 {
            std::hint::spin_loop();
        }
    }
}

fn await_change(word: &Futex, before: u32, asleep: bool) {
    while word.word().load(Ordering::Acquire) == before {
        if asleep {
            word.wait(before);
        } else {
            std::hint::spin_loop();
        }
    }
}
