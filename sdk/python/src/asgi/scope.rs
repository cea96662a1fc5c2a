//! The `scope` of a request.
//!
//! A dictionary for each target, with everything that is the same for all its requests and places for the rest, is copied and
//! filled in. Names and values of fields that come again are kept.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};
use rustc_hash::FxHashMap;
use tutti_options::prefix::under;
use tutti_worker::WireRequestView;

use crate::lifecycle::{Interface, Target};
use crate::text::{Last, latin1};

/// Most field names kept; clients invent names.
const MOST_NAMES: usize = 512;
/// Longer field values are not kept.
const LONGEST_KEPT: usize = 256;

/// The objects that are kept for making scopes.
pub(super) struct Scopes {
    targets: Vec<Pattern>,
    keys: Keys,
    names: FxHashMap<Box<[u8]>, Name>,
    methods: Vec<(&'static [u8], Py<PyString>)>,
    versions: [Py<PyString>; 4],
    schemes: [Py<PyString>; 4],
    server: Vec<u8>,
    server_pair: Option<(u16, Py<PyTuple>)>,
    client: Last,
}

/// The part of a scope that is the same for all requests of a target.
struct Pattern {
    /// `prefix`; empty for none.
    prefix: String,
    http: Py<PyDict>,
    websocket: Py<PyDict>,
    asgi: Py<PyDict>,
    state: Py<PyDict>,
    extensions: [Py<PyDict>; 2],
}

/// A field name, and its last value, as the pair that goes into `headers`.
struct Name {
    name: Py<PyBytes>,
    value: Vec<u8>,
    pair: Option<Py<PyTuple>>,
}

/// Defines the keys that are set for each request.
macro_rules! keys {
    ($($field:ident = $name:literal,)*) => {
        struct Keys { $($field: Py<PyString>,)* }

        impl Keys {
            fn new(py: Python<'_>) -> Self {
                Self { $($field: PyString::intern(py, $name).unbind(),)* }
            }

            /// Makes a place for each in a pattern.
            fn reserve(&self, pattern: &Bound<'_, PyDict>) -> PyResult<()> {
                $(pattern.set_item(&self.$field, pattern.py().None())?;)*
                Ok(())
            }
        }
    };
}

keys! {
    kind = "type",
    asgi = "asgi",
    http_version = "http_version",
    server = "server",
    client = "client",
    scheme = "scheme",
    path = "path",
    raw_path = "raw_path",
    query_string = "query_string",
    headers = "headers",
    state = "state",
    extensions = "extensions",
}

impl Scopes {
    pub(super) fn new(
        py: Python<'_>,
        targets: &[Target],
        states: Vec<Py<PyDict>>,
    ) -> PyResult<Self> {
        let intern = |text: &str| PyString::intern(py, text).unbind();
        let keys = Keys::new(py);
        let patterns = targets
            .iter()
            .zip(states)
            .map(|(target, state)| {
                let pattern = |kind: &str| -> PyResult<Py<PyDict>> {
                    let pattern = PyDict::new(py);
                    keys.reserve(&pattern)?;
                    pattern.set_item(&keys.kind, intern(kind))?;
                    Ok(pattern.unbind())
                };
                let http = PyDict::new(py);
                for name in ["http.response.trailers", "http.response.early_hint"] {
                    http.set_item(name, PyDict::new(py))?;
                }
                let denial = PyDict::new(py);
                denial.set_item("websocket.http.response", PyDict::new(py))?;
                Ok(Pattern {
                    prefix: target.prefix.clone(),
                    http: pattern("http")?,
                    websocket: pattern("websocket")?,
                    asgi: asgi_versions(py, target.interface)?.unbind(),
                    state,
                    extensions: [http.unbind(), denial.unbind()],
                })
            })
            .collect::<PyResult<_>>()?;
        let methods = [
            &b"GET"[..],
            b"POST",
            b"HEAD",
            b"PUT",
            b"DELETE",
            b"PATCH",
            b"OPTIONS",
        ];
        Ok(Self {
            targets: patterns,
            keys,
            names: FxHashMap::default(),
            methods: methods
                .into_iter()
                .map(|method| (method, intern(&String::from_utf8_lossy(method))))
                .collect(),
            versions: ["1.0", "1.1", "2", "3"].map(intern),
            schemes: ["http", "https", "ws", "wss"].map(intern),
            server: Vec::new(),
            server_pair: None,
            client: Last::default(),
        })
    }

