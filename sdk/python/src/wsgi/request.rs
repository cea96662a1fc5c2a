//! The `environ` of a request.
//!
//! A dictionary with everything that is the same for all requests, and places for the rest, is copied and filled in: copying
//! it costs less than making three entries. Names of header fields become `HTTP_…` once; values that come again are kept.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString};
use rustc_hash::FxHashMap;
use tutti_options::prefix::under;
use tutti_worker::WireRequestView;

use super::errors::Errors;
use super::file::FileWrapper;
use super::input::Input;
use crate::lifecycle::Target;
use crate::text::{Last, latin1};

/// Most field names kept; clients invent names.
const MOST_NAMES: usize = 512;

/// Most ports kept: those of clients that hold their connections.
const MOST_PORTS: usize = 1024;

/// The part of the configuration that applications see.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    /// `wsgi.multithread`
    pub(crate) multithread: bool,
    /// `wsgi.multiprocess`
    pub(crate) multiprocess: bool,
}

/// The objects that a thread keeps for making `environ`s.
pub(super) struct Environ {
    pattern: Py<PyDict>,
    keys: Keys,
    names: FxHashMap<Box<[u8]>, usize>,
    fields: Vec<Field>,
    /// Number of the request, to see fields that come twice.
    request: u64,
    methods: Vec<(&'static [u8], Py<PyString>)>,
    protocols: [Py<PyString>; 4],
    schemes: [Py<PyString>; 2],
    ports: FxHashMap<u16, Py<PyString>>,
    server_name: Last,
    server_address: Last,
    remote_address: Last,
}

/// A field name that was seen, and what becomes of it.
struct Field {
    key: Py<PyString>,
    kind: FieldKind,
    last: Last,
    /// The last request that had it.
    seen: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FieldKind {
    /// Repeated ones are joined by a comma.
    Usual,
    /// Repeated ones are joined by a semicolon (RFC 9113 §8.2.3).
    Cookie,
    /// The first counts; it is there already, empty.
    Single,
    /// Not for the application: `Proxy` would become what many libraries take for their own setting (CVE-2016-5385), and the body is handed
    /// over without its framing, so that `Transfer-Encoding` would have it taken off again.
    Dropped,
}

/// Defines the keys that are set for each request.
macro_rules! keys {
    ($($field:ident = $name:literal,)*) => {
        struct Keys { $($field: Py<PyString>,)* }

        impl Keys {
            fn new(py: Python<'_>) -> Self {
                Self { $($field: PyString::intern(py, $name).unbind(),)* }
            }

            /// Makes a place for each in the pattern.
            fn reserve(&self, pattern: &Bound<'_, PyDict>, empty: &Py<PyString>) -> PyResult<()> {
                $(pattern.set_item(&self.$field, empty)?;)*
                Ok(())
            }
        }
    };
}

keys! {
    method = "REQUEST_METHOD",
    script_name = "SCRIPT_NAME",
    path_info = "PATH_INFO",
    query = "QUERY_STRING",
    target = "REQUEST_URI",
    protocol = "SERVER_PROTOCOL",
    server_name = "SERVER_NAME",
    server_port = "SERVER_PORT",
    server_address = "SERVER_ADDR",
    remote_address = "REMOTE_ADDR",
    remote_port = "REMOTE_PORT",
    scheme = "wsgi.url_scheme",
    input = "wsgi.input",
}

static CONTENT_LENGTH: PyOnceLock<Py<PyString>> = PyOnceLock::new();
static REMOTE_USER: PyOnceLock<Py<PyString>> = PyOnceLock::new();

impl Environ {
    pub(super) fn new(py: Python<'_>, setting: &Setting, input: &Py<Input>) -> PyResult<Self> {
        let intern = |text: &str| PyString::intern(py, text).unbind();
        let keys = Keys::new(py);
        let empty = intern("");
        let pattern = PyDict::new(py);
        keys.reserve(&pattern, &empty)?;
        let software = concat!("Tutti/", env!("CARGO_PKG_VERSION"));
        pattern.set_item(intern("SERVER_SOFTWARE"), software)?;
        pattern.set_item(intern("GATEWAY_INTERFACE"), "CGI/1.1")?;
        pattern.set_item(intern("wsgi.version"), (1, 0))?;
        pattern.set_item(intern("wsgi.errors"), Py::new(py, Errors)?)?;
        pattern.set_item(intern("wsgi.multithread"), setting.multithread)?;
        pattern.set_item(intern("wsgi.multiprocess"), setting.multiprocess)?;
        pattern.set_item(intern("wsgi.run_once"), false)?;
        pattern.set_item(intern("wsgi.input_terminated"), true)?;
        pattern.set_item(intern("wsgi.file_wrapper"), py.get_type::<FileWrapper>())?;
        let mut environ = Self {
            pattern: pattern.unbind(),
            keys,
            names: FxHashMap::default(),
            fields: Vec::new(),
            request: 0,
            methods: [
                &b"GET"[..],
                b"POST",
                b"HEAD",
                b"PUT",
                b"DELETE",
                b"PATCH",
                b"OPTIONS",
            ]
            .into_iter()
            .map(|method| (method, intern(&String::from_utf8_lossy(method))))
            .collect(),
            protocols: ["HTTP/1.0", "HTTP/1.1", "HTTP/2.0", "HTTP/3.0"].map(intern),
            schemes: ["http", "https"].map(intern),
            ports: FxHashMap::default(),
            server_name: Last::default(),
            server_address: Last::default(),
            remote_address: Last::default(),
        };
        environ.set_input(py, input)?;
        Ok(environ)
    }

