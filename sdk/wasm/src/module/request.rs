//! A request, from the wire's form to that of a module.

use tutti_worker::{BodyRef, Exchange, target};

use super::shared::{Head, Request};
use crate::body::{self, Body, Feed};

/// A request for a module.
#[derive(Debug)]
pub(crate) struct ModuleRequest {
    pub(super) head: Head,
    pub(super) content_length: u64,
    pub(super) body: Body,
}

/// The request, and where the pieces of its body are to go. `Err`: what the module could not be given.
pub(super) fn build(exchange: &Exchange) -> Result<(ModuleRequest, Feed), String> {
    let view = exchange.request();
    let content_length = match view.body() {
        // A module cannot accept a handshake, which is an ordinary request to it: the stream behind it is not its body.
        _ if view.is_websocket() => 0,
        BodyRef::None => 0,
        BodyRef::Inline(bytes) => bytes.len() as u64,
        BodyRef::Spool { len, .. } => len,
        BodyRef::Stream { len } => len.ok_or(
            "the length of its body is not known, and a module needs it first (`request_buffering` makes it known)",
        )?,
    };
    let target = target(&view);
    let port = view.local_port().to_string();
    let version = match view.version_minor() {
        0 => b"HTTP/1.0",
        1 => b"HTTP/1.1",
        2 => b"HTTP/2.0",
        _ => b"HTTP/3.0",
    };
    let fields: Vec<_> = view.fields().collect();
    let request = Request {
        strings: [
            view.method(),
            version,
            &target,
            view.query(),
            view.remote_address(),
            view.local_address(),
            port.as_bytes(),
            view.server_name(),
        ],
        fields: &fields,
        is_tls: view.tls(),
        content_length,
    };
    let head = Head::new(&request).ok_or("its header is too large")?;
    let (body, feed) = body::of(exchange);
    let asked = ModuleRequest {
        head,
        content_length,
        body,
    };
    Ok((asked, feed))
}
