//! An API server of Kubernetes, as much of it as EndpointSlices need: over TLS, with tokens, pages, watches, bookmarks and versions that
//! are forgotten. Its words are those of the API's documentation
//! (<https://kubernetes.io/docs/reference/using-api/api-concepts/>).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};

/// The token of the service account that may look.
pub const TOKEN: &str = "first-token";

/// The API server. It ends with the test program.
pub struct ApiServer {
    /// Where it listens.
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    token: String,
    /// By name.
    slices: BTreeMap<String, Value>,
    version: u64,
    /// Each with the version that it makes.
    events: Vec<(u64, String)>,
    /// Watches from before this version are refused.
    oldest: u64,
    /// The answer in place of any other.
    refusal: Option<(u16, String)>,
    /// Watches that began before this number end.
    ended: u64,
    /// Slices of one page.
    page: usize,
    seen: Seen,
}

/// The requests so far.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// All that came over TLS.
    pub requests: u64,
    /// Lists, or pages of them.
    pub lists: u64,
    /// Versions from which watches were begun.
    pub watches: Vec<String>,
    /// Requests with another token than is right.
    pub strangers: u64,
}

/// An endpoint of a slice, ready, of the pod `web-LAST`.
pub fn ready(last: u8) -> Value {
    endpoint(last, true, true, false)
}

/// An endpoint with these conditions.
pub fn endpoint(last: u8, is_ready: bool, is_serving: bool, is_terminating: bool) -> Value {
    json!({
        "addresses": [format!("127.0.0.{last}")],
        "conditions": {"ready": is_ready, "serving": is_serving, "terminating": is_terminating},
        "nodeName": "node-1",
        "targetRef": {"kind": "Pod", "namespace": "shop", "name": format!("web-{last}"), "uid": "1"},
        "zone": "a",
    })
}

impl ApiServer {
    /// Starts one, with a certificate and a key in PEM files.
    pub fn start(certificate: &Path, key: &Path) -> Self {
        let chain = CertificateDer::pem_file_iter(certificate).unwrap();
        let chain = chain.collect::<Result<Vec<_>, _>>().unwrap();
        let key = PrivateKeyDer::from_pem_file(key).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                token: TOKEN.to_owned(),
                slices: BTreeMap::new(),
                version: 100,
                events: Vec::new(),
                oldest: 0,
                refusal: None,
                ended: 0,
                page: usize::MAX,
                seen: Seen::default(),
            }),
            changed: Condvar::new(),
        });
        let (tls, of_thread) = (Arc::new(tls), Arc::clone(&shared));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (tls, shared) = (Arc::clone(&tls), Arc::clone(&of_thread));
                // A client that goes is no fault.
                std::thread::spawn(move || drop(serve(stream, tls, &shared)));
            }
        });
        Self { address, shared }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap()
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let outcome = change(&mut self.state());
        self.shared.changed.notify_all();
        outcome
    }

    /// Puts a slice of the Service `web` of the namespace `shop`, with one port `http`.
    pub fn put(&self, name: &str, port: u16, endpoints: &[Value]) {
        let ports = json!([{"name": "http", "protocol": "TCP", "port": port}]);
        self.put_with(name, &ports, endpoints);
    }

    /// The same with these ports.
    pub fn put_with(&self, name: &str, ports: &Value, endpoints: &[Value]) {
        self.change(|state| {
            state.version += 1;
            let slice = json!({
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {
                    "name": name, "namespace": "shop", "resourceVersion": state.version.to_string(),
                    "labels": {"kubernetes.io/service-name": "web"},
                },
                "addressType": "IPv4",
                "endpoints": endpoints,
                "ports": ports,
            });
            let before = state.slices.insert(name.to_owned(), slice.clone());
            let kind = if before.is_some() {
                "MODIFIED"
            } else {
                "ADDED"
            };
            state.note(kind, &slice);
        });
    }

    /// Deletes a slice.
    pub fn delete(&self, name: &str) {
        self.change(|state| {
            state.version += 1;
            let mut slice = state.slices.remove(name).unwrap();
            slice["metadata"]["resourceVersion"] = json!(state.version.to_string());
            state.note("DELETED", &slice);
        });
    }

    /// Sends a bookmark to all who watch, with a new version, and returns that.
    pub fn bookmark(&self) -> String {
        self.change(|state| {
            state.version += 7;
            let version = state.version.to_string();
            let mark = json!({"kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1",
                              "metadata": {"resourceVersion": version}, "endpoints": null, "ports": null});
            state.note("BOOKMARK", &mark);
            version
        })
    }

    /// Sends a line to all who watch.
    pub fn say(&self, line: &str) {
        self.change(|state| {
            state.version += 1;
            state.events.push((state.version, line.to_owned()));
        });
    }

    /// Ends all watches, as their time does.
    pub fn end_watches(&self) {
        self.change(|state| state.ended += 1);
    }

    /// Changes the endpoints of a slice so that no watch hears of it, and forgets all versions so far: a watch from one of them gets 410.
    pub fn put_unheard(&self, name: &str, endpoints: &[Value]) {
        self.change(|state| {
            state.version += 1;
            let version = state.version;
            let slice = state.slices.get_mut(name).unwrap();
            slice["metadata"]["resourceVersion"] = json!(version.to_string());
            slice["endpoints"] = json!(endpoints);
            state.oldest = version;
            state.events.clear();
        });
    }

    /// From now on every request is answered so; `None`: as it should be.
    pub fn refuse(&self, refusal: Option<(u16, &str)>) {
        let refusal = refusal.map(|(status, message)| (status, message.to_owned()));
        self.change(|state| state.refusal = refusal);
    }

    /// From now on this token is the right one.
    pub fn take_token(&self, token: &str) {
        self.change(|state| token.clone_into(&mut state.token));
    }

    /// From now on a page of a list has so many slices.
    pub fn page(&self, slices: usize) {
        self.change(|state| state.page = slices);
    }

    /// The requests so far.
    pub fn seen(&self) -> Seen {
        self.state().seen.clone()
    }
}