    /// Puts another `wsgi.input` in the pattern.
    pub(super) fn set_input(&mut self, py: Python<'_>, input: &Py<Input>) -> PyResult<()> {
        self.pattern.bind(py).set_item(&self.keys.input, input)
    }

    /// The `environ` of a request.
    pub(super) fn make<'py>(
        &mut self,
        py: Python<'py>,
        request: &WireRequestView<'_>,
        target: &Target,
    ) -> PyResult<Bound<'py, PyDict>> {
        let environ = self.pattern.bind(py).copy()?;
        self.line(&environ, request, target)?;
        self.addresses(&environ, request)?;
        if !request.user().is_empty() {
            let key = REMOTE_USER.get_or_init(py, || PyString::intern(py, "REMOTE_USER").unbind());
            environ.set_item(key, latin1(py, request.user())?)?;
        }
        self.request += 1;
        let mut has_length = false;
        for (name, value) in request.fields() {
            has_length |= name.len() == 14 && name.eq_ignore_ascii_case(b"content-length");
            self.field(&environ, name, value)?;
        }
        if !has_length && let Some(length) = request.content_length() {
            let key =
                CONTENT_LENGTH.get_or_init(py, || PyString::intern(py, "CONTENT_LENGTH").unbind());
            environ.set_item(key, length.to_string())?;
        }
        Ok(environ)
    }

    fn line(
        &self,
        environ: &Bound<'_, PyDict>,
        request: &WireRequestView<'_>,
        target: &Target,
    ) -> PyResult<()> {
        let py = environ.py();
        let known = self
            .methods
            .iter()
            .find(|(method, _)| *method == request.method());
        match known {
            Some((_, text)) => environ.set_item(&self.keys.method, text)?,
            None => environ.set_item(&self.keys.method, latin1(py, request.method())?)?,
        }
        let mut path = request.path();
        if let Some(rest) = under(target.prefix.as_bytes(), path) {
            path = rest;
            let name = latin1(py, target.prefix.as_bytes())?;
            environ.set_item(&self.keys.script_name, name)?;
        }
        environ.set_item(&self.keys.path_info, latin1(py, path)?)?;
        if !request.query().is_empty() {
            environ.set_item(&self.keys.query, latin1(py, request.query())?)?;
        }
        environ.set_item(&self.keys.target, latin1(py, request.target())?)?;
        let version = usize::from(request.version_minor());
        if let Some(protocol) = self.protocols.get(version) {
            environ.set_item(&self.keys.protocol, protocol)?;
        }
        let is_secure = request.scheme() == b"https" || request.tls();
        if let Some(scheme) = self.schemes.get(usize::from(is_secure)) {
            environ.set_item(&self.keys.scheme, scheme)?;
        }
        Ok(())
    }

