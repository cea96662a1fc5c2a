//! The part of Node-API and libuv that is used, as Node.js exports it (node_api.h, uv.h): both are stable since Node.js 10, so nothing of
//! Node.js is needed to build this.
//!
//! Values are handles of the calling function's scope. Everything here belongs to the thread of the environment. A failed call leaves its result
//! as it was, NULL or 0, which every function of Node-API refuses in its turn: so its status is only looked at where it tells something.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;

/// An environment.
pub(crate) type Env = *mut c_void;
/// A value of JavaScript.
pub(crate) type Value = *mut c_void;
/// A callback's arguments.
pub(crate) type Arguments = *mut c_void;
/// A function for JavaScript.
pub(crate) type Function = unsafe extern "C" fn(Env, Arguments) -> Value;

/// `napi_string` (napi_valuetype).
const STRING: c_int = 4;

/// Kinds of handles (`uv_handle_type`), and UV_READABLE.
const UV_CHECK: c_int = 2;
const UV_IDLE: c_int = 6;
const UV_POLL: c_int = 8;
const UV_PREPARE: c_int = 9;
const UV_READABLE: c_int = 1;

unsafe extern "C" {
    fn napi_get_uv_event_loop(env: Env, result: *mut *mut c_void) -> c_int;
    fn napi_create_string_latin1(
        env: Env,
        bytes: *const c_char,
        length: usize,
        result: *mut Value,
    ) -> c_int;
    fn napi_get_value_string_latin1(
        env: Env,
        value: Value,
        target: *mut c_char,
        size: usize,
        result: *mut usize,
    ) -> c_int;
    fn napi_get_value_string_utf8(
        env: Env,
        value: Value,
        target: *mut c_char,
        size: usize,
        result: *mut usize,
    ) -> c_int;
    fn napi_get_value_uint32(env: Env, value: Value, result: *mut u32) -> c_int;
    fn napi_create_int32(env: Env, value: i32, result: *mut Value) -> c_int;
    fn napi_create_function(
        env: Env,
        name: *const c_char,
        length: usize,
        function: Function,
        data: *mut c_void,
        result: *mut Value,
    ) -> c_int;
    fn napi_set_named_property(env: Env, object: Value, name: *const c_char, value: Value)
    -> c_int;
    fn napi_get_cb_info(
        env: Env,
        info: Arguments,
        count: *mut usize,
        values: *mut Value,
        this: *mut Value,
        data: *mut *mut c_void,
    ) -> c_int;
    fn napi_create_reference(env: Env, value: Value, count: u32, result: *mut *mut c_void)
    -> c_int;
    fn napi_get_reference_value(env: Env, reference: *mut c_void, result: *mut Value) -> c_int;
    fn napi_open_handle_scope(env: Env, result: *mut *mut c_void) -> c_int;
    fn napi_close_handle_scope(env: Env, scope: *mut c_void) -> c_int;
    fn napi_async_init(env: Env, resource: Value, name: Value, result: *mut *mut c_void) -> c_int;
    fn napi_make_callback(
        env: Env,
        context: *mut c_void,
        receiver: Value,
        function: Value,
        count: usize,
        arguments: *const Value,
        result: *mut Value,
    ) -> c_int;
    fn napi_get_and_clear_last_exception(env: Env, result: *mut Value) -> c_int;
    fn napi_is_exception_pending(env: Env, result: *mut bool) -> c_int;
    fn napi_fatal_exception(env: Env, error: Value) -> c_int;
    fn napi_throw_error(env: Env, code: *const c_char, message: *const c_char) -> c_int;
    fn napi_create_object(env: Env, result: *mut Value) -> c_int;
    fn napi_create_buffer_copy(
        env: Env,
        length: usize,
        data: *const c_void,
        copy: *mut *mut c_void,
        result: *mut Value,
    ) -> c_int;
    fn napi_get_buffer_info(
        env: Env,
        value: Value,
        data: *mut *mut c_void,
        length: *mut usize,
    ) -> c_int;
    fn napi_typeof(env: Env, value: Value, result: *mut c_int) -> c_int;
    fn uv_handle_size(kind: c_int) -> usize;
    fn uv_unref(handle: *mut c_void);
    fn uv_poll_init(uv: *mut c_void, handle: *mut c_void, descriptor: c_int) -> c_int;
    fn uv_poll_start(
        handle: *mut c_void,
        events: c_int,
        call: unsafe extern "C" fn(*mut c_void, c_int, c_int),
    ) -> c_int;
    fn uv_poll_stop(handle: *mut c_void) -> c_int;
    fn uv_prepare_init(uv: *mut c_void, handle: *mut c_void) -> c_int;
    fn uv_prepare_start(handle: *mut c_void, call: unsafe extern "C" fn(*mut c_void)) -> c_int;
    fn uv_prepare_stop(handle: *mut c_void) -> c_int;
    fn uv_check_init(uv: *mut c_void, handle: *mut c_void) -> c_int;
    fn uv_check_start(handle: *mut c_void, call: unsafe extern "C" fn(*mut c_void)) -> c_int;
    fn uv_check_stop(handle: *mut c_void) -> c_int;
    fn uv_idle_init(uv: *mut c_void, handle: *mut c_void) -> c_int;
    fn uv_idle_start(handle: *mut c_void, call: unsafe extern "C" fn(*mut c_void)) -> c_int;
    fn uv_idle_stop(handle: *mut c_void) -> c_int;
}

