//! `$_SERVER`: the list that PHP copies when a script asks for it.
//!
//! Built at most once a request, into memory that is kept. What never changes (names, the document root) is a permanent PHP string made
//! once in the prototype. The values point into the exchange, which outlives the request.

use std::{ffi::c_void, ptr};

use crate::{
    abi::{Bytes, PhpField, Variable},
    exchange::PhpRequest,
    ffi,
    script::Script,
};

/// `SERVER_SOFTWARE`.
const SOFTWARE: &str = concat!("Tutti/", env!("CARGO_PKG_VERSION"));

/// Names that have a permanent string; the position is the number in [`Name`].
const NAMES: [&str; 25] = [
    "SCRIPT_FILENAME",
    "QUERY_STRING",
    "REQUEST_METHOD",
    "CONTENT_TYPE",
    "CONTENT_LENGTH",
    "SCRIPT_NAME",
    "REQUEST_URI",
    "DOCUMENT_URI",
    "DOCUMENT_ROOT",
    "SERVER_PROTOCOL",
    "REQUEST_SCHEME",
    "HTTPS",
    "GATEWAY_INTERFACE",
    "SERVER_SOFTWARE",
    "REMOTE_ADDR",
    "REMOTE_PORT",
    "REMOTE_USER",
    "SERVER_ADDR",
    "SERVER_PORT",
    "SERVER_NAME",
    "REDIRECT_STATUS",
    "PATH_INFO",
    "PATH_TRANSLATED",
    "PHP_SELF",
    "HTTP_HOST",
];

#[derive(Clone, Copy)]
#[allow(clippy::enum_variant_names, reason = "they are the names of CGI")]
enum Name {
    ScriptFilename,
    QueryString,
    RequestMethod,
    ContentType,
    ContentLength,
    ScriptName,
    RequestUri,
    DocumentUri,
    DocumentRoot,
    ServerProtocol,
    RequestScheme,
    Https,
    GatewayInterface,
    ServerSoftware,
    RemoteAddr,
    RemotePort,
    RemoteUser,
    ServerAddr,
    ServerPort,
    ServerName,
    RedirectStatus,
    PathInfo,
    PathTranslated,
    PhpSelf,
    HttpHost,
}

/// A permanent PHP string.
#[derive(Debug, Clone, Copy)]
struct Permanent {
    string: *mut c_void,
    borrowed: Bytes,
}

impl Permanent {
    /// Needs a started PHP.
    fn new(text: &[u8]) -> Self {
        let kept: &'static [u8] = Box::leak(text.to_vec().into_boxed_slice());
        Self {
            string: ffi::permanent(kept),
            borrowed: Bytes::new(kept),
        }
    }
}

/// The constant strings of one application.
#[derive(Debug)]
pub(crate) struct Constants {
    names: Vec<Permanent>,
    gateway: Permanent,
    software: Permanent,
    redirect_status: Permanent,
    http: Permanent,
    https: Permanent,
    on: Permanent,
    http11: Permanent,
    roots: Vec<Permanent>,
    environment: Vec<(Permanent, Permanent)>,
}

impl Constants {
    /// Makes them; in the prototype, after PHP has started.
    #[must_use]
    pub(crate) fn new<'a>(
        roots: impl Iterator<Item = &'a [u8]>,
        environment: &[(String, String)],
    ) -> Self {
        Self {
            names: NAMES
                .iter()
                .map(|name| Permanent::new(name.as_bytes()))
                .collect(),
            gateway: Permanent::new(b"CGI/1.1"),
            software: Permanent::new(SOFTWARE.as_bytes()),
            redirect_status: Permanent::new(b"200"),
            http: Permanent::new(b"http"),
            https: Permanent::new(b"https"),
            on: Permanent::new(b"on"),
            http11: Permanent::new(b"HTTP/1.1"),
            roots: roots.map(Permanent::new).collect(),
            environment: environment
                .iter()
                .map(|(name, value)| {
                    (
                        Permanent::new(name.as_bytes()),
                        Permanent::new(value.as_bytes()),
                    )
                })
                .collect(),
        }
    }
}

