//! The C part of the host (`csrc/tutti.h`), and the functions it calls.
//!
//! A `host_*` function must never call into ruby: the C part could leave by `longjmp`, over this frame. A [`Serving`] goes through C as an
//! opaque pointer, from `host_begin` to `host_end`.

use std::{
    ffi::{CStr, CString, OsStr, c_char, c_int, c_uint, c_void},
    os::fd::IntoRawFd,
    os::unix::ffi::OsStrExt as _,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    ptr,
};

use tutti_seam::functions::Serving as _;
use tutti_seam::{Field, RawRequest, functions, taken_over, text};
use tutti_worker::{Process, Served, WHERE_SIGNAL};

use crate::response::{self, Body};
use crate::serving::{Serving, ThreadSlot};

/// The part of the host that is written in Ruby.
const PRELUDE: &str = include_str!("../lib/tutti.rb");

const REQUEST: c_int = 0;
const LEAVE: c_int = 1;

/// `tutti_options`.
#[repr(C)]
struct RawOptions {
    script: *const c_char,
    hooks: *const c_char,
    prelude: *const c_char,
    prelude_len: usize,
    multithread: c_int,
    multiprocess: c_int,
    hidden: *const c_char,
}

unsafe extern "C" {
    fn tutti_ruby_start(options: *const RawOptions, message: *mut *mut c_char) -> c_int;
    fn tutti_ruby_load(options: *const RawOptions, message: *mut *mut c_char) -> c_int;
    fn tutti_ruby_settle();
    fn tutti_ruby_fork() -> c_int;
    fn tutti_ruby_enter();
    fn tutti_ruby_boot(message: *mut *mut c_char) -> c_int;
    fn tutti_ruby_start_thread(place: *mut c_void, message: *mut *mut c_char) -> c_int;
    fn tutti_ruby_join();
    fn tutti_ruby_catch_where(signal: c_int);
    fn tutti_ruby_end();
}

/// The options that an application is loaded by.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) script: CString,
    pub(crate) hooks: Option<CString>,
    pub(crate) multithread: bool,
    pub(crate) multiprocess: bool,
    /// A variable that ruby reads when it starts, and that the application has not set.
    pub(crate) hidden: Option<&'static CStr>,
}

impl Options {
    fn raw(&self) -> RawOptions {
        RawOptions {
            script: self.script.as_ptr(),
            hooks: self.hooks.as_deref().map_or(ptr::null(), CStr::as_ptr),
            prelude: PRELUDE.as_ptr().cast(),
            prelude_len: PRELUDE.len(),
            multithread: c_int::from(self.multithread),
            multiprocess: c_int::from(self.multiprocess),
            hidden: self.hidden.map_or(ptr::null(), CStr::as_ptr),
        }
    }
}

/// The ruby of this process. Ended when dropped: `at_exit` handlers and finalizers run.
#[derive(Debug)]
pub(crate) struct Interpreter(());

impl Interpreter {
    /// Starts ruby; once in a process, on its main thread. The text of an error is ruby's own, or empty where ruby has written it
    /// to standard error.
    pub(crate) fn start(options: &Options) -> Result<Self, String> {
        // SAFETY: called once, by the main thread; the options live until the call returns.
        call(|message| unsafe { tutti_ruby_start(&options.raw(), message) })?;
        Ok(Self(()))
    }

    /// Loads the application.
    pub(crate) fn load(&mut self, options: &Options) -> Result<(), String> {
        // SAFETY: ruby is started and this is its main thread; the options live until the call returns.
        call(|message| unsafe { tutti_ruby_load(&options.raw(), message) })
    }

    /// Prepares a loaded application for the forks.
    pub(crate) fn settle(&mut self) {
        // SAFETY: ruby is started and this is its main thread.
        unsafe { tutti_ruby_settle() }
    }

    /// To be called in each worker after its fork, before anything else.
    pub(crate) fn enter(&mut self) {
        // SAFETY: sets a flag.
        unsafe { tutti_ruby_enter() };
        // SAFETY: installs a handler that only reads and writes a line.
        unsafe { tutti_ruby_catch_where(WHERE_SIGNAL) };
    }

    /// Calls the hook of a worker that starts.
    pub(crate) fn boot(&mut self) -> Result<(), String> {
        // SAFETY: ruby is started and this is its main thread.
        call(|message| unsafe { tutti_ruby_boot(message) })
    }

    /// Starts a thread, and waits until it serves.
    pub(crate) fn start_thread(&mut self, place: ThreadSlot) -> Result<(), String> {
        let place: *mut c_void = Box::into_raw(Box::new(place)).cast();
        // SAFETY: ruby is started and this is its main thread; the place is given away, to `host_begin` or `host_forget`.
        call(|message| unsafe { tutti_ruby_start_thread(place, message) })
    }

    /// Waits until all threads have ended, and calls the hook of a worker that ends.
    pub(crate) fn join(&mut self) {
        // SAFETY: ruby is started and this is its main thread.
        unsafe { tutti_ruby_join() }
    }
}

impl Drop for Interpreter {
    fn drop(&mut self) {
        // SAFETY: ruby is started, this is its main thread, and it is not used again.
        unsafe { tutti_ruby_end() }
    }
}

/// Forks as ruby does: 0 in the child, negative when that failed. On the main thread of a process with an [`Interpreter`].
pub(crate) fn fork() -> c_int {
    // SAFETY: the worker base forks once the application has been loaded, on the thread that has done it.
    unsafe { tutti_ruby_fork() }
}

