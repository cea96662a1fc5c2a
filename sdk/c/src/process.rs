//! The process and its workers.

use std::os::fd::{AsRawFd, RawFd};
use std::os::raw::c_char;

use ::tutti_worker::{Process, StartError, Worker};

use crate::exchange::tutti_exchange;
use crate::{TUTTI_FAULT, TUTTI_INVALID, TUTTI_OK, TUTTI_SYSTEM, guard};

/// A process that the server runs.
#[derive(Debug)]
pub struct tutti_process(Process);

/// A thread that serves requests.
#[derive(Debug)]
pub struct tutti_worker(pub(crate) Worker);

/// Called for each slot with news.
pub type tutti_news = Option<unsafe extern "C" fn(slot: u32, data: *mut std::ffi::c_void)>;

/// Takes this process's place in the server, or gives NULL: then it was started by somebody else, or cannot take the place
/// and has said why on standard error; `status`, unless NULL, is TUTTI_OK or TUTTI_SYSTEM accordingly.
///
/// To be called once, first thing in main: it takes over descriptors by number, and installs handlers for SIGTERM and SIGQUIT.
/// Given back by tutti_process_close.
///
/// # Safety
/// `status` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_process_open(status: *mut i32) -> *mut tutti_process {
    let (process, code) = guard((None, TUTTI_FAULT), || match Process::from_environment() {
        Ok(process) => (process, TUTTI_OK),
        Err(error) => {
            eprintln!("{error}");
            if let Some(hint) = error.hint {
                eprintln!("hint: {hint}");
            }
            (None, TUTTI_SYSTEM)
        }
    });
    // SAFETY: NULL or writable, by the contract of this function.
    if let Some(status) = unsafe { status.as_mut() } {
        *status = code;
    }
    process.map_or(std::ptr::null_mut(), |process| {
        Box::into_raw(Box::new(tutti_process(process)))
    })
}

/// Gives the process back; its workers must have been given back before. The program should exit then.
///
/// # Safety
/// `process` is NULL or from tutti_process_open, and not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_process_close(process: *mut tutti_process) {
    if !process.is_null() {
        // SAFETY: from `Box::into_raw` and not used again, by the contract of this function.
        let process = unsafe { Box::from_raw(process) };
        guard((), || drop(process));
    }
}

/// The number of threads that the process is to serve with (`threads` of the configuration); at least 1.
///
/// # Safety
/// `process` is NULL or from tutti_process_open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_process_threads(process: *const tutti_process) -> u32 {
    // SAFETY: NULL or a live process, by the contract of this function.
    let process = unsafe { process.as_ref() };
    process.map_or(1, |process| guard(1, || process.0.threads()))
}

/// The most exchanges that an event loop should hold (`limits.concurrency`, 1024 by default); 0 when `process` is NULL.
///
/// # Safety
/// `process` is NULL or from tutti_process_open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_process_concurrency(process: *const tutti_process) -> u32 {
    // SAFETY: NULL or a live process, by the contract of this function.
    let process = unsafe { process.as_ref() };
    process.map_or(0, |process| guard(0, || process.0.concurrency()))
}

/// Makes the calling thread one of the process's workers; NULL when there are as many as tutti_process_threads already.
/// Serialise the calls of several threads. Given back by tutti_worker_free, in the same thread.
///
/// # Safety
/// `process` is NULL or from tutti_process_open, and used by no other thread meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_worker_take(process: *mut tutti_process) -> *mut tutti_worker {
    // SAFETY: NULL or a live process that no other code uses, by the contract of this function.
    let Some(process) = (unsafe { process.as_mut() }) else {
        return std::ptr::null_mut();
    };
    let worker = guard(None, || {
        process
            .0
            .take_worker()
            .map(|unstarted| unstarted.into_worker())
    });
    worker.map_or(std::ptr::null_mut(), |worker| {
        Box::into_raw(Box::new(tutti_worker(worker)))
    })
}

