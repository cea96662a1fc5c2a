//! Requests over HTTP/3: so many at once on each connection, the next one when one is answered. Heads are written once, and answers read no
//! further than to see that they are good, so that the client costs little and the same with every server.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use quinn::Connection;
use serde_json::{Value, json};
use tokio::task::LocalSet;

use crate::quic;

/// Kinds of frames (RFC 9114 §7.2).
const DATA: u64 = 0;
const HEADERS: u64 = 1;
/// `:status: 200` of the static table (RFC 9204, appendix A), as the first field of an answer.
const GOOD: u8 = 0xd9;
/// An answer is no larger.
const MOST: usize = 1 << 24;

/// A load: on each of so many connections so many requests at once.
pub(crate) struct Plan {
    pub(crate) connections: usize,
    pub(crate) streams: usize,
    pub(crate) duration: Duration,
}

/// The answers and the mistakes so far.
#[derive(Default)]
struct Outcome {
    times: Vec<Duration>,
    errors: usize,
    first_error: Option<String>,
    /// The length of the first good answer's body; the others must have the same.
    length: Option<usize>,
}

impl Outcome {
    fn count(&mut self, time: Duration, length: Result<usize, String>) {
        match length {
            Ok(length) if *self.length.get_or_insert(length) == length => self.times.push(time),
            Ok(length) => self.fail(format!("a body of {length} bytes")),
            Err(error) => self.fail(error),
        }
    }

    fn fail(&mut self, error: String) {
        self.errors += 1;
        self.first_error.get_or_insert(error);
    }
}

pub(crate) fn run(address: SocketAddr, path: &str, plan: &Plan) -> Result<Value, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let request: Rc<[u8]> = request(&address.to_string(), path).into();
    let outcome = Rc::new(RefCell::new(Outcome::default()));
    let begin = LocalSet::new().block_on(&runtime, async {
        let endpoint = quic::endpoint(false, &Arc::new(AtomicUsize::new(0)))?;
        let mut connections = Vec::new();
        for _ in 0..plan.connections {
            connections.push(connect(&endpoint, address).await?);
        }
        let begin = Instant::now();
        let end = begin + plan.duration;
        let mut tasks = Vec::new();
        for connection in &connections {
            for _ in 0..plan.streams {
                let work = ask_until(
                    end,
                    connection.clone(),
                    Rc::clone(&request),
                    Rc::clone(&outcome),
                );
                tasks.push(tokio::task::spawn_local(work));
            }
        }
        for task in tasks {
            task.await.map_err(|error| error.to_string())?;
        }
        for connection in &connections {
            connection.close(0x100_u32.into(), b"");
        }
        Ok::<_, String>(begin)
    })?;
    let seconds = begin.elapsed().as_secs_f64();
    let outcome = outcome.take();
    Ok(report(
        outcome.times,
        seconds,
        outcome.errors,
        outcome.first_error,
    ))
}

/// A connection on which this side has said its settings (none).
pub(crate) async fn connect(
    endpoint: &quinn::Endpoint,
    address: SocketAddr,
) -> Result<Connection, String> {
    let connecting = endpoint
        .connect(address, quic::NAME)
        .map_err(|error| error.to_string())?;
    let connection = connecting.await.map_err(|error| error.to_string())?;
    let mut control = connection
        .open_uni()
        .await
        .map_err(|error| error.to_string())?;
    control
        .write_all(b"\x00\x04\x00")
        .await
        .map_err(|error| error.to_string())?;
    // It lasts as long as the connection.
    let is_kept = connection.clone();
    tokio::spawn(async move {
        is_kept.closed().await;
        drop(control);
    });
    Ok(connection)
}

async fn ask_until(
    end: Instant,
    connection: Connection,
    request: Rc<[u8]>,
    outcome: Rc<RefCell<Outcome>>,
) {
    while Instant::now() < end {
        let begin = Instant::now();
        let length = ask(&connection, &request).await;
        let is_over = connection.close_reason().is_some();
        outcome.borrow_mut().count(begin.elapsed(), length);
        if is_over {
            return;
        }
    }
}

/// A request and its whole answer: the length of the body.
pub(crate) async fn ask(connection: &Connection, request: &[u8]) -> Result<usize, String> {
    let (mut sending, mut receiving) = connection
        .open_bi()
        .await
        .map_err(|error| error.to_string())?;
    sending
        .write_all(request)
        .await
        .map_err(|error| error.to_string())?;
    sending.finish().map_err(|error| error.to_string())?;
    let answer = receiving
        .read_to_end(MOST)
        .await
        .map_err(|error| error.to_string())?;
    body_length(&answer).ok_or_else(|| "no good answer".to_owned())
}

/// The length of the body of a good answer.
fn body_length(mut answer: &[u8]) -> Option<usize> {
    let mut is_good = false;
    let mut length = 0;
    while !answer.is_empty() {
        let (kind, size) = (take_number(&mut answer)?, take_number(&mut answer)?);
        let (payload, rest) = answer.split_at_checked(usize::try_from(size).ok()?)?;
        answer = rest;
        match kind {
            HEADERS => is_good |= payload.get(2) == Some(&GOOD),
            DATA => length += payload.len(),
            _ => {}
        }
    }
    is_good.then_some(length)
}

/// Takes an integer of QUIC (RFC 9000 §16) from the front.
fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let first = *bytes.first()?;
    let (number, rest) = bytes.split_at_checked(1 << (first >> 6))?;
    *bytes = rest;
    let whole = number
        .iter()
        .skip(1)
        .fold(u64::from(first & 0x3f), |value, byte| {
            value << 8 | u64::from(*byte)
        });
    Some(whole)
}

/// A GET: indexed fields and two strings as they are (RFC 9204 §4.5).
pub(crate) fn request(authority: &str, path: &str) -> Vec<u8> {
    let mut section = b"\0\0\xd1\xd7".to_vec();
    for (name, value) in [(0x50, authority), (0x51, path)] {
        section.push(name);
        section.push(value.len() as u8);
        section.extend_from_slice(value.as_bytes());
    }
    let mut frame = vec![HEADERS as u8, section.len() as u8];
    frame.append(&mut section);
    frame
}

/// The same words as of the other loads.
pub(crate) fn report(
    mut times: Vec<Duration>,
    seconds: f64,
    errors: usize,
    first_error: Option<String>,
) -> Value {
    times.sort_unstable();
    let at = |part: usize| {
        let time = times.get(times.len().saturating_sub(1) * part / 100);
        time.map_or(0.0, |time| time.as_secs_f64() * 1000.0)
    };
    json!({
        "good": times.len(),
        "rps": times.len() as f64 / seconds,
        "p50_ms": at(50),
        "p90_ms": at(90),
        "p99_ms": at(99),
        "max_ms": at(100),
        "errors": errors,
        "first_error": first_error,
    })
}
