//! A request as the C half takes it.

use std::borrow::Cow;

use tutti_worker::{BodyRef, Exchange, target};

use crate::{Bytes, Field, RawRequest};

/// Memory that is kept from request to request.
#[derive(Debug, Default)]
pub struct Memory {
    fields: Vec<Field>,
    path: Vec<u8>,
}

impl Memory {
    /// Describes the request of `exchange`. What it points to lives until the exchange is finished or `self` is used again.
    pub fn describe(&mut self, exchange: &Exchange) -> RawRequest {
        let view = exchange.request();
        self.fields.clear();
        self.fields
            .extend(view.fields().map(|(name, value)| Field::new(name, value)));
        let (body, inline_body) = match view.body() {
            BodyRef::None => (0, Bytes::new(b"")),
            BodyRef::Inline(bytes) => (1, Bytes::new(bytes)),
            BodyRef::Spool { .. } => (2, Bytes::new(b"")),
            BodyRef::Stream { .. } => (3, Bytes::new(b"")),
        };
        let server_name = if view.server_name().is_empty() {
            view.local_address()
        } else {
            view.server_name()
        };
        let server_port = match (view.local_port(), view.tls()) {
            (0, false) => 80,
            (0, true) => 443,
            (port, _) => port,
        };
        let encoded_path = match target(&view) {
            Cow::Borrowed(target) => Bytes::new(without_query(target)),
            Cow::Owned(target) => {
                self.path.clear();
                self.path.extend_from_slice(without_query(&target));
                Bytes::new(&self.path)
            }
        };
        RawRequest {
            method: Bytes::new(view.method()),
            target: Bytes::new(view.target()),
            path: Bytes::new(view.path()),
            encoded_path,
            query: Bytes::new(view.query()),
            protocol: Bytes::new(view.protocol().as_bytes()),
            scheme: Bytes::new(view.scheme()),
            remote_address: Bytes::new(view.remote_address()),
            server_name: Bytes::new(server_name),
            user: Bytes::new(view.user()),
            remote_port: view.remote_port(),
            server_port,
            body,
            is_websocket: u32::from(view.is_websocket()),
            content_length: view
                .content_length()
                .and_then(|length| i64::try_from(length).ok())
                .unwrap_or(-1),
            inline_body,
            fields: self.fields.as_ptr(),
            field_count: self.fields.len(),
        }
    }
}

fn without_query(target: &[u8]) -> &[u8] {
    let end = memchr::memchr(b'?', target).unwrap_or(target.len());
    target.get(..end).unwrap_or_default()
}