/// A part of the scratch memory that borrowed bytes are to point to, once the memory no longer moves.
struct Fixup {
    index: usize,
    is_name: bool,
    start: usize,
    len: usize,
}

/// The list, and the memory it is built in.
#[derive(Default)]
pub(crate) struct Variables {
    list: Vec<Variable>,
    scratch: Vec<u8>,
    fixups: Vec<Fixup>,
    headers: Vec<PhpField>,
    header_names: Vec<u8>,
    detached: Vec<u8>,
    is_built: bool,
}

impl Variables {
    /// Forgets the last request.
    pub(crate) fn reset(&mut self) {
        self.is_built = false;
    }

    /// The list for this request.
    pub(crate) fn get(
        &mut self,
        constants: &Constants,
        exchange: &dyn PhpRequest,
        script: &Script,
        target: usize,
    ) -> &[Variable] {
        if !self.is_built {
            self.list.clear();
            self.scratch.clear();
            self.fixups.clear();
            self.build(constants, exchange, script, target);
            self.resolve();
            self.is_built = true;
        }
        &self.list
    }

    /// The variables while a resident script boots: the application's environment and the script.
    pub(crate) fn boot(&mut self, c: &Constants, script: &Script) -> &[Variable] {
        self.is_built = false;
        self.list.clear();
        self.environment(c);
        self.bytes(c, Name::ScriptFilename, script.file.to_bytes());
        self.bytes(c, Name::ScriptName, &script.name);
        self.bytes(c, Name::PhpSelf, &script.name);
        if let Some(root) = c.roots.first() {
            self.constant(c, Name::DocumentRoot, root);
        }
        self.constant(c, Name::ServerSoftware, &c.software);
        &self.list
    }

    fn environment(&mut self, constants: &Constants) {
        for (name, value) in &constants.environment {
            self.list.push(Variable {
                name: name.borrowed,
                value: value.borrowed,
                key: name.string,
                constant: value.string,
            });
        }
    }

    /// Makes the list independent of the exchange, for a script that goes on after its response.
    pub(crate) fn detach(
        &mut self,
        constants: &Constants,
        exchange: &dyn PhpRequest,
        script: &Script,
        target: usize,
    ) {
        self.get(constants, exchange, script, target);
        self.detached.clear();
        for variable in &self.list {
            self.detached.extend_from_slice(variable.value.as_slice());
        }
        let mut rest = self.detached.as_slice();
        for variable in &mut self.list {
            let (value, after) = rest.split_at(variable.value.as_slice().len().min(rest.len()));
            variable.value = Bytes::new(value);
            rest = after;
        }
    }

    fn build(
        &mut self,
        constants: &Constants,
        exchange: &dyn PhpRequest,
        script: &Script,
        target: usize,
    ) {
        self.environment(constants);
        let c = constants;
        let path_info = script.path_info_at.and_then(|at| exchange.path().get(at..));
        self.bytes(c, Name::ScriptFilename, script.file.to_bytes());
        self.bytes(c, Name::QueryString, exchange.query());
        self.bytes(c, Name::RequestMethod, exchange.method());
        self.content(c, exchange);
        self.bytes(c, Name::ScriptName, &script.name);
        self.bytes(c, Name::RequestUri, exchange.target());
        self.joined(
            c,
            Name::DocumentUri,
            &[&script.name, path_info.unwrap_or_default()],
        );
        if let Some(root) = c.roots.get(target) {
            self.constant(c, Name::DocumentRoot, root);
        }
        match exchange.protocol() {
            crate::exchange::HttpProtocol::Http11 => {
                self.constant(c, Name::ServerProtocol, &c.http11)
            }
            other => self.bytes(c, Name::ServerProtocol, other.name().as_bytes()),
        }
        let is_tls = exchange.is_tls();
        self.constant(
            c,
            Name::RequestScheme,
            if is_tls { &c.https } else { &c.http },
        );
        if is_tls {
            self.constant(c, Name::Https, &c.on);
        }
        self.constant(c, Name::GatewayInterface, &c.gateway);
        self.constant(c, Name::ServerSoftware, &c.software);
        self.bytes(c, Name::RemoteAddr, exchange.remote_address());
        if exchange.remote_port() != 0 {
            self.number(c, Name::RemotePort, u64::from(exchange.remote_port()));
        }
        if !exchange.user().is_empty() {
            self.bytes(c, Name::RemoteUser, exchange.user());
        }
        self.bytes(c, Name::ServerAddr, exchange.local_address());
        let port = match (exchange.local_port(), is_tls) {
            (0, true) => 443,
            (0, false) => 80,
            (port, _) => port,
        };
        self.number(c, Name::ServerPort, u64::from(port));
        let name = exchange.server_name();
        self.bytes(
            c,
            Name::ServerName,
            if name.is_empty() {
                exchange.local_address()
            } else {
                name
            },
        );
        self.constant(c, Name::RedirectStatus, &c.redirect_status);
        if let Some(info) = path_info {
            self.bytes(c, Name::PathInfo, info);
            let root = c
                .roots
                .get(target)
                .map_or(&b""[..], |root| root.borrowed.as_slice());
            self.joined(c, Name::PathTranslated, &[root, info]);
        }
        self.header_variables(c, exchange);
        self.joined(
            c,
            Name::PhpSelf,
            &[&script.name, path_info.unwrap_or_default()],
        );
    }