/// Says that the program is ready, after tutti_worker_ready of each of its workers: the server counts it as started.
///
/// # Safety
/// `process` is NULL or from tutti_process_open, and used by no other thread meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_process_ready(process: *mut tutti_process) {
    // SAFETY: NULL or a live process that no other code uses, by the contract of this function.
    if let Some(process) = unsafe { process.as_mut() } {
        guard((), || process.0.ready());
    }
}

/// Says why the program cannot start, in place of tutti_process_ready: `step` is what it was doing, `message` what went wrong.
/// The person who changed the configuration reads this. The program should exit with a status other than 0 then.
///
/// # Safety
/// `process` is NULL or from tutti_process_open, and used by no other thread meanwhile; the texts are NULL or end with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_process_fail(
    process: *mut tutti_process,
    step: *const c_char,
    message: *const c_char,
) {
    // SAFETY: NULL or a live process that no other code uses, by the contract of this function.
    let Some(process) = (unsafe { process.as_mut() }) else {
        return;
    };
    // SAFETY: NULL or a string, by the contract of this function.
    let step = unsafe { text(step) };
    // SAFETY: by the contract of this function.
    let message = unsafe { text(message) };
    guard((), || process.0.fail(StartError::new(step, message)));
}

/// # Safety
/// `text` is NULL or ends with a NUL.
unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: not NULL, and a string by the contract of this function.
    let text = unsafe { std::ffi::CStr::from_ptr(text) };
    text.to_string_lossy().into_owned()
}

/// Makes all workers of the process leave when they have finished what they are doing, as SIGTERM does. From any thread.
#[unsafe(no_mangle)]
pub extern "C" fn tutti_process_stop() {
    guard((), Process::stop);
}

/// Takes requests from now on.
///
/// # Safety
/// `worker` is NULL or this thread's, from tutti_worker_take.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_worker_ready(worker: *mut tutti_worker) {
    // SAFETY: NULL or a live worker of this thread, by the contract of this function.
    if let Some(worker) = unsafe { worker.as_mut() } {
        guard((), || worker.0.ready());
    }
}

/// Takes no further request; then gives the worker back. Its exchanges must have ended.
///
/// # Safety
/// `worker` is NULL or this thread's, from tutti_worker_take, and not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_worker_free(worker: *mut tutti_worker) {
    if !worker.is_null() {
        // SAFETY: from `Box::into_raw` and not used again, by the contract of this function.
        let mut worker = unsafe { Box::from_raw(worker) };
        guard((), move || worker.0.retire());
    }
}

/// Waits for a request. NULL: leave; tutti_worker_free and the end of the thread should follow. Ended by tutti_exchange_finish or
/// tutti_exchange_abort.
///
/// # Safety
/// `worker` is NULL or this thread's, from tutti_worker_take.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_worker_next(worker: *mut tutti_worker) -> *mut tutti_exchange {
    // SAFETY: NULL or a live worker of this thread, by the contract of this function.
    let Some(worker) = (unsafe { worker.as_mut() }) else {
        return std::ptr::null_mut();
    };
    tutti_exchange::hand_out(guard(None, || worker.0.next_request()))
}

/// True if the worker is to leave. An event loop ends when its exchanges have ended, WebSockets too: the server bounds the time for that
/// (`limits.drain_timeout`).
///
/// # Safety
/// `worker` is NULL or this thread's, from tutti_worker_take.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_worker_must_stop(worker: *const tutti_worker) -> bool {
    // SAFETY: NULL or a live worker of this thread, by the contract of this function.
    let worker = unsafe { worker.as_ref() };
    worker.is_none_or(|worker| guard(true, || worker.0.must_stop()))
}

