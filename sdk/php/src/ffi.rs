//! Calls of the C half that run no script: start, directives, the prototype's work.
//!
//! Called by `host`, `options` and `variables`; what runs scripts is in `running`.

use std::{
    ffi::{CStr, c_char, c_int, c_void},
    ptr,
};

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