    /// As with FPM behind nginx, both are there and empty when the request has no body.
    fn content(&mut self, c: &Constants, exchange: &dyn PhpRequest) {
        let mut content_type = Bytes::new(b"");
        exchange.visit_fields(&mut |name, value| {
            if name.eq_ignore_ascii_case(b"content-type") && content_type.is_empty() {
                content_type = Bytes::new(value);
            }
        });
        self.borrowed(c, Name::ContentType, content_type);
        match exchange.content_length() {
            Some(length) => self.number(c, Name::ContentLength, length),
            None => self.bytes(c, Name::ContentLength, b""),
        }
    }

    fn header_variables(&mut self, c: &Constants, exchange: &dyn PhpRequest) {
        let first = self.list.len();
        exchange.visit_fields(&mut |name, value| {
            // `Proxy` would become HTTP_PROXY, which libraries take for the proxy of their own requests (CVE-2016-5385).
            let is_content = name.eq_ignore_ascii_case(b"content-type")
                || name.eq_ignore_ascii_case(b"content-length");
            if is_content || name.eq_ignore_ascii_case(b"proxy") || name.is_empty() {
                return;
            }
            if name.eq_ignore_ascii_case(b"host") {
                self.borrowed(c, Name::HttpHost, Bytes::new(value));
                return;
            }
            let start = self.scratch.len();
            self.scratch.extend_from_slice(b"HTTP_");
            self.scratch.extend(name.iter().map(|byte| {
                if byte.is_ascii_alphanumeric() {
                    byte.to_ascii_uppercase()
                } else {
                    b'_'
                }
            }));
            let len = self.scratch.len() - start;
            if let Some(index) = self.same_name(first, start, len) {
                self.scratch.truncate(start);
                self.append_value(
                    index,
                    if name.eq_ignore_ascii_case(b"cookie") {
                        b"; "
                    } else {
                        b", "
                    },
                    value,
                );
                return;
            }
            let index = self.list.len();
            self.fixups.push(Fixup {
                index,
                is_name: true,
                start,
                len,
            });
            self.list.push(Variable {
                name: Bytes::new(b""),
                value: Bytes::new(value),
                key: ptr::null_mut(),
                constant: ptr::null_mut(),
            });
        });
    }

    /// The earlier variable with the name at this place of the scratch memory.
    fn same_name(&self, first: usize, start: usize, len: usize) -> Option<usize> {
        let wanted = self.scratch.get(start..start + len)?;
        self.fixups
            .iter()
            .find(|fixup| {
                fixup.is_name
                    && fixup.index >= first
                    && self.scratch.get(fixup.start..fixup.start + fixup.len) == Some(wanted)
            })
            .map(|fixup| fixup.index)
    }

