//! The C half of the host (`csrc/tutti.h`), and the functions it calls.
//!
//! Owns the pointer to the exchange being served. Called by `serve` and by PHP. A `host_*` function must never call into PHP: the
//! C half could leave by `longjmp`, over this frame.

use std::{
    cell::Cell,
    ffi::{CStr, c_char, c_int, c_void},
    panic::{AssertUnwindSafe, catch_unwind},
    ptr::{self, NonNull},
};

use crate::{
    script::Script,
    serving::{Current, Serving},
};

/// Bytes that the other half borrows until the request ends.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    data: *const u8,
    len: usize,
}

impl Span {
    /// Borrows `bytes`; the maker answers for their life.
    #[must_use]
    pub(crate) const fn new(bytes: &[u8]) -> Self {
        Self {
            data: bytes.as_ptr(),
            len: bytes.len(),
        }
    }

    /// The bytes.
    #[must_use]
    pub(crate) const fn as_slice<'a>(&self) -> &'a [u8] {
        // SAFETY: made by `new` from a slice that lives until the request ends, or by the C half from memory that lives as long as the
        // call it is passed in.
        unsafe { std::slice::from_raw_parts(self.data, self.len) }
    }

    /// No bytes.
    #[must_use]
    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// `tutti_variable`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Variable {
    /// Name of the `$_SERVER` entry.
    pub name: Span,
    /// Its value.
    pub value: Span,
    /// Permanent string of the name, or null.
    pub key: *mut c_void,
    /// Permanent string of the value, or null.
    pub constant: *mut c_void,
}

/// A header field, name and value (`tutti_field`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Field {
    pub(crate) name: Span,
    pub(crate) value: Span,
}

impl Field {
    /// Borrows both; the maker answers for their life.
    pub(crate) const fn new(name: &[u8], value: &[u8]) -> Self {
        Self {
            name: Span::new(name),
            value: Span::new(value),
        }
    }

    /// Field name, as the script spelled it.
    #[must_use]
    pub const fn name(&self) -> &[u8] {
        self.name.as_slice()
    }

    /// Field value, without space around it.
    #[must_use]
    pub const fn value(&self) -> &[u8] {
        self.value.as_slice()
    }
}

/// `tutti_script`.
#[repr(C)]
pub(crate) struct ScriptFile {
    file: *const c_char,
    len: usize,
    directory: *const c_char,
    directory_number: u64,
}

impl ScriptFile {
    /// Borrows the script; the maker answers for its life.
    pub(crate) fn new(script: &Script) -> Self {
        Self {
            file: script.file.as_ptr(),
            len: script.file.count_bytes(),
            directory: script.directory.path.as_ptr(),
            directory_number: script.directory.number,
        }
    }
}

/// `tutti_request`.
#[repr(C)]
pub(crate) struct Request {
    /// NUL-terminated, as all strings here.
    pub method: *const c_char,
    /// Target as sent.
    pub target: *const c_char,
    /// Query, not null.
    pub query: *const c_char,
    /// Script.
    pub script: ScriptFile,
    /// Or null.
    pub content_type: *const c_char,
    /// Or null.
    pub cookie: *const c_char,
    /// Or null.
    pub authorization: *const c_char,
    /// Zero when unknown, as in FPM.
    pub content_length: i64,
    /// 1000 or 1001.
    pub protocol: c_int,
    /// Not 0 when there is, or may be, a body.
    pub has_body: c_int,
    /// Seconds since the epoch.
    pub time: f64,
}

/// The worker may serve on.
pub(crate) const SERVED: c_int = 0;

unsafe extern "C" {
    fn tutti_php_startup(
        ini_file: *const c_char,
        ini_entries: *const c_char,
        is_resident: c_int,
        resident_folder: *const c_char,
    ) -> c_int;
    fn tutti_php_shutdown();
    fn tutti_php_lock_directive(name: *const u8, len: usize) -> c_int;
    fn tutti_php_has_directive(name: *const u8, len: usize) -> c_int;
    fn tutti_php_directive(name: *const u8, len: usize) -> i64;
    fn tutti_php_opcache_enabled() -> c_int;
    fn tutti_php_permanent(data: *const u8, len: usize) -> *mut c_void;
    fn tutti_php_worker_started(worker: u32);
    fn tutti_php_preload(path: *const c_char) -> c_int;
    fn tutti_php_serve(request: *const Request) -> c_int;
    fn tutti_php_resident(script: *const ScriptFile) -> c_int;
}

