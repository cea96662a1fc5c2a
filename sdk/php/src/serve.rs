//! One request: find the script, run it, complete the response. And the state of PHP in a process.
//!
//! Called by the worker's loop. Whatever the script does, exactly one complete response is given, unless the process dies.

use std::{
    ffi::{CStr, c_char, c_int},
    ptr,
    rc::Rc,
    time::{SystemTime, UNIX_EPOCH},
};

use crate::{
    exchange::{Exchange, Protocol},
    ffi::{self, Field, Span, Variable},
    log,
    options::{LoadError, PhpOptions},
    script::{Resolved, Script, Scripts},
    variables::{Constants, Variables},
};

/// How PHP is named to people.
pub const VERSION: &str = env!("TUTTI_PHP_VERSION");

/// A started PHP with the targets of one application.
pub struct Php {
    targets: Vec<Scripts>,
    constants: Constants,
    variables: Variables,
    /// Memory for the NUL-terminated strings of the request.
    strings: Vec<u8>,
    /// For how many seconds a script once found need not be looked for.
    keep_for: i64,
}

/// What the worker does after a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// Serve on.
    Again,
    /// Leave: PHP asked for it, or its state is in doubt.
    Recycle,
}

impl Php {
    /// Starts PHP: in the prototype, once.
    ///
    /// # Errors
    /// When a root or a script is missing, or PHP does not start.
    pub fn start(config: &serde_json::Value) -> Result<Self, LoadError> {
        let options = PhpOptions::parse(config)?;
        let targets = options.targets()?;
        let ini = options.ini()?;
        let entries: &'static CStr = Box::leak(ini.entries.into_boxed_c_str());
        let file: Option<&'static CStr> = ini.file.map(|file| &*Box::leak(file.into_boxed_c_str()));
        if !ffi::startup(file, entries) {
            return Err(LoadError {
                step: "php",
                message: format!("PHP {VERSION} did not start"),
                hint: "the lines before this one in the log tell why".to_owned(),
                member: String::new(),
            });
        }
        for name in &ini.named {
            if !ffi::has_directive(name) {
                log::warn(&format!(
                    "PHP does not know the directive `{name}` in `options`"
                ));
            }
        }
        for name in &ini.locked {
            ffi::lock_directive(name);
        }
        let keep_for = match (
            ffi::is_opcache_enabled(),
            ffi::directive("opcache.validate_timestamps"),
        ) {
            (false, _) => 0,
            (true, 0) => i64::MAX,
            (true, _) => ffi::directive("opcache.revalidate_freq"),
        };
        let constants = Constants::new(
            targets.iter().map(|target| target.root.as_slice()),
            &options.environment(),
        );
        Ok(Self {
            targets: targets.into_iter().map(Scripts::new).collect(),
            constants,
            variables: Variables::default(),
            strings: Vec::with_capacity(1024),
            keep_for,
        })
    }

    /// To be called in each worker after its fork.
    pub fn worker_started(&mut self, worker: u32) {
        ffi::worker_started(worker);
    }

    /// Serves one request to its end.
    pub fn serve(&mut self, exchange: &mut dyn Exchange) -> After {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let Some(target) = self
            .targets
            .iter()
            .position(|scripts| scripts.target().name.as_bytes() == exchange.target_name())
        else {
            answer(exchange, 404, None);
            return After::Again;
        };
        let Some(scripts) = self.targets.get_mut(target) else {
            return After::Again;
        };
        match scripts.resolve(exchange.path(), seconds, self.keep_for) {
            Resolved::Script(script) => self.run(exchange, &script, target, now.as_secs_f64()),
            Resolved::NotFound => {
                answer(exchange, 404, None);
                After::Again
            }
            Resolved::Forbidden => {
                answer(exchange, 403, None);
                After::Again
            }
            Resolved::Redirect(mut location) => {
                if !exchange.query().is_empty() {
                    location.push(b'?');
                    location.extend_from_slice(exchange.query());
                }
                answer(exchange, 301, Some(&location));
                After::Again
            }
        }
    }