/// An environment, in a call from JavaScript or from its event loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Js(Env);

impl Js {
    /// # Safety
    /// `env` is live, and the calling thread is its own.
    pub(crate) unsafe fn of(env: Env) -> Self {
        Self(env)
    }

    /// The arguments of the present call; those that are missing are `undefined`.
    pub(crate) fn arguments<const N: usize>(self, info: Arguments) -> [Value; N] {
        let mut values = [null_mut(); N];
        let mut count = N;
        // SAFETY: `values` has room for `count` of them; what is not wanted may be NULL.
        unsafe {
            napi_get_cb_info(
                self.0,
                info,
                &mut count,
                values.as_mut_ptr(),
                null_mut(),
                null_mut(),
            )
        };
        values
    }

    /// A number, 0 for what is none.
    pub(crate) fn number(self, value: Value) -> u32 {
        let mut number = 0;
        // SAFETY: the result is writable.
        unsafe { napi_get_value_uint32(self.0, value, &mut number) };
        number
    }

    pub(crate) fn integer(self, number: i32) -> Value {
        let mut value = null_mut();
        // SAFETY: the result is writable.
        unsafe { napi_create_int32(self.0, number, &mut value) };
        value
    }

    /// A string of which each byte is a character.
    pub(crate) fn latin1(self, bytes: &[u8]) -> Value {
        let mut value = null_mut();
        // SAFETY: `bytes` are readable, and copied.
        unsafe {
            napi_create_string_latin1(self.0, bytes.as_ptr().cast(), bytes.len(), &mut value)
        };
        value
    }

    pub(crate) fn buffer(self, bytes: &[u8]) -> Value {
        let mut value = null_mut();
        // SAFETY: `bytes` are readable, and copied; where the copy is, is not asked.
        unsafe {
            napi_create_buffer_copy(
                self.0,
                bytes.len(),
                bytes.as_ptr().cast(),
                null_mut(),
                &mut value,
            )
        };
        value
    }

    /// Appends the bytes of a string, in UTF-8 or a byte for each character, or those of a buffer.
    pub(crate) fn append(self, value: Value, is_latin1: bool, target: &mut Vec<u8>) {
        let mut kind = 0;
        // SAFETY: the result is writable.
        unsafe { napi_typeof(self.0, value, &mut kind) };
        if kind != STRING {
            let (mut data, mut length) = (null_mut(), 0);
            // SAFETY: both results are writable.
            unsafe { napi_get_buffer_info(self.0, value, &mut data, &mut length) };
            if !data.is_null() && length > 0 {
                // SAFETY: the buffer's memory, which no other code touches until this returns: it is its thread's.
                target.extend_from_slice(unsafe {
                    std::slice::from_raw_parts(data.cast::<u8>(), length)
                });
            }
            return;
        }
        let get = match is_latin1 {
            true => napi_get_value_string_latin1,
            false => napi_get_value_string_utf8,
        };
        let mut length = 0;
        // SAFETY: without a target it tells the length.
        unsafe { get(self.0, value, null_mut(), 0, &mut length) };
        let start = target.len();
        // It writes a NUL behind.
        target.resize(start + length + 1, 0);
        let room = target.get_mut(start..).unwrap_or_default();
        let mut written = 0;
        // SAFETY: `room` is writable, of this length.
        unsafe {
            get(
                self.0,
                value,
                room.as_mut_ptr().cast(),
                room.len(),
                &mut written,
            )
        };
        target.truncate(start + written);
    }