/// Starts PHP: once in a process, on its main thread. The strings are kept for good.
pub(crate) fn startup(
    ini_file: Option<&'static CStr>,
    ini_entries: &'static CStr,
    is_resident: bool,
    resident_folder: &'static CStr,
) -> bool {
    let file = ini_file.map_or(ptr::null(), CStr::as_ptr);
    // SAFETY: all strings are static; the caller is the only thread.
    let started = unsafe {
        tutti_php_startup(
            file,
            ini_entries.as_ptr(),
            c_int::from(is_resident),
            resident_folder.as_ptr(),
        )
    };
    started != 0
}

/// Ends PHP.
pub(crate) fn shutdown() {
    // SAFETY: PHP was started; no request runs.
    unsafe { tutti_php_shutdown() }
}

/// Makes a directive unchangeable for scripts; false if PHP does not know it.
pub(crate) fn lock_directive(name: &str) -> bool {
    // SAFETY: pointer and length describe `name`.
    unsafe { tutti_php_lock_directive(name.as_ptr(), name.len()) != 0 }
}

/// PHP knows this directive.
pub(crate) fn has_directive(name: &str) -> bool {
    // SAFETY: pointer and length describe `name`.
    unsafe { tutti_php_has_directive(name.as_ptr(), name.len()) != 0 }
}

/// Value of a numeric directive; 0 when unknown.
pub(crate) fn directive(name: &str) -> i64 {
    // SAFETY: pointer and length describe `name`.
    unsafe { tutti_php_directive(name.as_ptr(), name.len()) }
}

/// opcache is loaded and enabled.
pub(crate) fn is_opcache_enabled() -> bool {
    // SAFETY: PHP was started.
    unsafe { tutti_php_opcache_enabled() != 0 }
}

/// A PHP string for the life of the process.
pub(crate) fn permanent(text: &'static [u8]) -> *mut c_void {
    // SAFETY: pointer and length describe `text`; PHP copies it.
    unsafe { tutti_php_permanent(text.as_ptr(), text.len()) }
}

/// Compiles a script into opcache; false if that is not possible, with the reason in the log. For the prototype.
pub(crate) fn preload(path: &CStr) -> bool {
    // SAFETY: PHP was started, no request runs; the path outlives the call.
    unsafe { tutti_php_preload(path.as_ptr()) != 0 }
}

/// To be called in each worker before its first request.
pub(crate) fn worker_started(worker: u32) {
    // SAFETY: PHP was started; no request runs.
    unsafe { tutti_php_worker_started(worker) }
}

thread_local! {
    static CURRENT: Cell<Option<NonNull<dyn Current>>> = const { Cell::new(None) };
}

/// Makes `current` what the callbacks speak to while `run` runs.
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

/// How a life of a resident script ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    /// It left, or was told to.
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
    Span { data, len }.as_slice()
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
extern "C" fn host_start(status: u32, fields: *const Field, count: usize) {
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
    // SAFETY: as above, and nobody else holds it during the call.
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
extern "C" fn host_request_headers(fields: *mut *const Field) -> usize {
    let (first, count) = with((ptr::null(), 0), |serving| {
        let list = serving.request_headers();
        (list.as_ptr(), list.len())
    });
    // SAFETY: the C half passes the address of its pointer.
    unsafe { fields.write(first) };
    count
}

#[unsafe(no_mangle)]
extern "C" fn host_getenv(name: *const u8, len: usize, value: *mut Span) -> c_int {
    if len == 0 {
        return 0;
    }
    let Some(found) = with(None, |serving| serving.variable(given(name, len))) else {
        return 0;
    };
    // SAFETY: the C half passes the address of its span.
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
