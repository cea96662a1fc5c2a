//! The functions that Node.js and its event loop call.

use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;

use crate::napi::{Arguments, Callback, Env, Handles, Js, Turns, Value};
use crate::requests::{Piece, Requests};
use crate::response::State;

/// Requests taken at one turn of the event loop: then its other events have theirs.
const MOST_AT_ONCE: u32 = 64;

/// Flags of [`write`]: each character is a byte; a whole answer ends its request; more is about to be written. JavaScript knows these
/// numbers (channel.js).
const LATIN1: u32 = 1;
const ENDS: u32 = 2;
const GOES_ON: u32 = 4;

/// The answers of [`read`] that are no bytes. JavaScript knows these numbers (channel.js).
const LATER: i32 = 0;
const END: i32 = 1;
const GONE: i32 = 2;

/// All that the event loop needs.
#[derive(Clone, Copy)]
struct Bridge {
    handles: Handles,
    on_request: Callback,
    on_news: Callback,
}

thread_local! {
    /// Never dropped: what is open when the process ends is found by the router.
    static REQUESTS: RefCell<Option<&'static mut Requests>> = const { RefCell::new(None) };
    static BRIDGE: Cell<Option<Bridge>> = const { Cell::new(None) };
}

/// Runs the body of a function that Node.js has called; a panic, whose text is on standard error, becomes `otherwise`.
fn guard<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(otherwise)
}

/// The requests, if this process takes any. JavaScript may not be called within.
fn with<T>(otherwise: T, body: impl FnOnce(&mut Requests) -> T) -> T {
    let body = || REQUESTS.with_borrow_mut(|all| all.as_mut().map(|requests| body(requests)));
    guard(None, body).unwrap_or(otherwise)
}

/// Gives news and requests to JavaScript, and says when there will be none any more.
unsafe extern "C" fn before_sleep(_handle: *mut c_void) {
    guard((), || {
        let Some(bridge) = BRIDGE.get() else { return };
        for slot in with(Vec::new(), |requests| requests.news()) {
            bridge.on_news.call(|js| [js.integer(slot as i32)]);
        }
        for _ in 0..MOST_AT_ONCE {
            let Some(taken) = with(None, Requests::take) else {
                break;
            };
            bridge.on_request.call(|js| {
                let text = with(null_mut(), |requests| js.latin1(&requests.text));
                let (slot, body) = (taken.slot as i32, taken.body as i32);
                [js.integer(slot), text, js.integer(body)]
            });
        }
        if with(false, Requests::takes_leave) {
            bridge.handles.stop();
            return;
        }
        let may_sleep = with(true, Requests::may_sleep);
        bridge.handles.stay_awake(!may_sleep);
    });
}

unsafe extern "C" fn after_sleep(_handle: *mut c_void) {
    with((), Requests::wake);
}

unsafe extern "C" fn on_event(_handle: *mut c_void, _status: c_int, _events: c_int) {
    with((), |requests| requests.clear_event());
}

unsafe extern "C" fn on_line(_handle: *mut c_void, _status: c_int, _events: c_int) {
    with((), Requests::listen);
}

/// Takes the process's place, or throws: then its requests are relayed to it.
unsafe extern "C" fn attach(env: Env, _info: Arguments) -> Value {
    // SAFETY: Node.js has called us.
    let js = unsafe { Js::of(env) };
    guard((), || match Requests::attach() {
        Ok(requests) => REQUESTS.set(Some(Box::leak(Box::new(requests)))),
        Err(error) => js.throw(&error.to_string()),
    });
    null_mut()
}

/// `begin(onRequest, onNews)`: takes requests from now on. Throws where that is not possible.
unsafe extern "C" fn begin(env: Env, info: Arguments) -> Value {
    // SAFETY: Node.js has called us.
    let js = unsafe { Js::of(env) };
    let [on_request, on_news] = js.arguments(info);
    guard((), || {
        let descriptors = with(None, |requests| requests.descriptors());
        let turns = Turns {
            before: before_sleep,
            after: after_sleep,
            event: on_event,
            line: on_line,
        };
        let handles = descriptors.and_then(|(event, line)| Handles::start(js, turns, event, line));
        let Some(handles) = handles else {
            js.throw("the server made no events for this application's workers");
            return;
        };
        BRIDGE.set(Some(Bridge {
            handles,
            on_request: Callback::new(js, on_request),
            on_news: Callback::new(js, on_news),
        }));
        if let Some(Err(error)) = with(None, |requests| Some(requests.begin())) {
            handles.stop();
            js.throw(&error.to_string());
        }
    });
    null_mut()
}