impl State {
    fn note(&mut self, kind: &str, object: &Value) {
        let line = json!({"type": kind, "object": object}).to_string();
        self.events.push((self.version, line));
    }
}

type Stream = StreamOwned<ServerConnection, TcpStream>;

fn serve(stream: TcpStream, tls: Arc<ServerConfig>, shared: &Shared) -> io::Result<()> {
    let session = ServerConnection::new(tls).map_err(io::Error::other)?;
    let mut stream = StreamOwned::new(session, stream);
    let mut got = Vec::new();
    loop {
        let Some(head) = head(&mut stream, &mut got)? else {
            return Ok(());
        };
        let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let query: BTreeMap<String, String> = query.split('&').filter_map(pair).collect();
        let (token, refusal) = {
            let mut state = shared.state.lock().unwrap();
            state.seen.requests += 1;
            (state.token.clone(), state.refusal.clone())
        };
        if let Some((status, message)) = refusal {
            answer(&mut stream, status, &refused(status, &message))?;
        } else if !head.contains(&format!("authorization: Bearer {token}\r\n")) {
            shared.state.lock().unwrap().seen.strangers += 1;
            answer(&mut stream, 401, &refused(401, "Unauthorized"))?;
        } else if path != "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices"
            || query.get("labelSelector").map(String::as_str)
                != Some("kubernetes.io/service-name=web")
        {
            // Another Service has no slices.
            let empty = json!({"kind": "EndpointSliceList", "metadata": {"resourceVersion": "1"}, "items": []});
            answer(&mut stream, 200, &empty)?;
        } else if query.contains_key("watch") {
            watch(&mut stream, &query, shared)?;
        } else {
            let page = list(&query, shared);
            answer(&mut stream, 200, &page)?;
        }
    }
}