    /// Repeated fields become one value (RFC 9110 section 5.3).
    fn append_value(&mut self, index: usize, separator: &[u8], value: &[u8]) {
        let start = self.scratch.len();
        let earlier = self
            .fixups
            .iter()
            .position(|fixup| !fixup.is_name && fixup.index == index);
        match earlier.and_then(|at| self.fixups.get(at)) {
            Some(fixup) => self
                .scratch
                .extend_from_within(fixup.start..fixup.start + fixup.len),
            None => {
                if let Some(variable) = self.list.get(index) {
                    self.scratch.extend_from_slice(variable.value.as_slice());
                }
            }
        }
        self.scratch.extend_from_slice(separator);
        self.scratch.extend_from_slice(value);
        if let Some(at) = earlier {
            self.fixups.remove(at);
        }
        self.fixups.push(Fixup {
            index,
            is_name: false,
            start,
            len: self.scratch.len() - start,
        });
    }

    fn resolve(&mut self) {
        for fixup in &self.fixups {
            let bytes = self
                .scratch
                .get(fixup.start..fixup.start + fixup.len)
                .unwrap_or_default();
            if let Some(variable) = self.list.get_mut(fixup.index) {
                let place = if fixup.is_name {
                    &mut variable.name
                } else {
                    &mut variable.value
                };
                *place = Bytes::new(bytes);
            }
        }
    }

    fn borrowed(&mut self, c: &Constants, name: Name, value: Bytes) {
        let Some(key) = c.names.get(name as usize) else {
            return;
        };
        self.list.push(Variable {
            name: key.borrowed,
            value,
            key: key.string,
            constant: ptr::null_mut(),
        });
    }

    fn bytes(&mut self, c: &Constants, name: Name, value: &[u8]) {
        self.borrowed(c, name, Bytes::new(value));
    }

    fn constant(&mut self, c: &Constants, name: Name, value: &Permanent) {
        let Some(key) = c.names.get(name as usize) else {
            return;
        };
        self.list.push(Variable {
            name: key.borrowed,
            value: value.borrowed,
            key: key.string,
            constant: value.string,
        });
    }

    fn joined(&mut self, c: &Constants, name: Name, parts: &[&[u8]]) {
        let start = self.scratch.len();
        for part in parts {
            self.scratch.extend_from_slice(part);
        }
        self.fixups.push(Fixup {
            index: self.list.len(),
            is_name: false,
            start,
            len: self.scratch.len() - start,
        });
        self.borrowed(c, name, Bytes::new(b""));
    }

    fn number(&mut self, c: &Constants, name: Name, value: u64) {
        let mut digits = [0; 20];
        let mut at = digits.len();
        let mut left = value;
        loop {
            at -= 1;
            if let Some(place) = digits.get_mut(at) {
                *place = b'0' + u8::try_from(left % 10).unwrap_or_default();
            }
            left /= 10;
            if left == 0 {
                break;
            }
        }
        self.joined(c, name, &[digits.get(at..).unwrap_or_default()]);
    }

    /// The request's header fields for `getallheaders()`: each word of a name capitalised, as FPM gives them, repeated ones joined.
    pub(crate) fn request_headers(
        &mut self,
        constants: &Constants,
        exchange: &dyn PhpRequest,
        script: &Script,
        target: usize,
    ) -> &[PhpField] {
        self.get(constants, exchange, script, target);
        self.header_names.clear();
        self.headers.clear();
        let mut found: Vec<(usize, Bytes)> = Vec::with_capacity(self.list.len());
        for variable in self.list.iter().skip(constants.environment.len()) {
            let name = variable.name.as_slice();
            let is_content = name.starts_with(b"CONTENT_") && !variable.value.is_empty();
            let Some(bare) = name.strip_prefix(b"HTTP_").or(is_content.then_some(name)) else {
                continue;
            };
            let mut is_first = true;
            self.header_names.extend(bare.iter().map(|byte| {
                let was_first = is_first;
                is_first = *byte == b'_';
                match *byte {
                    b'_' => b'-',
                    byte if was_first => byte.to_ascii_uppercase(),
                    byte => byte.to_ascii_lowercase(),
                }
            }));
            found.push((bare.len(), variable.value));
        }
        let mut rest = self.header_names.as_slice();
        for (len, value) in found {
            let (name, after) = rest.split_at(len.min(rest.len()));
            self.headers.push(PhpField {
                name: Bytes::new(name),
                value,
            });
            rest = after;
        }
        &self.headers
    }
}
