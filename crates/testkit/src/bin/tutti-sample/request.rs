//! Reads what a request asks for, waits as long as it says, answers in a word: for handlers of every kind.

use std::time::Duration;

use tutti_worker::{Exchange, WireRequestView};

pub(crate) const PLAIN: (&[u8], &[u8]) = (b"Content-Type", b"text/plain");

pub(crate) fn text(exchange: &mut Exchange, status: u16, body: &str) {
    let length = body.len().to_string();
    let fields = [PLAIN, (&b"Content-Length"[..], length.as_bytes())];
    // For an impossible status the request is given up without an answer.
    if exchange.start(status, fields).is_ok() && exchange.write(body.as_bytes()).is_ok() {
        exchange.finish();
    }
}

pub(crate) fn value<'a>(request: &WireRequestView<'a>, name: &str) -> Option<&'a str> {
    let query = std::str::from_utf8(request.query()).ok()?;
    query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value)
}

pub(crate) fn number(request: &WireRequestView<'_>, name: &str) -> Option<u64> {
    value(request, name)?.parse().ok()
}

pub(crate) fn milliseconds(exchange: &Exchange) -> Duration {
    Duration::from_millis(number(&exchange.request(), "ms").unwrap_or(0))
}

/// Waits until the file is there that the request names; without one, not at all.
pub(crate) fn wait(exchange: &Exchange) {
    wait_for(file(exchange).as_deref());
}

/// The file that the request names.
pub(crate) fn file(exchange: &Exchange) -> Option<String> {
    value(&exchange.request(), "file").map(str::to_owned)
}

/// Waits until this file is there.
pub(crate) fn wait_for(file: Option<&str>) {
    while file.is_some_and(|file| !is_there(file)) {
        pause(GLANCE);
    }
}

/// Time between two looks for a file.
pub(crate) const GLANCE: Duration = Duration::from_millis(2);

pub(crate) fn is_there(path: &str) -> bool {
    std::path::Path::new(path).exists()
}

pub(crate) fn pause(time: Duration) {
    let until = std::time::Instant::now() + time;
    loop {
        let left = until.saturating_duration_since(std::time::Instant::now());
        if left.is_zero() {
            return;
        }
        let left = rustix::event::Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        // A signal only shortens one round.
        let _ = rustix::event::poll(&mut [], Some(&left));
    }
}