/// The next head, with its names of fields in small letters; `None`: the client is gone.
fn head(stream: &mut Stream, got: &mut Vec<u8>) -> io::Result<Option<String>> {
    loop {
        if let Some(end) = got.windows(4).position(|part| part == b"\r\n\r\n") {
            let head: Vec<u8> = got.drain(..end + 4).collect();
            let head = String::from_utf8_lossy(&head).into_owned();
            let mut lines = head.split_inclusive("\r\n");
            let mut small = lines.next().unwrap_or_default().to_owned();
            for line in lines {
                let (name, rest) = line.split_at(line.find(':').unwrap_or(0));
                small.push_str(&name.to_ascii_lowercase());
                small.push_str(rest);
            }
            return Ok(Some(small));
        }
        let mut buffer = [0; 4096];
        match stream.read(&mut buffer)? {
            0 => return Ok(None),
            count => got.extend_from_slice(&buffer[..count]),
        }
    }
}

fn answer(stream: &mut Stream, status: u16, body: &Value) -> io::Result<()> {
    let body = body.to_string();
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )?;
    stream.flush()
}

fn refused(code: u16, message: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "code": code})
}

fn list(query: &BTreeMap<String, String>, shared: &Shared) -> Value {
    let mut state = shared.state.lock().unwrap();
    state.seen.lists += 1;
    let limit = query.get("limit").and_then(|limit| limit.parse().ok());
    let page = state.page.min(limit.unwrap_or(usize::MAX));
    let start = query.get("continue").map_or(0, |rest| {
        rest.trim_start_matches("rest=/").parse().unwrap_or(0)
    });
    let items: Vec<Value> = state
        .slices
        .values()
        .skip(start)
        .take(page)
        .cloned()
        .collect();
    let next = start + items.len();
    let mut metadata = json!({"resourceVersion": state.version.to_string()});
    if next < state.slices.len() {
        // Letters that have to be encoded.
        metadata["continue"] = json!(format!("rest=/{next}"));
    }
    json!({"kind": "EndpointSliceList", "apiVersion": "discovery.k8s.io/v1", "metadata": metadata, "items": items})
}

fn watch(stream: &mut Stream, query: &BTreeMap<String, String>, shared: &Shared) -> io::Result<()> {
    let from = query.get("resourceVersion").cloned().unwrap_or_default();
    let mut version: u64 = from.parse().unwrap_or(0);
    let began = {
        let mut state = shared.state.lock().unwrap();
        state.seen.watches.push(from);
        state.ended
    };
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )?;
    stream.flush()?;
    loop {
        let mut text = String::new();
        let is_over = {
            let mut state = shared.state.lock().unwrap();
            loop {
                if version < state.oldest {
                    let gone = refused(410, "too old resource version");
                    let line = json!({"type": "ERROR", "object": gone});
                    let _ = writeln!(text, "{line}");
                    break true;
                }
                for (made, line) in &state.events {
                    if *made > version {
                        let _ = writeln!(text, "{line}");
                        version = *made;
                    }
                }
                if !text.is_empty() {
                    break false;
                }
                if state.ended > began {
                    break true;
                }
                // A client that has gone is noticed when something is sent.
                let waited = shared.changed.wait_timeout(state, Duration::from_secs(1));
                state = waited.unwrap().0;
            }
        };
        if !text.is_empty() {
            // In two pieces, which end anywhere.
            let (first, second) = text.as_bytes().split_at(text.len() / 3);
            for piece in [first, second] {
                write!(stream, "{:x}\r\n", piece.len())?;
                stream.write_all(piece)?;
                stream.write_all(b"\r\n")?;
                stream.flush()?;
            }
        }
        if is_over {
            stream.write_all(b"0\r\n\r\n")?;
            return stream.flush();
        }
    }
}

fn pair(pair: &str) -> Option<(String, String)> {
    let (name, value) = pair.split_once('=')?;
    Some((decoded(name), decoded(value)))
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        rest = behind;
        match (first, behind) {
            (b'%', [high, low, ..]) => {
                let digits = String::from_utf8_lossy(&[*high, *low]).into_owned();
                bytes.push(u8::from_str_radix(&digits, 16).unwrap_or(b'?'));
                rest = &behind[2..];
            }
            (byte, _) => bytes.push(*byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