    fn run(
        &mut self,
        exchange: &mut dyn Exchange,
        script: &Rc<Script>,
        target: usize,
        time: f64,
    ) -> After {
        self.variables.reset();
        let strings = Strings::collect(&mut self.strings, exchange);
        let request = ffi::Request {
            method: strings.method,
            target: strings.target,
            query: strings.query,
            script: script.file.as_ptr(),
            script_len: script.file.count_bytes(),
            directory: script.directory.path.as_ptr(),
            directory_number: script.directory.number,
            content_type: strings.content_type,
            cookie: strings.cookie,
            authorization: strings.authorization,
            content_length: i64::try_from(exchange.content_length().unwrap_or_default())
                .unwrap_or(i64::MAX),
            protocol: if exchange.protocol() == Protocol::Http10 {
                1000
            } else {
                1001
            },
            has_body: c_int::from(exchange.has_body()),
            time,
        };
        let mut serving = Serving {
            exchange,
            script,
            target,
            constants: &self.constants,
            variables: &mut self.variables,
            is_started: false,
            is_finished: false,
        };
        let result = ffi::serve(&request, &mut serving);
        if !serving.is_started {
            answer(serving.exchange, 500, None);
        } else if !serving.is_finished {
            serving.exchange.finish();
        }
        if result == ffi::SERVED {
            After::Again
        } else {
            After::Recycle
        }
    }
}

impl Drop for Php {
    fn drop(&mut self) {
        ffi::shutdown();
    }
}

/// The request being served, as the callbacks of PHP see it.
pub(crate) struct Serving<'a> {
    exchange: &'a mut dyn Exchange,
    script: &'a Script,
    target: usize,
    constants: &'a Constants,
    variables: &'a mut Variables,
    is_started: bool,
    is_finished: bool,
}

impl Serving<'_> {
    /// Sends the head; only the first counts.
    pub(crate) fn start(&mut self, status: u32, fields: &[Field]) {
        if self.is_started {
            return;
        }
        self.is_started = true;
        self.exchange
            .start(u16::try_from(status).unwrap_or(500), fields);
    }

    /// Sends a part of the body; how much of it the client can get.
    pub(crate) fn write(&mut self, data: &[u8]) -> usize {
        if !self.is_started || self.is_finished {
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
        if self.is_started && !self.is_finished {
            if script_goes_on {
                self.variables
                    .detach(self.constants, self.exchange, self.script, self.target);
            }
            self.is_finished = true;
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

    pub(crate) fn request_headers(&mut self) -> &[Field] {
        self.variables
            .request_headers(self.constants, self.exchange, self.script, self.target)
    }

    /// One variable, for `getenv()`.
    pub(crate) fn variable(&mut self, name: &[u8]) -> Option<Span> {
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
    fn collect(memory: &mut Vec<u8>, exchange: &dyn Exchange) -> Self {
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

/// Answers without PHP.
fn answer(exchange: &mut dyn Exchange, status: u16, location: Option<&[u8]>) {
    let reason = match status {
        301 => "Moved Permanently",
        403 => "Forbidden",
        404 => "Not Found",
        _ => "Internal Server Error",
    };
    let page =
        format!("<!DOCTYPE html><title>{status} {reason}</title><h1>{status} {reason}</h1>\n");
    let length = page.len().to_string();
    let fields = [
        Field::new(b"Content-Type", b"text/html"),
        Field::new(b"Content-Length", length.as_bytes()),
        Field::new(b"Location", location.unwrap_or_default()),
    ];
    let count = if location.is_some() { 3 } else { 2 };
    exchange.start(status, fields.get(..count).unwrap_or_default());
    if exchange.method() != b"HEAD" {
        // A client that has gone needs no page.
        let _ = exchange.write(page.as_bytes());
    }
    exchange.finish();
}