/// `relay()`: takes no requests any more; they are relayed to this process.
unsafe extern "C" fn relay(_env: Env, _info: Arguments) -> Value {
    with((), Requests::relay);
    if BRIDGE.get().is_none() {
        // Nothing calls us at the turns of the loop.
        with(false, Requests::takes_leave);
    }
    null_mut()
}

/// `write(slot, data, flags)`: how far the answer is (`State`).
unsafe extern "C" fn write(env: Env, info: Arguments) -> Value {
    // SAFETY: Node.js has called us.
    let js = unsafe { Js::of(env) };
    let [slot, data, flags] = js.arguments(info);
    let (slot, flags) = (js.number(slot), js.number(flags));
    let state = with(State::Gone, |requests| {
        let Some(written) = requests.written(slot) else {
            return State::Gone;
        };
        js.append(data, flags & LATIN1 != 0, written);
        match flags & GOES_ON {
            0 => requests.pass_on(slot, flags & ENDS != 0),
            _ => State::Taken,
        }
    });
    js.integer(state as i32)
}

/// `finish(slot)`: ends a request whose answer is whole.
unsafe extern "C" fn finish(env: Env, info: Arguments) -> Value {
    // SAFETY: Node.js has called us.
    let js = unsafe { Js::of(env) };
    let [slot] = js.arguments(info);
    let state = with(State::Gone, |requests| requests.finish(js.number(slot)));
    js.integer(state as i32)
}

/// `end(slot)`: the application has closed the connection.
unsafe extern "C" fn end(env: Env, info: Arguments) -> Value {
    // SAFETY: Node.js has called us.
    let js = unsafe { Js::of(env) };
    let [slot] = js.arguments(info);
    let state = with(State::Gone, |requests| requests.end(js.number(slot)));
    js.integer(state as i32)
}

/// `abort(slot)`: gives a request up.
unsafe extern "C" fn abort(env: Env, info: Arguments) -> Value {
    // SAFETY: Node.js has called us.
    let js = unsafe { Js::of(env) };
    let [slot] = js.arguments(info);
    with((), |requests| requests.abort(js.number(slot)));
    null_mut()
}

/// `isGone(slot)`: 1 if no client waits for the response any more.
unsafe extern "C" fn is_gone(env: Env, info: Arguments) -> Value {
    // SAFETY: Node.js has called us.
    let js = unsafe { Js::of(env) };
    let [slot] = js.arguments(info);
    js.integer(with(true, |requests| requests.is_gone(js.number(slot))).into())
}

/// `read(slot)`: a buffer of the request's body, or a number that says why not.
unsafe extern "C" fn read(env: Env, info: Arguments) -> Value {
    // SAFETY: Node.js has called us.
    let js = unsafe { Js::of(env) };
    let [slot] = js.arguments(info);
    with(null_mut(), |requests| {
        match requests.read(js.number(slot)) {
            Piece::Bytes(bytes) => js.buffer(bytes),
            Piece::Later => js.integer(LATER),
            Piece::End => js.integer(END),
            Piece::Gone => js.integer(GONE),
        }
    })
}

/// Called by Node.js when it loads the library (node_api.h), before anything of the application runs: returns its members, and hides the process
/// from others of its user, as language hosts are hidden. The kernel made it readable when `node` was executed, so its environment is readable
/// until then.
///
/// # Safety
/// Only Node.js may call it.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn napi_register_module_v1(env: Env, exports: Value) -> Value {
    // SAFETY: Node.js has called us.
    let js = unsafe { Js::of(env) };
    if let Err(error) = tutti_sys::process::hide_memory() {
        js.throw(&error.to_string());
    }
    js.export(exports, c"attach", attach);
    js.export(exports, c"begin", begin);
    js.export(exports, c"relay", relay);
    js.export(exports, c"write", write);
    js.export(exports, c"finish", finish);
    js.export(exports, c"end", end);
    js.export(exports, c"abort", abort);
    js.export(exports, c"isGone", is_gone);
    js.export(exports, c"read", read);
    exports
}
