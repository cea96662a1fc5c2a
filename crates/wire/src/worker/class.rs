//! The scheduling class of a worker's thread (sched(7)): normal, or batch, in which it does not preempt others when it is woken.
//!
//! The router decides when batch is of use (docs/project/decisions/0382-workers-in-batch.md); a worker needs no privilege to change its own
//! class. The processes that it forks are not in the batch class.

use std::mem::MaybeUninit;

/// Changes the class of the calling thread, and remembers it.
#[derive(Debug, Default)]
pub(super) struct Class {
    is_batch: bool,
    /// Another program has set a class for this process, which is kept.
    is_foreign: bool,
}

impl Class {
    /// Sets the wanted class; a system call only if it changes.
    pub(super) fn follow(&mut self, is_batch: bool) {
        if is_batch != self.is_batch && !self.is_foreign {
            self.change(is_batch);
        }
    }

    #[cold]
    fn change(&mut self, is_batch: bool) {
        // SAFETY: no pointer is passed; 0 is the calling thread.
        let now = unsafe { libc::sched_getscheduler(0) };
        if now & !libc::SCHED_RESET_ON_FORK != policy(self.is_batch) {
            self.is_foreign = true;
            return;
        }
        // No priority; musl's has more fields.
        let none = MaybeUninit::<libc::sched_param>::zeroed();
        let wanted = policy(is_batch) | libc::SCHED_RESET_ON_FORK;
        // SAFETY: `none` lives through the call.
        let outcome = unsafe { libc::sched_setscheduler(0, wanted, none.as_ptr()) };
        // A sandbox may refuse it.
        self.is_foreign = outcome != 0;
        self.is_batch = is_batch;
    }
}

fn policy(is_batch: bool) -> libc::c_int {
    match is_batch {
        true => libc::SCHED_BATCH,
        false => libc::SCHED_OTHER,
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    fn current() -> i32 {
        // SAFETY: no pointer is passed.
        unsafe { libc::sched_getscheduler(0) & !libc::SCHED_RESET_ON_FORK }
    }

    #[test]
    fn the_class_is_changed_there_and_back() {
        std::thread::spawn(|| {
            let mut class = Class::default();
            class.follow(true);
            assert_eq!(current(), libc::SCHED_BATCH);
            class.follow(false);
            assert_eq!(current(), libc::SCHED_OTHER);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_class_set_by_another_program_is_kept() {
        std::thread::spawn(|| {
            let none = MaybeUninit::<libc::sched_param>::zeroed();
            // SAFETY: `none` lives through the call.
            let outcome = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, none.as_ptr()) };
            assert_eq!(outcome, 0);
            let mut class = Class::default();
            class.follow(true);
            class.follow(false);
            class.follow(true);
            assert_eq!(current(), libc::SCHED_IDLE);
        })
        .join()
        .unwrap();
    }
}