    pub(crate) fn throw(self, message: &str) {
        let message = std::ffi::CString::new(message).unwrap_or_default();
        // SAFETY: the code may be NULL, and the message ends with a NUL.
        unsafe { napi_throw_error(self.0, std::ptr::null(), message.as_ptr()) };
    }

    /// Sets a member that is this function.
    pub(crate) fn export(self, object: Value, name: &std::ffi::CStr, function: Function) {
        let mut value = null_mut();
        // SAFETY: a function without a name of its own and without data.
        unsafe {
            napi_create_function(
                self.0,
                std::ptr::null(),
                0,
                function,
                null_mut(),
                &mut value,
            )
        };
        // SAFETY: the name ends with a NUL.
        unsafe { napi_set_named_property(self.0, object, name.as_ptr(), value) };
    }

    fn keep(self, value: Value) -> *mut c_void {
        let mut reference = null_mut();
        // SAFETY: the result is writable.
        unsafe { napi_create_reference(self.0, value, 1, &mut reference) };
        reference
    }

    fn kept(self, reference: *mut c_void) -> Value {
        let mut value = null_mut();
        // SAFETY: NULL, or a reference of `keep`, which is never given back.
        unsafe { napi_get_reference_value(self.0, reference, &mut value) };
        value
    }
}

/// A function of JavaScript that the event loop calls, as long as the process lives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Callback {
    js: Js,
    context: *mut c_void,
    receiver: *mut c_void,
    function: *mut c_void,
}

impl Callback {
    pub(crate) fn new(js: Js, function: Value) -> Self {
        let mut receiver = null_mut();
        // SAFETY: the result is writable.
        unsafe { napi_create_object(js.0, &mut receiver) };
        let name = js.latin1(b"tutti");
        let mut context = null_mut();
        // SAFETY: an object and a string.
        unsafe { napi_async_init(js.0, receiver, name, &mut context) };
        Self {
            js,
            context,
            receiver: js.keep(receiver),
            function: js.keep(function),
        }
    }

    /// Calls it from the event loop, with what `arguments` makes, and has Node.js do what waits for the end of a call. An exception is
    /// an uncaught one.
    pub(crate) fn call<const N: usize>(&self, arguments: impl FnOnce(Js) -> [Value; N]) {
        let js = self.js;
        let mut scope = null_mut();
        // SAFETY: closed below.
        unsafe { napi_open_handle_scope(js.0, &mut scope) };
        let arguments = arguments(js);
        let mut result = null_mut();
        let (receiver, function) = (js.kept(self.receiver), js.kept(self.function));
        // SAFETY: `arguments` are `N` values of this scope.
        unsafe {
            napi_make_callback(
                js.0,
                self.context,
                receiver,
                function,
                N,
                arguments.as_ptr(),
                &mut result,
            )
        };
        let mut is_pending = false;
        // SAFETY: the result is writable.
        unsafe { napi_is_exception_pending(js.0, &mut is_pending) };
        if is_pending {
            let mut error = null_mut();
            // SAFETY: the result is writable.
            unsafe { napi_get_and_clear_last_exception(js.0, &mut error) };
            // SAFETY: what was thrown; ends the process unless the application takes such exceptions.
            unsafe { napi_fatal_exception(js.0, error) };
        }
        // SAFETY: opened above.
        unsafe { napi_close_handle_scope(js.0, scope) };
    }
}

