//! The C half of the host (`csrc/tutti.h`), and the functions it calls.
//!
//! Owns the interpreter. A `host_*` function must never call into perl: the C half could leave by `longjmp`, over this frame. The
//! exchange goes through C as an opaque pointer, from `serve` to the `host_*` functions called below it.

use std::{
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    ptr::NonNull,
};

use tutti_seam::{Field, RawRequest, functions, text};
use tutti_worker::{Exchange, WHERE_SIGNAL};

use crate::response;

#[repr(C)]
struct RawPerl {
    opaque: [u8; 0],
}

const RECYCLE: c_int = 1;

unsafe extern "C" {
    fn tutti_perl_new(
        multithread: c_int,
        multiprocess: c_int,
        message: *mut *mut c_char,
    ) -> *mut RawPerl;
    fn tutti_perl_load(
        perl: *mut RawPerl,
        script: *const c_char,
        message: *mut *mut c_char,
    ) -> c_int;
    fn tutti_perl_clone(perl: *mut RawPerl) -> *mut RawPerl;
    fn tutti_perl_enter(perl: *mut RawPerl);
    fn tutti_perl_worker_started(perl: *mut RawPerl);
    fn tutti_perl_serve(
        perl: *mut RawPerl,
        request: *const RawRequest,
        exchange: *mut c_void,
    ) -> c_int;
    fn tutti_perl_hear_questions(signal: c_int);
    fn tutti_perl_end(perl: *mut RawPerl);
}

/// The numbers that PSGI tells an application.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Concurrency {
    /// `psgi.multithread`.
    pub(crate) multithread: bool,
    /// `psgi.multiprocess`.
    pub(crate) multiprocess: bool,
}

/// A perl interpreter. Ended when dropped: `END` blocks and destructors run.
#[derive(Debug)]
pub(crate) struct Interpreter {
    perl: NonNull<RawPerl>,
}

impl Interpreter {
    /// Starts perl. The text of an error is perl's own, or empty where perl has written it to standard error.
    pub(crate) fn new(concurrency: Concurrency) -> Result<Self, String> {
        let mut message = std::ptr::null_mut();
        // SAFETY: called once, from the only thread; `message` is a live place for a pointer.
        let perl = unsafe {
            tutti_perl_new(
                c_int::from(concurrency.multithread),
                c_int::from(concurrency.multiprocess),
                &raw mut message,
            )
        };
        // SAFETY: what the function has left there: null, or a string from malloc() for us.
        let text = unsafe { text::take(message) };
        NonNull::new(perl)
            .map(|perl| Self { perl })
            .ok_or_else(|| text.unwrap_or_else(|| "perl did not start".to_owned()))
    }

    /// Runs the script, which gives the application.
    pub(crate) fn load(&mut self, script: &CStr) -> Result<(), String> {
        let mut message = std::ptr::null_mut();
        // SAFETY: the interpreter is alive and ours; `script` ends with a NUL; `message` is a live place for a pointer.
        let result =
            unsafe { tutti_perl_load(self.perl.as_ptr(), script.as_ptr(), &raw mut message) };
        // SAFETY: what the function has left there: null, or a string from malloc() for us.
        let text = unsafe { text::take(message) };
        if result == 0 {
            Ok(())
        } else {
            Err(text.unwrap_or_else(|| "the script did not load".to_owned()))
        }
    }

    /// Another interpreter with the same application, for another thread. `None` where perl has no threads.
    pub(crate) fn duplicate(&mut self) -> Option<Self> {
        // SAFETY: the interpreter is alive and ours, and nothing of it runs.
        let perl = unsafe { tutti_perl_clone(self.perl.as_ptr()) };
        NonNull::new(perl).map(|perl| Self { perl })
    }

    /// Makes this thread the one that the interpreter is used by.
    pub(crate) fn enter(&mut self) {
        // SAFETY: the interpreter is alive and ours.
        unsafe { tutti_perl_enter(self.perl.as_ptr()) }
    }

    /// To be called in each worker after its fork.
    pub(crate) fn worker_started(&mut self) {
        // SAFETY: the interpreter is alive and ours.
        unsafe { tutti_perl_worker_started(self.perl.as_ptr()) };
        // SAFETY: starts a thread that only reads and writes lines.
        unsafe { tutti_perl_hear_questions(WHERE_SIGNAL) };
    }

    /// Serves one request. True if the worker is to be replaced.
    ///
    /// All that `request` points to must live until this returns: it describes the request of `exchange`.
    pub(crate) fn serve(&mut self, exchange: &mut Exchange, request: &RawRequest) -> bool {
        let exchange: *mut Exchange = exchange;
        // SAFETY: the interpreter is alive and ours; `request` and what it points to live until the call returns; the exchange is
        // used through this pointer only while the call runs, by the functions below, which it calls one at a time.
        let result = unsafe { tutti_perl_serve(self.perl.as_ptr(), request, exchange.cast()) };
        result == RECYCLE
    }
}

// SAFETY: an interpreter may be used by any thread, one at a time, which `&mut self` ensures; `enter` tells perl which.
unsafe impl Send for Interpreter {}

impl Drop for Interpreter {
    fn drop(&mut self) {
        // SAFETY: the interpreter is alive and ours, and not used again.
        unsafe { tutti_perl_end(self.perl.as_ptr()) }
    }
}

tutti_seam::host_functions!(Exchange);

#[unsafe(no_mangle)]
extern "C" fn host_start(
    exchange: *mut c_void,
    status: c_uint,
    fields: *const Field,
    count: usize,
) -> c_int {
    // SAFETY: the C half passes `count` fields, which live until the call returns.
    let fields = unsafe { text::fields(fields, count) };
    // SAFETY: null, or the exchange that `serve` has lent for the call that this one is made in; no other code uses it meanwhile.
    unsafe {
        functions::with(exchange, -1, |exchange: &mut Exchange| {
            response::start(exchange, u16::try_from(status).unwrap_or(500), fields);
            Some(0)
        })
    }
}