/// Calls a function that returns 0, or else gives a text.
fn call(function: impl FnOnce(*mut *mut c_char) -> c_int) -> Result<(), String> {
    let mut message = ptr::null_mut();
    let result = function(&raw mut message);
    // SAFETY: what the function has left there: null, or a string from malloc() for us.
    let text = unsafe { text::take(message) };
    match result {
        0 => Ok(()),
        _ => Err(text.unwrap_or_else(|| "ruby did not start".to_owned())),
    }
}

tutti_seam::host_functions!(Serving);

/// Calls `act` with the thread behind the pointer; `otherwise` where there is none, or on a panic.
fn with_serving<T>(serving: *mut c_void, otherwise: T, act: impl FnOnce(&mut Serving) -> T) -> T {
    // SAFETY: null, or what `host_begin` has made and `host_end` has not ended yet; the C part lets one thread at a time use it
    // (`csrc/tutti.h`).
    unsafe { functions::with(serving, otherwise, |serving| Some(act(serving))) }
}

#[unsafe(no_mangle)]
extern "C" fn host_begin(place: *mut c_void) -> *mut c_void {
    // SAFETY: from `start_thread`, which has given it away; the C part uses it once.
    let place = unsafe { Box::from_raw(place.cast::<ThreadSlot>()) };
    catch_unwind(AssertUnwindSafe(|| Box::new(Serving::begin(*place))))
        .map_or(ptr::null_mut(), |serving| Box::into_raw(serving).cast())
}

#[unsafe(no_mangle)]
extern "C" fn host_forget(place: *mut c_void) {
    // SAFETY: as in `host_begin`, in whose stead this is called.
    drop(unsafe { Box::from_raw(place.cast::<ThreadSlot>()) });
}

#[unsafe(no_mangle)]
extern "C" fn host_end(serving: *mut c_void) {
    if !serving.is_null() {
        // SAFETY: from `host_begin`, and not used again.
        let serving = unsafe { Box::from_raw(serving.cast::<Serving>()) };
        let _ = catch_unwind(AssertUnwindSafe(|| drop(serving)));
    }
}

#[unsafe(no_mangle)]
extern "C" fn host_next(serving: *mut c_void, request: *mut *const RawRequest) -> c_int {
    with_serving(serving, LEAVE, |serving| match serving.next() {
        Some(next) => {
            // SAFETY: the C part passes a live place for the pointer. What it points to stays until `host_done`.
            unsafe { *request = next };
            REQUEST
        }
        None => LEAVE,
    })
}

#[unsafe(no_mangle)]
extern "C" fn host_done(serving: *mut c_void, leaves: c_int) {
    let then = if leaves == 0 {
        Served::Again
    } else {
        Served::Recycle
    };
    with_serving(serving, (), |serving| serving.done(then));
}

#[unsafe(no_mangle)]
extern "C" fn host_stop() {
    Process::stop();
}

#[unsafe(no_mangle)]
extern "C" fn host_start(
    serving: *mut c_void,
    status: c_uint,
    fields: *const Field,
    count: usize,
) -> *const c_char {
    // SAFETY: the C part passes `count` fields, which live until the call returns.
    let fields = unsafe { text::fields(fields, count) };
    with_serving(
        serving,
        c"something in the server failed".as_ptr(),
        |serving| {
            let Some(exchange) = &serving.exchange else {
                return c"there is no request".as_ptr();
            };
            match response::start(exchange, u16::try_from(status).unwrap_or(500), fields) {
                Ok(()) => ptr::null(),
                Err(fault) => {
                    serving.fault = CString::new(fault).unwrap_or_default();
                    serving.fault.as_ptr()
                }
            }
        },
    )
}

#[unsafe(no_mangle)]
extern "C" fn host_room(serving: *mut c_void) -> usize {
    with_serving(serving, 0, |serving| {
        serving.exchange().map_or(0, |exchange| exchange.room())
    })
}

#[unsafe(no_mangle)]
extern "C" fn host_may_take_over(serving: *mut c_void) -> c_int {
    with_serving(serving, 0, |serving| c_int::from(serving.may_take_over()))
}

#[unsafe(no_mangle)]
extern "C" fn host_take_over(serving: *mut c_void) -> c_int {
    with_serving(serving, -1, |serving| {
        serving.take_over().map_or(-1, IntoRawFd::into_raw_fd)
    })
}

#[unsafe(no_mangle)]
extern "C" fn host_has_connections() -> c_int {
    c_int::from(taken_over::open() > 0)
}

#[unsafe(no_mangle)]
extern "C" fn host_open(serving: *mut c_void, path: *const c_char, size: *mut i64) -> c_int {
    // SAFETY: the C part passes a string with a NUL at its end.
    let path = unsafe { CStr::from_ptr(path) };
    with_serving(serving, -1, |serving| {
        let Ok(body) = Body::open(Path::new(OsStr::from_bytes(path.to_bytes()))) else {
            return -1;
        };
        // SAFETY: the C part passes a live place for the number.
        unsafe { *size = i64::try_from(body.size()).unwrap_or(i64::MAX) };
        serving.body = Some(body);
        0
    })
}

#[unsafe(no_mangle)]
extern "C" fn host_send(serving: *mut c_void) -> c_int {
    with_serving(serving, -1, |serving| {
        let (Some(body), Some(exchange)) = (&mut serving.body, &serving.exchange) else {
            return -1;
        };
        body.send(exchange).map_or(-1, |()| 0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn host_close(serving: *mut c_void) {
    with_serving(serving, (), |serving| serving.body = None);
}