    fn addresses(
        &mut self,
        environ: &Bound<'_, PyDict>,
        request: &WireRequestView<'_>,
    ) -> PyResult<()> {
        let py = environ.py();
        let name = self.server_name.get(py, request.server_name())?;
        environ.set_item(&self.keys.server_name, name)?;
        let address = self.server_address.get(py, request.local_address())?;
        environ.set_item(&self.keys.server_address, address)?;
        let address = self.remote_address.get(py, request.remote_address())?;
        environ.set_item(&self.keys.remote_address, address)?;
        let port = self.port(py, request.local_port());
        environ.set_item(&self.keys.server_port, port)?;
        if request.remote_port() != 0 {
            let port = self.port(py, request.remote_port());
            environ.set_item(&self.keys.remote_port, port)?;
        }
        Ok(())
    }

    fn port<'py>(&mut self, py: Python<'py>, port: u16) -> Bound<'py, PyString> {
        if let Some(text) = self.ports.get(&port) {
            return text.bind(py).clone();
        }
        let text = PyString::new(py, &port.to_string());
        if self.ports.len() < MOST_PORTS {
            self.ports.insert(port, text.clone().unbind());
        }
        text
    }

    fn field(&mut self, environ: &Bound<'_, PyDict>, name: &[u8], value: &[u8]) -> PyResult<()> {
        let py = environ.py();
        let known = match self.names.get(name) {
            Some(&known) => Some(known),
            None => self.learn(py, name),
        };
        let mut passing;
        let field = match known.and_then(|known| self.fields.get_mut(known)) {
            Some(field) => field,
            None => {
                passing = Field::new(py, name);
                // Not kept, so whether it came before must be asked of the dictionary.
                if environ.contains(&passing.key)? {
                    passing.seen = self.request;
                }
                &mut passing
            }
        };
        if field.kind == FieldKind::Dropped {
            return Ok(());
        }
        if field.seen == self.request {
            return field.join(environ, value);
        }
        field.seen = self.request;
        let value = field.last.get(py, value)?;
        environ.set_item(&field.key, value)
    }

    /// Remembers a field name; those that differ in case only share an entry.
    fn learn(&mut self, py: Python<'_>, name: &[u8]) -> Option<usize> {
        let lower = name.to_ascii_lowercase();
        let place = match self.names.get(lower.as_slice()) {
            Some(&place) => place,
            None if self.names.len() >= MOST_NAMES => return None,
            None => {
                self.fields.push(Field::new(py, &lower));
                let place = self.fields.len() - 1;
                self.names.insert(lower.into(), place);
                place
            }
        };
        if self.names.len() < MOST_NAMES {
            self.names.insert(name.into(), place);
        }
        Some(place)
    }
}

impl Field {
    fn new(py: Python<'_>, name: &[u8]) -> Self {
        let mut key = String::with_capacity(name.len() + 5);
        let kind = match name.to_ascii_lowercase().as_slice() {
            b"content-type" | b"content-length" => FieldKind::Single,
            b"proxy" | b"transfer-encoding" => FieldKind::Dropped,
            b"cookie" => FieldKind::Cookie,
            _ => FieldKind::Usual,
        };
        if kind != FieldKind::Single {
            key.push_str("HTTP_");
        }
        key.extend(name.iter().map(|byte| match byte {
            b'-' => '_',
            byte => char::from(byte.to_ascii_uppercase()),
        }));
        Self {
            key: PyString::intern(py, &key).unbind(),
            kind,
            last: Last::default(),
            seen: 0,
        }
    }

    /// Adds a further value of the same name.
    fn join(&self, environ: &Bound<'_, PyDict>, value: &[u8]) -> PyResult<()> {
        let between = match self.kind {
            FieldKind::Single | FieldKind::Dropped => return Ok(()),
            FieldKind::Cookie => "; ",
            FieldKind::Usual => ", ",
        };
        let py = environ.py();
        let Some(before) = environ.get_item(&self.key)? else {
            return Ok(());
        };
        let joined = before
            .add(PyString::new(py, between))?
            .add(latin1(py, value)?)?;
        environ.set_item(&self.key, joined)
    }
}
