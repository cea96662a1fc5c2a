//! Processes that user code forks from a worker: the segment is out of their reach.
//!
//! Such a process inherits its parent's exchanges and place. Its response would be the parent's, and the slot, which its end releases, would
//! belong to another request while the parent still writes there. So the fork marks the new process, and `map` finds nothing in it: to all
//! code above it looks as if its clients had gone and it had been asked to end. Called by `worker`, and by hosts through it.
//!
//! Must never happen: a worker that is marked because its prototype has forked it. Only processes that have become workers mark their forks.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

static IS_FORKED: AtomicBool = AtomicBool::new(false);
static WATCH: Once = Once::new();
/// The signals that the process catches, by their bits, and their handler.
static CAUGHT: AtomicU64 = AtomicU64::new(0);
static HANDLER: AtomicUsize = AtomicUsize::new(0);

extern "C" fn mark() {
    IS_FORKED.store(true, Ordering::Relaxed);
    release_signals();
}

fn bit(signal: i32) -> u64 {
    1u64.checked_shl(signal.unsigned_abs()).unwrap_or(0)
}

/// Notes that the process catches this signal with its one handler, which does nothing in a forked process.
pub(crate) fn note_handler(signal: i32, handler: usize) {
    HANDLER.store(handler, Ordering::Relaxed);
    CAUGHT.fetch_or(bit(signal), Ordering::Relaxed);
}

/// Has the signals end a forked process as they would end any other. A handler of user code stays. Only async-signal-safe functions are
/// called.
fn release_signals() {
    let caught = CAUGHT.load(Ordering::Relaxed);
    let handler = HANDLER.load(Ordering::Relaxed);
    for signal in (1..64).filter(|signal| caught & bit(*signal) != 0) {
        // SAFETY: sigaction is a C struct for which all zeroes is a valid value (`SIG_DFL`, no flags, empty mask).
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: `action` outlives the call.
        let known = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) } == 0;
        if known && action.sa_sigaction == handler {
            // SAFETY: as above.
            action = unsafe { std::mem::zeroed() };
            // SAFETY: `action` is initialised and outlives the call.
            unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
        }
    }
}

/// Marks the processes that this one forks from now on. A fork that only executes a program (vfork(2), posix_spawn(3)) needs no mark.
pub(crate) fn watch() {
    if cfg!(miri) {
        return;
    }
    WATCH.call_once(|| {
        // SAFETY: the handler has the signature that fork(3) calls it with, and calls async-signal-safe functions only. An error is one of
        // memory, at the start of a process.
        let _ = unsafe { libc::pthread_atfork(None, None, Some(mark)) };
    });
}

/// True in a process that user code has forked from a worker: it has no request, and its writes to a response fail.
#[inline]
pub fn is_forked() -> bool {
    IS_FORKED.load(Ordering::Relaxed)
}

/// Ends such a process with this exit code; returns in every other.
///
/// It does not return from `main`: what would run then, and what is buffered, is the parent's.
pub fn end_if_forked(code: i32) {
    if is_forked() {
        // SAFETY: ends the process; nothing of it is used afterwards.
        unsafe { libc::_exit(code) };
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::sync::Arc;

    use crate::descriptors::Descriptors;
    use crate::interrupt;
    use crate::layout::Layout;
    use crate::request::{BodyRef, WireRequestHead};
    use crate::router::Segment;
    use crate::worker::Attached;

    /// A child of the application that no signal but SIGKILL could end.
    #[test]
    fn a_forked_process_ends_by_the_signals_that_its_parent_has_caught() {
        let layout = Layout {
            slots: 4,
            workers: 1,
            threads: 1,
        };
        let segment = Segment::create("forked", &layout).unwrap();
        let attached = Attached::open(segment.fd()).unwrap();
        let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        let descriptors = Arc::new(Descriptors {
            threads: vec![event],
            workers: Vec::new(),
            spool: None,
        });
        let signals = [libc::SIGUSR1, libc::SIGUSR2];
        attached
            .catch_signals(0..1, &descriptors, &signals)
            .unwrap();
        let _worker = attached.unstarted(0, &descriptors).unwrap();
        // SAFETY: the user's handler of one of them: none.
        unsafe { libc::signal(libc::SIGUSR1, libc::SIG_IGN) };
        // SAFETY: the child calls code that takes no lock, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            for signal in signals {
                // SAFETY: a signal to this process.
                unsafe { libc::raise(signal) };
            }
            // SAFETY: ends the process.
            unsafe { libc::_exit(1) };
        }
        let mut status = 0;
        // SAFETY: `status` lives through the call.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFSIGNALED(status), "{status:x}");
        assert_eq!(libc::WTERMSIG(status), libc::SIGUSR2);
        interrupt::release();
    }

    #[test]
    fn a_forked_process_can_neither_answer_nor_take_a_request() {
        let layout = Layout {
            slots: 4,
            workers: 1,
            threads: 1,
        };
        let segment = Segment::create("forked", &layout).unwrap();
        let submit = || {
            let slot = segment.allocate(0).unwrap();
            let head = WireRequestHead {
                method: b"GET",
                target: b"/",
                path: b"/",
                ..WireRequestHead::default()
            };
            segment.write_request(slot, &head, &BodyRef::None).unwrap();
            segment.submit(slot);
            slot
        };
        let (first, second) = (submit(), submit());
        let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        let mut worker = Attached::open(segment.fd())
            .unwrap()
            .into_worker(0, vec![event], None)
            .unwrap();
        let mut exchange = worker.next_request().unwrap();
        exchange.write(b"from the ").unwrap();
        // SAFETY: the child calls code that takes no lock, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_refused = exchange.write(b"child").is_err();
            exchange.finish();
            if is_refused {
                // Ends it with 0.
                worker.next_request();
            }
            // SAFETY: ends the process.
            unsafe { libc::_exit(1) };
        }
        let mut status = 0;
        // SAFETY: `status` lives through the call.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0, "the child was not refused, or went on");
        assert!(segment.response_head(first).unwrap().is_none());
        assert_eq!(segment.queue_len(), 1, "the child has taken a request");

        exchange.write(b"parent").unwrap();
        exchange.finish();
        segment.response_head(first).unwrap();
        let mut body = Vec::new();
        let ready = segment.response_ready(first).unwrap();
        ready.copy_to(&mut body);
        assert!(ready.finished);
        assert_eq!(body, b"from the parent");
        let mut exchange = worker.next_request().unwrap();
        exchange.finish();
        segment.response_head(second).unwrap();
        assert!(segment.response_ready(second).unwrap().finished);
    }
}
