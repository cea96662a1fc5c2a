//! The request that PHP is at, as its callbacks see it, and the strings of it that PHP receives.
//!
//! Made by `serve` and `resident`, used by `running`.

use std::{
    ffi::{c_char, c_int},
    ptr::{self, NonNull},
};

use crate::{
    abi::{Bytes, PhpField, Request, ScriptFile, Variable},
    exchange::{HttpProtocol, PhpRequest},
    script::Script,
    variables::{Constants, Variables},
};

/// The request being served, as the callbacks of PHP see it.
pub(crate) struct Serving<'a> {
    pub(crate) exchange: &'a mut dyn PhpRequest,
    pub(crate) script: &'a Script,
    pub(crate) target: usize,
    pub(crate) constants: &'a Constants,
    pub(crate) variables: &'a mut Variables,
    pub(crate) progress: &'a mut Progress,
}

/// The state of a response.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) is_started: bool,
    pub(crate) is_finished: bool,
}

/// The other side of PHP's callbacks while `running` runs PHP code.
pub(crate) trait Current {
    /// The request being answered; `None` outside of one.
    fn serving(&mut self) -> Option<Serving<'_>>;
    /// `$_SERVER` outside of a request.
    fn own_variables(&mut self) -> &[Variable] {
        &[]
    }
    /// The next request, waited for.
    fn next(&mut self) -> Option<NonNull<Request>> {
        None
    }
    /// Gives the last one back to `next`.
    fn keep(&mut self) {}
    /// The request is over.
    fn done(&mut self, _is_recycled: bool) {}
    /// Why the boot failed; empty when the script just ended.
    fn boot_failed(&mut self, _message: &[u8]) {}
}

impl Serving<'_> {
    /// Sends the head; only the first counts.
    pub(crate) fn start(&mut self, status: u32, fields: &[PhpField]) {
        if self.progress.is_started {
            return;
        }
        self.progress.is_started = true;
        self.exchange
            .start(u16::try_from(status).unwrap_or(500), fields);
    }

    /// Sends a part of the body; how much of it the client can get.
    pub(crate) fn write(&mut self, data: &[u8]) -> usize {
        if !self.progress.is_started || self.progress.is_finished {
            return 0;
        }
        if self.exchange.write(data).is_ok() {
            data.len()
        } else {
            0
        }
    }

    /// Hands over what is written; false when the client has gone.
    pub(crate) fn flush(&mut self) -> bool {
        self.exchange.flush().is_ok()
    }

    /// Ends the response, if it has begun: else `Php::run` answers 500. When the script goes on, what it may still ask of the
    /// request is copied first, because the request's memory is the router's again.
    pub(crate) fn finish(&mut self, script_goes_on: bool) {
        if self.progress.is_started && !self.progress.is_finished {
            if script_goes_on {
                self.variables
                    .detach(self.constants, self.exchange, self.script, self.target);
            }
            self.progress.is_finished = true;
            self.exchange.finish();
        }
    }

    /// Fills the buffer as far as the body goes.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> usize {
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.exchange.body_read(rest) {
                // An unfinished body is one that ends: PHP has no way to say more, and the client is gone.
                Ok(0) | Err(_) => break,
                Ok(count) => filled += count,
            }
        }
        filled
    }

    pub(crate) fn is_client_gone(&self) -> bool {
        self.exchange.is_client_gone()
    }

    pub(crate) fn variables(&mut self) -> &[Variable] {
        self.variables
            .get(self.constants, self.exchange, self.script, self.target)
    }

    pub(crate) fn request_headers(&mut self) -> &[PhpField] {
        self.variables
            .request_headers(self.constants, self.exchange, self.script, self.target)
    }

    /// One variable, for `getenv()`.
    pub(crate) fn variable(&mut self, name: &[u8]) -> Option<Bytes> {
        self.variables()
            .iter()
            .find(|variable| variable.name.as_slice() == name)
            .map(|variable| variable.value)
    }
}

/// The strings of a request with a NUL at the end, as PHP wants them, in memory that is kept.
struct Strings {
    method: *const c_char,
    target: *const c_char,
    query: *const c_char,
    content_type: *const c_char,
    cookie: *const c_char,
    authorization: *const c_char,
}

impl Strings {
    fn collect(memory: &mut Vec<u8>, exchange: &dyn PhpRequest) -> Self {
        memory.clear();
        let method = append(memory, exchange.method());
        let target = append(memory, exchange.target());
        let query = append(memory, exchange.query());
        let (mut content_type, mut authorization, mut cookie) = (None, None, None);
        let mut cookies = 0_usize;
        exchange.visit_fields(&mut |name, value| match name.len() {
            12 if content_type.is_none() && name.eq_ignore_ascii_case(b"content-type") => {
                content_type = Some(append(memory, value))
            }
            13 if authorization.is_none() && name.eq_ignore_ascii_case(b"authorization") => {
                authorization = Some(append(memory, value))
            }
            6 if name.eq_ignore_ascii_case(b"cookie") => {
                cookies += 1;
                if cookies == 1 {
                    cookie = Some(append(memory, value));
                }
            }
            _ => {}
        });
        if cookies > 1 {
            // HTTP/2 may split the field (RFC 9113 section 8.2.3).
            let start = memory.len();
            exchange.visit_fields(&mut |name, value| {
                if name.eq_ignore_ascii_case(b"cookie") {
                    if memory.len() > start {
                        memory.extend_from_slice(b"; ");
                    }
                    memory.extend_from_slice(value);
                }
            });
            memory.push(0);
            cookie = Some(start);
        }
        let at = |start: usize| {
            memory
                .get(start..)
                .map_or(ptr::null(), |rest| rest.as_ptr().cast())
        };
        let optional = |start: Option<usize>| start.map_or(ptr::null(), at);
        Self {
            method: at(method),
            target: at(target),
            query: at(query),
            content_type: optional(content_type),
            cookie: optional(cookie),
            authorization: optional(authorization),
        }
    }
}

/// Adds a NUL-terminated copy; where it begins.
fn append(memory: &mut Vec<u8>, bytes: &[u8]) -> usize {
    let start = memory.len();
    memory.extend_from_slice(bytes);
    memory.push(0);
    start
}

/// Describes a request for PHP; it points into `memory`, the script and the exchange.
pub(crate) fn describe(
    memory: &mut Vec<u8>,
    exchange: &dyn PhpRequest,
    script: &Script,
    time: f64,
) -> Request {
    let strings = Strings::collect(memory, exchange);
    Request {
        method: strings.method,
        target: strings.target,
        query: strings.query,
        script: ScriptFile::new(script),
        content_type: strings.content_type,
        cookie: strings.cookie,
        authorization: strings.authorization,
        content_length: i64::try_from(exchange.content_length().unwrap_or_default())
            .unwrap_or(i64::MAX),
        protocol: if exchange.protocol() == HttpProtocol::Http10 {
            1000
        } else {
            1001
        },
        has_body: c_int::from(exchange.has_body()),
        time,
    }
}