/// The handles of libuv whose functions the event loop calls at its turns; never freed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handles {
    prepare: *mut c_void,
    check: *mut c_void,
    idle: *mut c_void,
    event: *mut c_void,
    line: *mut c_void,
}

/// The functions that it calls.
#[derive(Clone, Copy)]
pub(crate) struct Turns {
    /// Before it looks at the system's events, and may sleep.
    pub(crate) before: unsafe extern "C" fn(*mut c_void),
    pub(crate) after: unsafe extern "C" fn(*mut c_void),
    /// The worker's event is readable.
    pub(crate) event: unsafe extern "C" fn(*mut c_void, c_int, c_int),
    /// The way to the worker is readable.
    pub(crate) line: unsafe extern "C" fn(*mut c_void, c_int, c_int),
}

impl Handles {
    /// Begins; `event` and `line` are descriptors that stay open. None of the handles keeps the process alive.
    pub(crate) fn start(js: Js, turns: Turns, event: c_int, line: c_int) -> Option<Self> {
        let mut uv = null_mut();
        // SAFETY: the result is writable.
        unsafe { napi_get_uv_event_loop(js.0, &mut uv) };
        if uv.is_null() {
            return None;
        }
        let room = |kind| {
            // SAFETY: it only tells a number.
            let size = unsafe { uv_handle_size(kind) };
            // The memory is of 64-bit words, so that it is aligned as a struct of C is; it is leaked, as the loop uses it to its end.
            let words = vec![0u64; size.div_ceil(8)].into_boxed_slice();
            Box::leak(words).as_mut_ptr().cast::<c_void>()
        };
        let all = Self {
            prepare: room(UV_PREPARE),
            check: room(UV_CHECK),
            idle: room(UV_IDLE),
            event: room(UV_POLL),
            line: room(UV_POLL),
        };
        // SAFETY: room for such a handle, in the loop of this thread.
        unsafe { uv_prepare_init(uv, all.prepare) };
        // SAFETY: see above.
        unsafe { uv_check_init(uv, all.check) };
        // SAFETY: see above.
        unsafe { uv_idle_init(uv, all.idle) };
        // SAFETY: see above; the descriptor stays open.
        let event = unsafe { uv_poll_init(uv, all.event, event) };
        // SAFETY: see above; the descriptor stays open.
        let line = unsafe { uv_poll_init(uv, all.line, line) };
        if event != 0 || line != 0 {
            return None;
        }
        // SAFETY: a handle of this loop, and a function that lives on.
        unsafe { uv_prepare_start(all.prepare, turns.before) };
        // SAFETY: see above.
        unsafe { uv_check_start(all.check, turns.after) };
        // SAFETY: see above.
        unsafe { uv_poll_start(all.event, UV_READABLE, turns.event) };
        // SAFETY: see above.
        unsafe { uv_poll_start(all.line, UV_READABLE, turns.line) };
        for handle in [all.prepare, all.check, all.idle, all.event, all.line] {
            // SAFETY: a handle of this loop.
            unsafe { uv_unref(handle) };
        }
        Some(all)
    }

    /// Keeps the loop from sleeping, or lets it.
    pub(crate) fn stay_awake(&self, is_wanted: bool) {
        match is_wanted {
            // SAFETY: a handle of this thread's loop, and a function that lives on; nothing changes if it is started.
            true => unsafe { uv_idle_start(self.idle, nothing) },
            // SAFETY: a handle of this thread's loop.
            false => unsafe { uv_idle_stop(self.idle) },
        };
    }

    /// The loop does not call any more.
    pub(crate) fn stop(&self) {
        self.stay_awake(false);
        // SAFETY: a handle of this thread's loop.
        unsafe { uv_prepare_stop(self.prepare) };
        // SAFETY: see above.
        unsafe { uv_check_stop(self.check) };
        // SAFETY: see above.
        unsafe { uv_poll_stop(self.event) };
        // SAFETY: see above.
        unsafe { uv_poll_stop(self.line) };
    }
}

unsafe extern "C" fn nothing(_handle: *mut c_void) {}