/// Makes this worker an event loop's, before tutti_worker_ready: it holds up to `concurrency` exchanges, and looks for
/// requests with tutti_worker_try_next instead of tutti_worker_next. TUTTI_SYSTEM: the server made no event for it.
///
/// # Safety
/// `worker` is NULL or this thread's, from tutti_worker_take.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_worker_enter_loop(
    worker: *mut tutti_worker,
    concurrency: u32,
) -> i32 {
    // SAFETY: NULL or a live worker of this thread, by the contract of this function.
    let Some(worker) = (unsafe { worker.as_mut() }) else {
        return TUTTI_INVALID;
    };
    guard(TUTTI_FAULT, || match worker.0.enter_loop(concurrency) {
        Ok(()) => TUTTI_OK,
        Err(_) => TUTTI_SYSTEM,
    })
}

/// The descriptor to poll for reading beside the program's own; -1 when there is none. It stays the library's.
///
/// # Safety
/// `worker` is NULL or this thread's, from tutti_worker_take.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_worker_event_fd(worker: *const tutti_worker) -> RawFd {
    // SAFETY: NULL or a live worker of this thread, by the contract of this function.
    let worker = unsafe { worker.as_ref() };
    worker.map_or(-1, |worker| {
        guard(-1, || {
            worker.0.event_fd().map_or(-1, |event| event.as_raw_fd())
        })
    })
}

/// Makes the descriptor unreadable again: after each poll that reports it, unless the poll is edge-triggered.
///
/// # Safety
/// `worker` is NULL or this thread's, from tutti_worker_take.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_worker_clear_event(worker: *mut tutti_worker) {
    // SAFETY: NULL or a live worker of this thread, by the contract of this function.
    if let Some(worker) = unsafe { worker.as_ref() } {
        guard((), || worker.0.clear_event());
    }
}

/// A request if one waits and this worker may take it, else NULL. Run its handler until that waits for something before
/// asking for the next. Ended by tutti_exchange_finish or tutti_exchange_abort.
///
/// # Safety
/// `worker` is NULL or this thread's, from tutti_worker_take.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_worker_try_next(worker: *mut tutti_worker) -> *mut tutti_exchange {
    // SAFETY: NULL or a live worker of this thread, by the contract of this function.
    let Some(worker) = (unsafe { worker.as_mut() }) else {
        return std::ptr::null_mut();
    };
    tutti_exchange::hand_out(guard(None, || worker.0.try_next()))
}

/// To be called when the loop has nothing left to do. True: it may poll, the descriptor will become readable. False: look again.
///
/// # Safety
/// `worker` is NULL or this thread's, from tutti_worker_take.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_worker_prepare_sleep(worker: *mut tutti_worker) -> bool {
    // SAFETY: NULL or a live worker of this thread, by the contract of this function.
    let worker = unsafe { worker.as_mut() };
    worker.is_some_and(|worker| guard(false, || worker.0.prepare_sleep()))
}

/// To be called when the poll has returned, for whatever reason.
///
/// # Safety
/// `worker` is NULL or this thread's, from tutti_worker_take.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_worker_woken(worker: *mut tutti_worker) {
    // SAFETY: NULL or a live worker of this thread, by the contract of this function.
    if let Some(worker) = unsafe { worker.as_mut() } {
        guard((), || worker.0.woken());
    }
}

/// Calls `news` with the slot (tutti_exchange_slot) of each exchange that may go on: what answered TUTTI_AGAIN may work now, or
/// its client has gone. Slots of exchanges that have ended may be among them.
///
/// # Safety
/// `worker` is NULL or this thread's, from tutti_worker_take; `news` does not unwind, and may not use `worker`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_worker_attention(
    worker: *mut tutti_worker,
    news: tutti_news,
    data: *mut std::ffi::c_void,
) {
    // SAFETY: NULL or a live worker of this thread, by the contract of this function.
    if let (Some(worker), Some(news)) = (unsafe { worker.as_ref() }, news) {
        guard((), || {
            worker.0.drain_attention(|slot| {
                // SAFETY: the caller's function, with the caller's data.
                unsafe { news(slot, data) };
            });
        });
    }
}
