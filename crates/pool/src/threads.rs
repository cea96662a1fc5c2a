//! The listen threads as the pool uses them: the segments in which a thread has requests, and whether it sleeps.
//!
//! A listen thread calls [`ThreadWakers::enter`] once, then [`park`] and [`unpark`] from its runtime's hooks. Each thread keeps a list of the
//! segments in which it has requests, so that an application without traffic costs nothing. It marks itself as sleeping in these segments
//! only while it sleeps: workers ring the segment's bell of that thread only then. The router's own events for a thread come by an eventfd
//! that no worker has. A thread with a lone request [looks](crate::brief_wait) for its response before it sleeps.
//!
//! Must never happen: a thread sleeps while a completion is set and `sleeping` is not.

#[cfg(not(simulated))]
use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::brief_wait::BriefWait;
use crate::eventfds::ThreadWakers;
use crate::generation::Generation;
use crate::readiness::readable;
use crate::runtime;

/// Maximum further checks by a thread that is about to sleep, each because completions arrived meanwhile.
const PARK_ATTEMPTS: u32 = 16;

/// Pauses between two looks for a response, which read the clock and a line that the worker writes.
const PAUSES: u32 = 8;

#[derive(Default)]
struct Current {
    thread: Option<(u32, Arc<ThreadWakers>)>,
    waiting_for: Vec<Arc<Generation>>,
    /// For a lone request.
    brief_wait: BriefWait,
    /// There is another processor for the worker, so that it can run while this thread looks.
    may_look: bool,
    /// When the thread began to wait for a lone request, and whether it has looked in vain.
    waits_since: Option<(Instant, bool)>,
}

#[cfg(not(simulated))]
thread_local! {
    static CURRENT: RefCell<Current> = RefCell::default();
}

/// Calls `act` with the calling thread's own state.
#[cfg(not(simulated))]
fn with_current<T>(act: impl FnOnce(&mut Current) -> T) -> T {
    CURRENT.with_borrow_mut(act)
}

/// The same for a thread of a simulated machine.
#[cfg(simulated)]
fn with_current<T>(act: impl FnOnce(&mut Current) -> T) -> T {
    tutti_simulated::thread_local(act)
}

impl ThreadWakers {
    /// Makes the calling thread listen thread number `thread`; call it before anything else of the pool.
    pub fn enter(self: &Arc<Self>, thread: u32) {
        debug_assert!(thread < self.count());
        with_current(|current| {
            current.thread = Some((thread, Arc::clone(self)));
            // A simulated clock stands still while a thread looks.
            current.may_look = !cfg!(simulated)
                && std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1);
        });
    }

    /// Runs for ever on each listen thread's runtime: handles completions when the router itself writes the eventfd.
    ///
    /// The counter is never read: tokio registers edge-triggered, and every write is an edge (eventfd(2), epoll(7)), which saves a system
    /// call per wake-up.
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

/// The number of the calling listen thread, if it is one.
pub(crate) fn current() -> Option<u32> {
    with_current(|current| current.thread.as_ref().map(|(thread, _)| *thread))
}

/// Called when the calling thread submits a request in this segment: it needs its completions.
pub(crate) fn wait_for(thread: u32, generation: &Arc<Generation>) {
    debug_assert_eq!(
        current(),
        Some(thread),
        "only the thread itself looks for its completions"
    );
    if generation.list_thread(thread) {
        generation.bells.watch(thread, drain);
        with_current(|current| current.waiting_for.push(Arc::clone(generation)));
    }
}

/// Handles all completions for the calling thread and wakes the waiting tasks.
pub fn drain() {
    with_list(|thread, list| {
        list.retain(|generation| {
            generation.drain(thread);
            !generation.unlist_if_idle(thread)
        });
    });
}

/// Call it before the runtime sleeps (`on_thread_park`). If this wakes a task, tokio does not sleep.
pub fn park() {
    with_list(|thread, list| {
        let mut has_woken = false;
        list.retain(|generation| {
            has_woken |= generation.drain(thread);
            !generation.unlist_if_idle(thread)
        });
        if !has_woken {
            look(thread, list);
        }
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
            // A worker sets completions as fast as they are taken, or cannot ring. This makes the poll return at once instead of sleeping.
            signal_self();
        }
    });
}

/// Looks for the response to a lone request for as long as that was worth it recently.
fn look(thread: u32, list: &[Arc<Generation>]) {
    let [generation] = list else {
        return;
    };
    let (may_look, most) =
        with_current(|current| (current.may_look, current.brief_wait.duration()));
    if !may_look || generation.outstanding(thread) != 1 {
        return;
    }
    let since = runtime::now();
    let mut has_come = false;
    while !has_come && since.elapsed() < most {
        for _ in 0..PAUSES {
            std::hint::spin_loop();
        }
        has_come = generation.drain(thread);
    }
    if has_come {
        with_current(|current| current.brief_wait.note(since.elapsed()));
    } else {
        let has_looked = !most.is_zero();
        with_current(|current| current.waits_since = Some((since, has_looked)));
    }
}

/// Call it when the runtime has woken up (`on_thread_unpark`).
pub fn unpark() {
    with_list(|thread, list| {
        let mut has_woken = false;
        for generation in list.iter() {
            generation.segment.clear_sleeping(thread);
            has_woken |= generation.drain(thread);
        }
        with_current(|current| match current.waits_since.take() {
            Some((since, _)) if has_woken => {
                current
                    .brief_wait
                    .note(runtime::now().saturating_duration_since(since));
            }
            // Something else has woken the thread, which had looked in vain.
            Some((_, true)) => current.brief_wait.note(Duration::MAX),
            _ => {}
        });
    });
}

fn signal_self() {
    let thread = with_current(|current| current.thread.clone());
    if let Some((index, threads)) = thread
        && let Some(fd) = threads.eventfd(index)
    {
        // Fails only when the counter is full, and then the descriptor is readable as intended.
        let _ = rustix::io::write(fd, &1_u64.to_ne_bytes());
    }
}

/// Calls `act` with the list, which is taken out meanwhile: a woken task may call back into the pool.
fn with_list(act: impl FnOnce(u32, &mut Vec<Arc<Generation>>)) {
    let taken = with_current(|current| {
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
    with_current(|current| {
        // Keeps the capacity, and what was added meanwhile.
        list.append(&mut current.waiting_for);
        current.waiting_for = list;
    });
}
