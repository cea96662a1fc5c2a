//! PHP while it runs code: the calls of the C half that make it do so, and the `host_*` functions it calls meanwhile.
//!
//! Owns the pointer to what is being served. Called by `serve`, `resident` and by PHP. A `host_*` function must never call into PHP: the
//! C half could leave by `longjmp`, over this frame.

use std::{
    cell::Cell,
    ffi::c_int,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr::{self, NonNull},
};

use crate::{
    abi::{Bytes, PhpField, Request, ScriptFile, Variable},
    serving::{Current, Serving},
};

/// The worker may serve on.
pub(crate) const SERVED: c_int = 0;

unsafe extern "C" {
    fn tutti_php_serve(request: *const Request) -> c_int;
    fn tutti_php_resident(script: *const ScriptFile) -> c_int;
}

thread_local! {
    static CURRENT: Cell<Option<NonNull<dyn Current>>> = const { Cell::new(None) };
}

/// Has the callbacks speak to `current` while `run` runs.
fn during<'a>(current: &'a mut (dyn Current + 'a), run: impl FnOnce() -> c_int) -> c_int {
    let erased: NonNull<dyn Current + 'a> = NonNull::from(current);
    // SAFETY: only the lifetime changes; the pointer is forgotten before the borrow ends.
    let erased: NonNull<dyn Current> = unsafe { std::mem::transmute(erased) };
    CURRENT.set(Some(erased));
    let result = run();
    CURRENT.set(None);
    result
}

/// Runs one request. All callbacks until it returns get `current`.
pub(crate) fn serve(request: &Request, current: &mut dyn Current) -> c_int {
    // SAFETY: `request` and what it points to live until the call returns; every bailout is caught inside.
    during(current, || unsafe { tutti_php_serve(request) })
}

/// The end of a life of a resident script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    /// It left, by itself or because the worker has to.
    Over,
    /// It wants to boot anew.
    Reboot,
    /// By a fatal error within a request.
    Fatal,
    /// Without having asked for a request.
    NoLoop,
    /// PHP itself failed.
    Broken,
}

/// Boots a script and lets it run as long as it will. All callbacks until then get `current`.
pub(crate) fn reside(script: &ScriptFile, current: &mut dyn Current) -> Life {
    // SAFETY: `script` and what it points to live until the call returns; every bailout is caught inside.
    match during(current, || unsafe { tutti_php_resident(script) }) {
        0 => Life::Over,
        1 => Life::Reboot,
        2 => Life::Fatal,
        3 => Life::NoLoop,
        _ => Life::Broken,
    }
}

/// Runs `body` for what PHP is at. A panic must not unwind into C.
fn with_current<T>(otherwise: T, body: impl FnOnce(&mut dyn Current) -> T) -> T {
    let Some(mut current) = CURRENT.get() else {
        return otherwise;
    };
    // SAFETY: set by `during` from a unique reference that it does not use until PHP returns; callbacks do not nest.
    let current = unsafe { current.as_mut() };
    catch_unwind(AssertUnwindSafe(|| body(current))).unwrap_or(otherwise)
}

/// Runs `body` for the request being served, if there is one.
fn with<T: Copy>(otherwise: T, body: impl FnOnce(&mut Serving<'_>) -> T) -> T {
    with_current(otherwise, |current| {
        current
            .serving()
            .map_or(otherwise, |mut serving| body(&mut serving))
    })
}

/// The memory of a callback's arguments.
const fn given<'a>(data: *const u8, len: usize) -> &'a [u8] {
    Bytes { data, len }.as_slice()
}

#[unsafe(no_mangle)]
extern "C" fn host_write(data: *const u8, len: usize) -> usize {
    if len == 0 {
        return 0;
    }
    with(0, |serving| serving.write(given(data, len)))
}

#[unsafe(no_mangle)]
extern "C" fn host_flush() -> c_int {
    with(0, |serving| c_int::from(serving.flush()))
}

#[unsafe(no_mangle)]
extern "C" fn host_start(status: u32, fields: *const PhpField, count: usize) {
    let fields = if count == 0 {
        &[]
    } else {
        // SAFETY: the C half passes an array of `count` fields that lives during the call.
        unsafe { std::slice::from_raw_parts(fields, count) }
    };
    with((), |serving| serving.start(status, fields));
}

#[unsafe(no_mangle)]
extern "C" fn host_finish(script_goes_on: c_int) {
    with((), |serving| serving.finish(script_goes_on != 0));
}

#[unsafe(no_mangle)]
extern "C" fn host_read(buffer: *mut u8, len: usize) -> usize {
    if len == 0 {
        return 0;
    }
    // SAFETY: PHP passes a buffer of `len` writable bytes. They are initialised first: PHP's may not be.
    unsafe { ptr::write_bytes(buffer, 0, len) };
    // SAFETY: as above, and no other code holds it during the call.
    let buffer = unsafe { std::slice::from_raw_parts_mut(buffer, len) };
    with(0, |serving| serving.read(buffer))
}

#[unsafe(no_mangle)]
extern "C" fn host_is_client_gone() -> c_int {
    with(1, |serving| c_int::from(serving.is_client_gone()))
}

#[unsafe(no_mangle)]
extern "C" fn host_variables(variables: *mut *const Variable) -> usize {
    let (first, count) = with_current((ptr::null(), 0), |current| {
        if let Some(mut serving) = current.serving() {
            let list = serving.variables();
            return (list.as_ptr(), list.len());
        }
        let list = current.own_variables();
        (list.as_ptr(), list.len())
    });
    // SAFETY: the C half passes the address of its pointer.
    unsafe { variables.write(first) };
    count
}

#[unsafe(no_mangle)]
extern "C" fn host_request_headers(fields: *mut *const PhpField) -> usize {
    let (first, count) = with((ptr::null(), 0), |serving| {
        let list = serving.request_headers();
        (list.as_ptr(), list.len())
    });
    // SAFETY: the C half passes the address of its pointer.
    unsafe { fields.write(first) };
    count
}

#[unsafe(no_mangle)]
extern "C" fn host_getenv(name: *const u8, len: usize, value: *mut Bytes) -> c_int {
    if len == 0 {
        return 0;
    }
    let Some(found) = with(None, |serving| serving.variable(given(name, len))) else {
        return 0;
    };
    // SAFETY: the C half passes the address of its bytes.
    unsafe { value.write(found) };
    1
}

#[unsafe(no_mangle)]
extern "C" fn host_log(message: *const u8, len: usize, severity: i32) {
    if len > 0 {
        crate::log::message(given(message, len), severity);
    }
}

#[unsafe(no_mangle)]
extern "C" fn host_next() -> *const Request {
    with_current(None, |current| current.next()).map_or(ptr::null(), |request| request.as_ptr())
}

#[unsafe(no_mangle)]
extern "C" fn host_keep() {
    with_current((), |current| current.keep());
}

#[unsafe(no_mangle)]
extern "C" fn host_done(recycle: c_int) {
    with_current((), |current| current.done(recycle != 0));
}

#[unsafe(no_mangle)]
extern "C" fn host_boot_failed(message: *const u8, len: usize) {
    let message = if len == 0 { &[] } else { given(message, len) };
    with_current((), |current| current.boot_failed(message));
}

#[unsafe(no_mangle)]
extern "C" fn host_output(data: *const u8, len: usize) {
    if len > 0 {
        crate::log::output(given(data, len));
    }
}
