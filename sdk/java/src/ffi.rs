//! The native methods of the Java part (`Native.java`).
//!
//! Each belongs to the thread that calls it, takes exchanges by number, and catches what panics: Java gets the answer for a request that is
//! over. Numbers of threads are pointers from `begin`, which the Java part's own loop alone has, until `end`.

use std::cell::RefCell;
use std::ffi::{CStr, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use jni_sys::{JNI_FALSE, JNI_TRUE, JNIEnv, jboolean, jbyteArray, jclass, jint, jlong, jobject};
use tutti_worker::log::line;
use tutti_worker::{
    ClientGone, Detached, Exchange, Level, Process, Served, Thread, UnstartedThread,
};

use crate::jvm::{self, Native};
use crate::serving::{self, Held};
use crate::websocket::{Received, WebSocket};
use crate::{log, request, response};

/// The class that has the methods.
pub(crate) const CLASS: &CStr = c"tutti/host/Native";

/// The client has gone, or the exchange has ended.
const GONE: jint = -1;
/// The head cannot be sent; `fault` tells why.
const REFUSED: jint = -2;
/// The body is over.
const END: jint = -1;
/// The body will never be whole.
const BROKEN: jint = -2;

/// As large as a piece is that is copied at once: a ring of the wire.
const PIECE: usize = 64 << 10;

/// The places of threads that have not begun.
static PLACES: Mutex<Vec<UnstartedThread>> = Mutex::new(Vec::new());

/// Requests that the process may have open for each of its threads, before it refuses further WebSockets.
static MOST_OPEN: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// Room for what is copied, kept from request to request.
    static ROOM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Gives a thread of the process to each caller that begins; each has at most so many requests open with the WebSockets among them.
pub(crate) fn offer(places: Vec<UnstartedThread>, most_open: u32) {
    MOST_OPEN.store(most_open, Ordering::Relaxed);
    *PLACES.lock().unwrap_or_else(PoisonError::into_inner) = places;
}

/// The methods, as Java knows them.
pub(crate) fn natives() -> Vec<Native> {
    let native = |name, signature, function| Native {
        name,
        signature,
        function,
    };
    vec![
        native(c"begin", c"()J", begin as *mut c_void),
        native(c"next", c"(J)[B", next as *mut c_void),
        native(c"end", c"(J)V", end as *mut c_void),
        native(
            c"send",
            c"(J[BILjava/nio/ByteBuffer;[BIIZ)I",
            send as *mut c_void,
        ),
        native(c"fault", c"(J)[B", fault as *mut c_void),
        native(c"await", c"(JZ)Z", wait as *mut c_void),
        native(c"read", c"(J[B)I", read as *mut c_void),
        native(c"receive", c"(J)[B", receive as *mut c_void),
        native(
            c"sendFrames",
            c"(JLjava/nio/ByteBuffer;[BII)I",
            send_frames as *mut c_void,
        ),
        native(c"finish", c"(J)V", finish as *mut c_void),
        native(c"abort", c"(J)V", abort as *mut c_void),
        native(c"isGone", c"(J)Z", is_gone as *mut c_void),
        native(c"log", c"(I[B)V", write_log as *mut c_void),
        native(c"where", c"()V", wait_for_where as *mut c_void),
        native(c"stop", c"()V", stop as *mut c_void),
    ]
}

/// Calls `act`; `otherwise` on a panic.
fn guarded<T>(otherwise: T, act: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or(otherwise)
}

/// Calls `act` with the exchange of this number; `otherwise` where there is none, or on a panic.
fn with<T: Copy>(exchange: jlong, otherwise: T, act: impl FnOnce(&Held) -> T) -> T {
    let find = || serving::find(number(exchange)).map_or(otherwise, |held| act(&held));
    guarded(otherwise, find)
}

fn number(exchange: jlong) -> u64 {
    u64::try_from(exchange).unwrap_or_default()
}

/// The thread that Java has the pointer of.
fn thread<'a>(thread: jlong) -> Option<&'a mut Thread> {
    let pointer = usize::try_from(thread).ok()? as *mut Thread;
    // SAFETY: null, or from `begin`, which has made it for the calling thread; `end` is that thread's last call.
    unsafe { pointer.as_mut() }
}

extern "system" fn begin(_env: *mut JNIEnv, _class: jclass) -> jlong {
    guarded(0, || {
        let mut places = PLACES.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(place) = places.pop() else {
            return 0;
        };
        drop(places);
        Box::into_raw(Box::new(place.begin())) as jlong
    })
}

extern "system" fn next(env: *mut JNIEnv, _class: jclass, this: jlong) -> jbyteArray {
    guarded(ptr::null_mut(), || {
        let Some(thread) = thread(this) else {
            return ptr::null_mut();
        };
        let Some(exchange) = next_to_serve(thread) else {
            return ptr::null_mut();
        };
        let number = serving::next_number();
        ROOM.with_borrow_mut(|room| {
            request::encode(&exchange, number, room);
            serving::hold(number, thread.detach(exchange, Served::Again));
            let head = jvm::new_bytes(env, room);
            if head.is_null()
                && let Some(held) = serving::take(number)
            {
                held.exchange.abort();
            }
            head
        })
    })
}

/// Waits for a request; refuses WebSockets beyond the most that the thread may have.
fn next_to_serve(thread: &mut Thread) -> Option<Exchange> {
    loop {
        let exchange = thread.next_request()?;
        let most = MOST_OPEN.load(Ordering::Relaxed);
        if !exchange.request().is_websocket() || thread.detached() < most {
            return Some(exchange);
        }
        let text = format!(
            "a WebSocket is refused: the thread has {most} requests open (`limits.concurrency`)"
        );
        line(Level::Warn, "", text.as_bytes());
        let fields = [(&b"content-length"[..], &b"0"[..])];
        // Without a head it would be 200, and the exchange is not begun.
        let _ = exchange.start(503, fields);
        thread.done(exchange, Served::Again);
    }
}

extern "system" fn end(_env: *mut JNIEnv, _class: jclass, this: jlong) {
    let Some(thread) = thread(this) else {
        return;
    };
    // SAFETY: from `Box::into_raw` in `begin`, and not used again.
    let thread = unsafe { Box::from_raw(ptr::from_mut(thread)) };
    guarded((), move || drop(thread));
}

/// A stretch of Java's memory: of a direct buffer, or of an array.
struct Stretch {
    buffer: jobject,
    array: jobject,
    start: jint,
    length: jint,
}

extern "system" fn send(
    env: *mut JNIEnv,
    _class: jclass,
    exchange: jlong,
    head: jbyteArray,
    head_length: jint,
    buffer: jobject,
    array: jbyteArray,
    start: jint,
    length: jint,
    flush: jboolean,
) -> jint {
    with(exchange, GONE, |held| {
        if !head.is_null() {
            let mut bytes = vec![0; usize::try_from(head_length).unwrap_or_default()];
            jvm::get_region(env, head, 0, &mut bytes);
            let started = held
                .exchange
                .with(|exchange| response::start(exchange, &bytes));
            if let Err(fault) = started {
                held.set_fault(fault);
                return REFUSED;
            }
        }
        let stretch = Stretch {
            buffer,
            array,
            start,
            length,
        };
        let taken = write(env, held, &stretch);
        if taken != GONE && flush != JNI_FALSE {
            held.exchange.with(Exchange::flush);
        }
        taken
    })
}

/// Writes what there is room for; how much that was.
fn write(env: *mut JNIEnv, held: &Held, stretch: &Stretch) -> jint {
    by_pieces(env, stretch, |piece| {
        held.exchange.with(|exchange| exchange.try_write(piece))
    })
}

/// Gives the bytes to `take`, as far as it takes them; how many that were.
fn by_pieces(
    env: *mut JNIEnv,
    stretch: &Stretch,
    take: impl Fn(&[u8]) -> Result<usize, ClientGone>,
) -> jint {
    let start = usize::try_from(stretch.start).unwrap_or_default();
    let length = usize::try_from(stretch.length).unwrap_or_default();
    let mut done = 0;
    while done < length {
        let size = length.saturating_sub(done).min(PIECE);
        let taken = if stretch.buffer.is_null() {
            ROOM.with_borrow_mut(|piece| {
                piece.resize(size, 0);
                let from = jint::try_from(start + done).unwrap_or(jint::MAX);
                jvm::get_region(env, stretch.array, from, piece);
                take(piece)
            })
        } else {
            // SAFETY: the Java part holds on to the buffer, and leaves it as it is, until this call returns.
            let Some(piece) = (unsafe { jvm::direct(env, stretch.buffer, start + done, size) })
            else {
                return GONE;
            };
            take(piece)
        };
        match taken {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(_) => return GONE,
        }
    }
    jint::try_from(done).unwrap_or(GONE)
}

/// Calls `act` with the exchange of this number and its frames; `otherwise` where there is none, or on a panic.
fn with_frames<T: Copy>(
    exchange: jlong,
    otherwise: T,
    act: impl FnOnce(&Detached, &WebSocket) -> T,
) -> T {
    with(exchange, otherwise, |held| match &held.websocket {
        Some(websocket) => act(&held.exchange, websocket),
        None => otherwise,
    })
}

extern "system" fn receive(env: *mut JNIEnv, _class: jclass, exchange: jlong) -> jbyteArray {
    let over = || jvm::new_bytes(env, b"");
    let found = guarded(None, || serving::find(number(exchange)));
    let Some(held) = found else {
        return over();
    };
    let received = guarded(Received::Over, || match &held.websocket {
        Some(websocket) => websocket.receive(&held.exchange),
        None => Received::Over,
    });
    match received {
        Received::Frame(frame) => jvm::new_bytes(env, &frame),
        Received::Nothing => ptr::null_mut(),
        Received::Over => over(),
    }
}

extern "system" fn send_frames(
    env: *mut JNIEnv,
    _class: jclass,
    exchange: jlong,
    buffer: jobject,
    array: jbyteArray,
    start: jint,
    length: jint,
) -> jint {
    with_frames(exchange, GONE, |exchange, websocket| {
        let stretch = Stretch {
            buffer,
            array,
            start,
            length,
        };
        by_pieces(env, &stretch, |piece| websocket.send(exchange, piece))
    })
}

extern "system" fn fault(env: *mut JNIEnv, _class: jclass, exchange: jlong) -> jbyteArray {
    with(exchange, ptr::null_mut(), |held| {
        jvm::new_bytes(env, held.fault().as_bytes())
    })
}

extern "system" fn wait(
    _env: *mut JNIEnv,
    _class: jclass,
    exchange: jlong,
    for_room: jboolean,
) -> jboolean {
    with(exchange, JNI_FALSE, |held| {
        match for_room {
            JNI_FALSE => held.exchange.wait_for_data(),
            _ if held.websocket.is_some() => held.exchange.wait_for_message_room(),
            _ => held.exchange.wait_for_room(),
        }
        let may_come = held
            .exchange
            .with(|exchange| !exchange.is_ended() && !exchange.is_client_gone());
        jboolean::from(may_come)
    })
}

extern "system" fn read(
    env: *mut JNIEnv,
    _class: jclass,
    exchange: jlong,
    target: jbyteArray,
) -> jint {
    with(exchange, BROKEN, |held| {
        ROOM.with_borrow_mut(|piece| {
            piece.resize(jvm::length_of(env, target).min(PIECE), 0);
            match held.exchange.with(|exchange| exchange.try_read_body(piece)) {
                Ok(None) => 0,
                Ok(Some(0)) => END,
                Ok(Some(count)) => {
                    jvm::set_region(env, target, piece.get(..count).unwrap_or_default());
                    jint::try_from(count).unwrap_or(BROKEN)
                }
                Err(_) => BROKEN,
            }
        })
    })
}

extern "system" fn finish(_env: *mut JNIEnv, _class: jclass, exchange: jlong) {
    guarded((), || {
        if let Some(held) = serving::take(number(exchange)) {
            held.exchange.finish();
        }
    });
}

extern "system" fn abort(_env: *mut JNIEnv, _class: jclass, exchange: jlong) {
    guarded((), || {
        if let Some(held) = serving::take(number(exchange)) {
            held.exchange.abort();
        }
    });
}

extern "system" fn is_gone(_env: *mut JNIEnv, _class: jclass, exchange: jlong) -> jboolean {
    with(exchange, JNI_TRUE, |held| {
        jboolean::from(held.exchange.with(Exchange::is_client_gone))
    })
}

extern "system" fn write_log(env: *mut JNIEnv, _class: jclass, level: jint, message: jbyteArray) {
    guarded((), || {
        let message = jvm::bytes_of(env, message);
        log::write(usize::try_from(level).unwrap_or(usize::MAX), &message);
    });
}

extern "system" fn wait_for_where(_env: *mut JNIEnv, _class: jclass) {
    guarded((), crate::stack_location::wait);
}

extern "system" fn stop(_env: *mut JNIEnv, _class: jclass) {
    guarded((), Process::stop);
}
