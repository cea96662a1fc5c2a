//! `response_headers`: changes to a rendered head before it is sent.
//!
//! Works on the head's bytes, so it is the same for files, pages and applications. `Date`, `Server` and `Content-Length` are refused
//! when the configuration is checked.

use tutti_routing::RequestInfo;

use crate::access_log::Finished;
use crate::request::{Changes, Request};

/// Applies the changes to the head at `start..` of `out`, which ends with its empty line.
pub(crate) fn apply(request: &Request<'_>, changes: &Changes, out: &mut Vec<u8>, start: usize) {
    let head = out.split_off(start);
    let described = Finished {
        request,
        status: 0,
        body_bytes: 0,
        head: &head,
        time: "",
    };
    let rewritten = Rewrite {
        inner: &described,
        changes,
    };
    let set: Vec<(&str, Option<Vec<u8>>)> = changes
        .headers
        .iter()
        .map(|header| {
            let value = header.value.as_ref().map(|template| {
                let mut value = Vec::new();
                tutti_routing::render(template, &rewritten, &mut value);
                value
            });
            // What a variable brings in cannot end the line.
            (
                header.name.as_str(),
                value.filter(|value| tutti_http::is_field_value(value)),
            )
        })
        .collect();
    let mut lines = head.split_inclusive(|byte| *byte == b'\n');
    out.extend_from_slice(lines.next().unwrap_or_default());
    for line in lines {
        if line == b"\r\n" {
            break;
        }
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        if !set
            .iter()
            .any(|(changed, _)| name.eq_ignore_ascii_case(changed.as_bytes()))
        {
            out.extend_from_slice(line);
        }
    }
    for (name, value) in &set {
        if let Some(value) = value {
            crate::respond::field(out, name, value);
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// The request after its `rewrite`.
struct Rewrite<'a> {
    inner: &'a Finished<'a>,
    changes: &'a Changes,
}

impl RequestInfo for Rewrite<'_> {
    fn path(&self) -> &[u8] {
        self.changes
            .rewritten
            .as_ref()
            .map_or_else(|| self.inner.path(), |rewritten| &rewritten.path)
    }
    fn target(&self) -> &[u8] {
        self.changes
            .rewritten
            .as_ref()
            .map_or_else(|| self.inner.target(), |rewritten| &rewritten.target)
    }
    fn query(&self) -> Option<&[u8]> {
        self.inner.query()
    }
    fn method(&self) -> &[u8] {
        self.inner.method()
    }
    fn host(&self) -> &[u8] {
        self.inner.host()
    }
    fn request_line(&self) -> &[u8] {
        self.inner.request_line()
    }
    fn is_https(&self) -> bool {
        self.inner.is_https()
    }
    fn remote(&self) -> Option<std::net::SocketAddr> {
        self.inner.remote()
    }
    fn local(&self) -> Option<std::net::SocketAddr> {
        self.inner.local()
    }
    fn each_field(&self, name: &[u8], each: &mut dyn FnMut(&[u8])) {
        self.inner.each_field(name, each);
    }
    fn request_id(&self) -> u128 {
        self.inner.request_id()
    }
    fn each_response_field(&self, name: &[u8], each: &mut dyn FnMut(&[u8])) {
        self.inner.each_response_field(name, each);
    }
}
