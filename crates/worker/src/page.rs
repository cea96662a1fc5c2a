//! Error pages, where the application cannot answer.

use tutti_wire::worker::Exchange;

/// Answers without the application. The exchange must not have been started.
pub fn answer(exchange: &mut Exchange, status: u16) {
    let reason = match status {
        403 => "Forbidden",
        404 => "Not Found",
        _ => "Internal Server Error",
    };
    let page =
        format!("<!DOCTYPE html><title>{status} {reason}</title><h1>{status} {reason}</h1>\n");
    let length = page.len().to_string();
    let fields = [
        (&b"Content-Type"[..], &b"text/html"[..]),
        (b"Content-Length", length.as_bytes()),
    ];
    let is_head = exchange.request().method() == b"HEAD";
    if exchange.start(status, fields).is_ok() && !is_head {
        // A client that has disconnected needs no page.
        let _ = exchange.write(page.as_bytes());
    }
    exchange.finish();
}
