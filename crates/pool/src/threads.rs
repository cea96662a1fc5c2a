//! The listen threads as the pool sees them: which segments a thread waits for, and when it sleeps.
//!
//! A listen thread calls [`ThreadWakers::enter`] once, then [`park`] and [`unpark`] from its runtime's hooks. Each thread
//! keeps a list of the segments in which it has requests, so that an application without traffic costs nothing, and
//! tells a segment that it sleeps only while it does: workers then ring the segment's bell of that thread, and never otherwise. The
//! router's own news for a thread come by an eventfd that no worker has.
//!
//! Must never happen: a thread that sleeps while a completion is set and `sleeping` is not.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;

use crate::eventfds::ThreadWakers;
use crate::generation::Generation;
use crate::readiness::readable;

/// How often a thread that is about to sleep looks again because completions arrived meanwhile.
const PARK_ATTEMPTS: u32 = 16;

#[derive(Default)]
struct Current {
    thread: Option<(u32, Arc<ThreadWakers>)>,
    waiting_for: Vec<Arc<Generation>>,
}

thread_local! {
    static CURRENT: RefCell<Current> = RefCell::default();
}

impl ThreadWakers {
    /// Makes the calling thread listen thread number `thread`; before anything else of the pool is used on it.
    pub fn enter(self: &Arc<Self>, thread: u32) {
        debug_assert!(thread < self.count());
        CURRENT.with_borrow_mut(|current| {
            current.thread = Some((thread, Arc::clone(self)));
        });
    }

    /// Runs on each listen thread's runtime for ever: takes completions when the router itself writes the eventfd.
    ///
    /// The counter is never read back: tokio registers edge-triggered, and every write is an edge (eventfd(2),
    /// epoll(7)), which saves a system call per wake-up.
    pub async fn watch(self: Arc<Self>, thread: u32) -> io::Result<()> {
        let Some(fd) = self.eventfd(thread) else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "no such listen thread",
            ));
        };
        let fd = readable(fd.try_clone_to_owned()?)?;
        loop {
            fd.readable().await?.clear_ready();
            drain();
        }
    }
}

/// Number of the calling listen thread, if it is one.
pub(crate) fn current() -> Option<u32> {
    CURRENT.with_borrow(|current| current.thread.as_ref().map(|(thread, _)| *thread))
}

/// The calling thread has a request in this segment and wants its completions.
pub(crate) fn wait_for(thread: u32, generation: &Arc<Generation>) {
    debug_assert_eq!(
        current(),
        Some(thread),
        "only the thread itself looks for its completions"
    );
    if generation.list_thread(thread) {
        generation.bells.watch(thread, drain);
        CURRENT.with_borrow_mut(|current| current.waiting_for.push(Arc::clone(generation)));
    }
}

/// Takes all completions for the calling thread and wakes the tasks that wait for them.
pub fn drain() {
    with_list(|thread, list| {
        list.retain(|generation| {
            generation.drain(thread);
            !generation.unlist_if_idle(thread)
        });
    });
}

/// To be called where the runtime is about to sleep (`on_thread_park`). Tasks that this wakes keep tokio from
/// sleeping.
pub fn park() {
    with_list(|thread, list| {
        list.retain(|generation| {
            generation.drain(thread);
            !generation.unlist_if_idle(thread)
        });
        let mut safe = true;
        for generation in list.iter() {
            safe &= generation.bells.is_watched(thread);
            let mut attempts = 0;
            while !generation.segment.set_sleeping(thread) {
                attempts += 1;
                if attempts == PARK_ATTEMPTS {
                    safe = false;
                    break;
                }
                generation.drain(thread);
            }
        }
        if !safe {
            // A worker sets completions as fast as they are taken, or cannot ring. Do not sleep: this makes the poll return at once.
            signal_self();
        }
    });
}

/// To be called when the runtime has woken up (`on_thread_unpark`).
pub fn unpark() {
    with_list(|thread, list| {
        for generation in list.iter() {
            generation.segment.clear_sleeping(thread);
            generation.drain(thread);
        }
    });
}

fn signal_self() {
    let thread = CURRENT.with_borrow(|current| current.thread.clone());
    if let Some((index, threads)) = thread
        && let Some(fd) = threads.eventfd(index)
    {
        // Fails only when the counter is full, and then the descriptor is readable as wanted.
        let _ = rustix::io::write(fd, &1_u64.to_ne_bytes());
    }
}

/// Runs `act` on the list, which is taken out meanwhile: waking a task must be free to call back into the pool.
fn with_list(act: impl FnOnce(u32, &mut Vec<Arc<Generation>>)) {
    let taken = CURRENT.with_borrow_mut(|current| {
        if current.waiting_for.is_empty() {
            return None;
        }
        let thread = current.thread.as_ref().map(|(thread, _)| *thread)?;
        Some((thread, std::mem::take(&mut current.waiting_for)))
    });
    let Some((thread, mut list)) = taken else {
        return;
    };
    debug_assert!(list.iter().all(|generation| generation.is_listed(thread)));
    act(thread, &mut list);
    CURRENT.with_borrow_mut(|current| {
        // Keeps the capacity, and what was added meanwhile.
        list.append(&mut current.waiting_for);
        current.waiting_for = list;
    });
}