    /// The scope of a request for a target.
    pub(super) fn make<'py>(
        &mut self,
        py: Python<'py>,
        request: &WireRequestView<'_>,
        target: usize,
    ) -> PyResult<Bound<'py, PyDict>> {
        let headers = self.headers(py, request)?;
        let client = self.client.get(py, request.remote_address())?;
        let client = (client, request.remote_port());
        let server = self.server(py, request)?;
        let is_websocket = request.is_websocket();
        let Some(pattern) = self.targets.get(target) else {
            return Ok(PyDict::new(py));
        };
        let keys = &self.keys;
        let scope = match is_websocket {
            true => pattern.websocket.bind(py).copy()?,
            false => pattern.http.bind(py).copy()?,
        };
        scope.set_item(&keys.asgi, pattern.asgi.bind(py).copy()?)?;
        scope.set_item(&keys.state, pattern.state.bind(py).copy()?)?;
        if let Some(extensions) = pattern.extensions.get(usize::from(is_websocket)) {
            scope.set_item(&keys.extensions, extensions.bind(py).copy()?)?;
        }
        if let Some(version) = self.versions.get(usize::from(request.version_minor())) {
            scope.set_item(&keys.http_version, version)?;
        }
        let is_secure = request.scheme() == b"https" || request.tls();
        let scheme = usize::from(is_secure) + 2 * usize::from(is_websocket);
        if let Some(scheme) = self.schemes.get(scheme) {
            scope.set_item(&keys.scheme, scheme)?;
        }
        scope.set_item(&keys.server, server)?;
        scope.set_item(&keys.client, client)?;
        scope.set_item(&keys.headers, headers)?;
        if !is_websocket {
            let key = intern!(py, "method");
            let known = self
                .methods
                .iter()
                .find(|(method, _)| *method == request.method());
            match known {
                Some((_, text)) => scope.set_item(key, text)?,
                None => scope.set_item(key, latin1(py, request.method())?)?,
            }
        } else {
            scope.set_item(intern!(py, "subprotocols"), subprotocols(py, request)?)?;
        }
        let path = request.path();
        let text = match path.is_ascii() {
            true => latin1(py, path)?,
            false => PyString::new(py, &String::from_utf8_lossy(path)),
        };
        scope.set_item(&keys.path, text)?;
        if under(pattern.prefix.as_bytes(), path).is_some() {
            scope.set_item(intern!(py, "root_path"), &pattern.prefix)?;
        }
        let target = request.target();
        let end = memchr::memchr(b'?', target).unwrap_or(target.len());
        scope.set_item(
            &keys.raw_path,
            PyBytes::new(py, target.get(..end).unwrap_or(target)),
        )?;
        scope.set_item(&keys.query_string, PyBytes::new(py, request.query()))?;
        Ok(scope)
    }

    fn server<'py>(
        &mut self,
        py: Python<'py>,
        request: &WireRequestView<'_>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let (name, port) = (request.local_address(), request.local_port());
        if let Some((known, pair)) = &self.server_pair
            && *known == port
            && self.server == name
        {
            return Ok(pair.bind(py).clone());
        }
        let pair = if port == 0 {
            // A Unix socket: its path, and no port.
            (latin1(py, name)?, py.None()).into_pyobject(py)?
        } else {
            (latin1(py, name)?, port).into_pyobject(py)?
        };
        self.server = name.to_vec();
        self.server_pair = Some((port, pair.clone().unbind()));
        Ok(pair)
    }

    fn headers<'py>(
        &mut self,
        py: Python<'py>,
        request: &WireRequestView<'_>,
    ) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for (name, value) in request.fields() {
            list.append(self.header(py, name, value)?)?;
        }
        Ok(list)
    }

    fn header<'py>(
        &mut self,
        py: Python<'py>,
        name: &[u8],
        value: &[u8],
    ) -> PyResult<Bound<'py, PyTuple>> {
        if !self.names.contains_key(name) {
            let lower = PyBytes::new(py, &name.to_ascii_lowercase());
            if self.names.len() >= MOST_NAMES {
                return (lower, PyBytes::new(py, value)).into_pyobject(py);
            }
            let known = Name {
                name: lower.unbind(),
                value: Vec::new(),
                pair: None,
            };
            self.names.insert(name.into(), known);
        }
        let Some(known) = self.names.get_mut(name) else {
            return (PyBytes::new(py, name), PyBytes::new(py, value)).into_pyobject(py);
        };
        if let Some(pair) = &known.pair
            && known.value == value
        {
            return Ok(pair.bind(py).clone());
        }
        let pair = (known.name.bind(py), PyBytes::new(py, value)).into_pyobject(py)?;
        if value.len() <= LONGEST_KEPT {
            known.value.clear();
            known.value.extend_from_slice(value);
            known.pair = Some(pair.clone().unbind());
        }
        Ok(pair)
    }
}

fn subprotocols<'py>(
    py: Python<'py>,
    request: &WireRequestView<'_>,
) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for (name, value) in request.fields() {
        if name.eq_ignore_ascii_case(b"sec-websocket-protocol") {
            for word in value.split(|byte| *byte == b',') {
                let word = word.trim_ascii();
                if !word.is_empty() {
                    list.append(latin1(py, word)?)?;
                }
            }
        }
    }
    Ok(list)
}

/// `scope["asgi"]`.
pub(super) fn asgi_versions<'py>(
    py: Python<'py>,
    interface: Interface,
) -> PyResult<Bound<'py, PyDict>> {
    let versions = PyDict::new(py);
    let version = if interface == Interface::Asgi2 {
        "2.0"
    } else {
        "3.0"
    };
    versions.set_item("version", version)?;
    // 2.4 would make Starlette stop listening for disconnects while it streams.
    versions.set_item("spec_version", "2.3")?;
    Ok(versions)
}
