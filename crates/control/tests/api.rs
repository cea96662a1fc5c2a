//! The API as its clients see it: bytes in, bytes out, over a real socket.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tutti_config::{Diagnostic, Diagnostics, Document, FaultKind, Location, Pointer};
use tutti_control::{
    Cause, Changes, ControlAccess, ControlListener, RestartError, Service, ServiceFuture,
    StoreError, StoreKind, Token, serve,
};
use tutti_testkit::client::{self, Reply};
use tutti_testkit::{PATIENCE, wait_until};

/// A server that stores its configuration, and does what the tests need.
struct Fake {
    document: Arc<Mutex<Arc<Document>>>,
    applied: Arc<Mutex<Vec<String>>>,
    causes: Arc<Mutex<Vec<Cause>>>,
    /// A change waits for a permit, if there is this gate.
    gate: Option<Arc<Semaphore>>,
    at_once: Arc<AtomicUsize>,
    overlapped: Arc<AtomicBool>,
    fail: Option<Diagnostics>,
    /// Requests for the status get no answer.
    hangs: bool,
}

impl Default for Fake {
    fn default() -> Self {
        let document = tutti_config::parse(CONFIG.as_bytes()).unwrap();
        Fake {
            document: Arc::new(Mutex::new(Arc::new(document))),
            applied: Arc::default(),
            causes: Arc::default(),
            gate: None,
            at_once: Arc::default(),
            overlapped: Arc::default(),
            fail: None,
            hangs: false,
        }
    }
}

const CONFIG: &str = r#"{"listeners": {"*:8080": {"pass": "routes"}},
    "routes": [{"action": {"return": 200}}, {"action": {"return": 404}}],
    "applications": {"a/b": {"type": "php", "root": "/www"}}}"#;

impl Service for Fake {
    fn document(&self) -> Arc<Document> {
        Arc::clone(&self.document.lock().unwrap())
    }

    fn apply(
        &self,
        document: Document,
        cause: Cause,
    ) -> ServiceFuture<Result<Diagnostics, Diagnostics>> {
        self.causes.lock().unwrap().push(cause);
        let (place, applied) = (Arc::clone(&self.document), Arc::clone(&self.applied));
        let (at_once, overlapped) = (Arc::clone(&self.at_once), Arc::clone(&self.overlapped));
        let (gate, fail) = (self.gate.clone(), self.fail.clone());
        Box::pin(async move {
            if at_once.fetch_add(1, Ordering::SeqCst) > 0 {
                overlapped.store(true, Ordering::SeqCst);
            }
            if let Some(gate) = gate {
                gate.acquire().await.unwrap().forget();
            }
            tokio::task::yield_now().await;
            at_once.fetch_sub(1, Ordering::SeqCst);
            if let Some(faults) = fail {
                return Err(faults);
            }
            applied
                .lock()
                .unwrap()
                .push(document.root().to_compact_json());
            *place.lock().unwrap() = Arc::new(document);
            Ok(Diagnostics::default())
        })
    }

    fn past(&self, number: u64) -> ServiceFuture<Result<Option<Document>, String>> {
        let text = (number == 7).then_some(r#"{"routes": []}"#);
        let document = text.map(|text| tutti_config::parse(text.as_bytes()).unwrap());
        Box::pin(async move { Ok(document) })
    }

    fn status(&self) -> ServiceFuture<Result<Value, String>> {
        let status = json!({"connections": {"active": 3}, "applications": {"a/b": {"processes": {"running": 2}}}});
        let outcome = match self.hangs {
            true => Err("the router does not answer".to_owned()),
            false => Ok(status),
        };
        Box::pin(std::future::ready(outcome))
    }

    fn keep(
        &self,
        store: StoreKind,
        name: &str,
        bytes: Vec<u8>,
    ) -> ServiceFuture<Result<Vec<String>, StoreError>> {
        assert_eq!(name.as_bytes(), bytes);
        let result = match (name, store) {
            ("old", StoreKind::Certificates) => Ok(vec!["it has expired".to_owned()]),
            ("bad", StoreKind::Certificates) => {
                let reason = "there is no private key in it";
                let fault = Diagnostic::new(Pointer::default(), reason);
                Err(StoreError::Invalid(Box::new(fault)))
            }
            ("bad", StoreKind::JsModules) => {
                let fault = Diagnostic {
                    location: Some(Location {
                        offset: 20,
                        length: 1,
                        line: 2,
                        column: 9,
                    }),
                    ..Diagnostic::new(Pointer::default(), "SyntaxError: no")
                };
                Err(StoreError::Invalid(Box::new(fault)))
            }
            _ => Ok(Vec::new()),
        };
        Box::pin(std::future::ready(result))
    }

    fn discard(&self, store: StoreKind, name: &str) -> ServiceFuture<Result<(), StoreError>> {
        let place = match store {
            StoreKind::Certificates => "/listeners/*:443/tls/certificate",
            StoreKind::JsModules => "/settings/js_module",
        };
        let result = match name {
            "used" => Err(StoreError::Used(vec![place.to_owned()])),
            "none" => Err(StoreError::Unknown),
            _ => Ok(()),
        };
        Box::pin(std::future::ready(result))
    }

    fn restart(&self, application: &str) -> ServiceFuture<Result<(), RestartError>> {
        let result = match application {
            "a/b" => Ok(()),
            "broken" => {
                let pointer = Pointer::from_segments(["applications", "broken"]);
                let fault = Diagnostic::apply(pointer, "it does not start");
                Err(RestartError::Failed(Diagnostics::one(fault)))
            }
            _ => Err(RestartError::Unknown),
        };
        Box::pin(async move { result })
    }

    fn server_name(&self) -> &str {
        "Tutti/0.0.0"
    }
}

struct Server {
    path: PathBuf,
    _folder: tempfile::TempDir,
}

fn start(service: Fake) -> Server {
    start_for(service, ControlAccess::default())
}

fn start_for(service: Fake, access: ControlAccess) -> Server {
    start_at(service, move |socket| {
        ControlListener::from_fd(socket, access)
    })
}

fn start_at(
    service: Fake,
    listen: impl FnOnce(std::os::fd::OwnedFd) -> std::io::Result<ControlListener> + Send + 'static,
) -> Server {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("control.sock");
    let socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let listener = listen(socket.into()).unwrap();
            serve(listener, Arc::new(service), Arc::default()).await;
        });
    });
    Server {
        path,
        _folder: folder,
    }
}

impl Server {
    fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(&self.path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends bytes, reads to the end.
    fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        // It may have answered before it has read all of it.
        let _ = stream.write_all(bytes);
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn with(&self, method: &str, path: &str, fields: &str, body: &str) -> Reply {
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{fields}Content-Length: {length}\r\n\r\n{body}"
        );
        let reply = client::request_by_path(&self.path, request.as_bytes()).unwrap();
        assert!(reply.is_whole, "{}", reply.head);
        reply
    }

    fn get(&self, path: &str) -> Reply {
        self.with("GET", path, "", "")
    }
}

/// Issue 10: a router that hangs must not make the API hang.
#[test]
fn a_status_that_cannot_be_had_is_503_with_the_reason_and_the_rest_goes_on() {
    let server = start(Fake {
        hangs: true,
        ..Fake::default()
    });
    for path in ["/status", "/status/connections", "/"] {
        let answer = server.get(path);
        assert_eq!(answer.status, 503, "{path}");
        assert_eq!(answer.json()["detail"], "The router does not answer.");
    }
    assert_eq!(server.get("/config/routes").status, 200);
}

#[test]
fn values_are_read_at_any_depth() {
    let server = start(Fake::default());
    let table = [
        ("/config/listeners/*:8080/pass", 200, json!("routes")),
        ("/config/listeners/%2A%3A8080/pass/", 200, json!("routes")),
        ("/config/routes/1", 200, json!({"action": {"return": 404}})),
        ("/config/routes/1/action/return?pretty", 200, json!(404)),
        ("/config/applications/a%2Fb/type", 200, json!("php")),
        (
            "/config/routes/2",
            404,
            json!({"error": "Value doesn't exist."}),
        ),
        (
            "/config/routes/01",
            404,
            json!({"error": "Value doesn't exist."}),
        ),
        (
            "/config/applications/a/b",
            404,
            json!({"error": "Value doesn't exist."}),
        ),
        ("/status/connections/active", 200, json!(3)),
        (
            "/status/applications/a%2Fb/processes",
            200,
            json!({"running": 2}),
        ),
        (
            "/status/nothing",
            404,
            json!({"error": "Value doesn't exist."}),
        ),
        ("/certificates", 200, json!({})),
        ("/js_modules/", 200, json!({})),
        (
            "/certificates/x",
            404,
            json!({"error": "Value doesn't exist."}),
        ),
        ("/elsewhere", 404, json!({"error": "Value doesn't exist."})),
    ];
    for (path, status, body) in table {
        let answer = server.get(path);
        assert_eq!((answer.status, answer.json()), (status, body), "{path}");
        assert_eq!(
            answer.field("Content-Type"),
            Some("application/json"),
            "{path}"
        );
        assert_eq!(answer.field("Server"), Some("Tutti/0.0.0"), "{path}");
    }
    let everything = server.get("/").json();
    let names: Vec<&String> = everything.as_object().unwrap().keys().collect();
    assert_eq!(names, ["certificates", "js_modules", "config", "status"]);
    assert_eq!(
        everything["config"],
        serde_json::from_str::<Value>(CONFIG).unwrap()
    );
}

#[test]
fn a_configuration_is_printed_indented() {
    let server = start(Fake::default());
    let answer = server.get("/config/listeners");
    assert_eq!(
        answer.text(),
        "{\n\t\"*:8080\": {\n\t\t\"pass\": \"routes\"\n\t}\n}\n"
    );
    let head = server.with("HEAD", "/config/listeners", "", "");
    assert_eq!(head.field("Content-Length"), answer.field("Content-Length"));
    assert_eq!(head.text(), "");
}

#[test]
fn changes_are_made_at_any_depth() {
    let service = Fake::default();
    let applied = Arc::clone(&service.applied);
    let server = start(service);
    let steps = [
        ("PUT", "/config/listeners/*:9", r#"{"pass": "routes"}"#),
        (
            "PUT",
            "/config/listeners/*:9/pass",
            r#""applications/a%2Fb""#,
        ),
        ("POST", "/config/routes/", r#"{"action": {"return": 500}}"#),
        ("PUT", "/config/routes/3/", r#"{"action": {"return": 501}}"#),
        ("DELETE", "/config/routes/0", ""),
        ("DELETE", "/config/applications/a%2Fb", ""),
        ("PUT", "/config", "\u{feff}{\"routes\": [] /* none */}"),
        ("DELETE", "/config", ""),
    ];
    for (method, path, body) in steps {
        let answer = server.with(method, path, "", body);
        assert_eq!(
            (answer.status, answer.json()),
            (200, json!({"success": "Reconfiguration done."})),
            "{method} {path}"
        );
    }
    let applied = applied.lock().unwrap();
    assert_eq!(applied.len(), steps.len());
    let at = |index: usize| serde_json::from_str::<Value>(&applied[index]).unwrap();
    assert_eq!(at(0)["listeners"]["*:9"], json!({"pass": "routes"}));
    assert_eq!(
        at(1)["listeners"]["*:9"],
        json!({"pass": "applications/a%2Fb"})
    );
    let statuses: Vec<_> = at(4)["routes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["action"]["return"].clone())
        .collect();
    assert_eq!(statuses, [404, 500, 501]);
    assert_eq!(at(5)["applications"], json!({}));
    assert_eq!(at(6), json!({"routes": []}));
    assert_eq!(at(7), json!({}));
}

#[test]
fn what_makes_no_difference_does_nothing() {
    let service = Fake::default();
    let applied = Arc::clone(&service.applied);
    let server = start(service);
    let answer = server.with(
        "PUT",
        "/config/routes/1/action/return",
        "",
        " 404 // the same\n",
    );
    assert_eq!(answer.status, 200);
    assert_eq!(applied.lock().unwrap().len(), 0);
}

#[test]
fn faults_say_where_and_why() {
    let service = Fake::default();
    let applied = Arc::clone(&service.applied);
    let server = start(service);
    let answer = server.with(
        "PUT",
        "/config/listeners",
        "",
        "{\n  \"*:80\": {\"pass\" \"x\"}\n}",
    );
    let body = answer.json();
    assert_eq!(
        (answer.status, &body["error"]),
        (400, &json!("Invalid JSON."))
    );
    assert_eq!(body["location"]["line"], json!(2));
    assert!(
        body["errors"][0]["pointer"]
            .as_str()
            .unwrap()
            .starts_with("/listeners"),
        "{body}"
    );
    for (method, path, body, status) in [
        ("PUT", "/config/applications/x/type", "\"php\"", 404),
        ("PUT", "/config/routes/9", "{}", 404),
        ("POST", "/config/listeners", "{}", 400),
        ("POST", "/config/nothing", "{}", 404),
        ("DELETE", "/config/nothing", "", 404),
        ("PUT", "/config", "", 400),
        ("PUT", "/config", "\"\\ud800\"", 400),
    ] {
        let answer = server.with(method, path, "", body);
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
        assert!(answer.json()["error"].is_string());
    }
    assert_eq!(applied.lock().unwrap().len(), 0);
}

#[test]
fn a_change_that_cannot_be_applied_changes_nothing() {
    let pointer = Pointer::from_segments(["listeners", "*:9"]);
    let fault = Diagnostic::apply(pointer, "the port is in use");
    let server = start(Fake {
        fail: Some(Diagnostics::one(fault)),
        ..Fake::default()
    });
    let before = server.get("/config");
    let answer = server.with("PUT", "/config/listeners/*:9", "", r#"{"pass": "routes"}"#);
    let body = answer.json();
    assert_eq!(
        (answer.status, &body["error"]),
        (500, &json!("Failed to apply new configuration."))
    );
    assert_eq!(body["errors"][0]["pointer"], "/listeners/*:9");
    assert_eq!(server.get("/config").text(), before.text());
}

#[test]
fn methods_that_a_place_does_not_take_are_named() {
    let server = start(Fake::default());
    for (method, path, allow) in [
        ("OPTIONS", "/config", "GET, HEAD, PUT, POST, PATCH, DELETE"),
        (
            "BREW",
            "/config/routes",
            "GET, HEAD, PUT, POST, PATCH, DELETE",
        ),
        ("PUT", "/status", "GET, HEAD"),
        ("DELETE", "/", "GET, HEAD"),
        ("POST", "/certificates", "GET, HEAD"),
        ("DELETE", "/control/applications/a%2Fb/restart", "GET, POST"),
        ("HEAD", "/control/applications/a%2Fb/restart", "GET, POST"),
    ] {
        let answer = server.with(method, path, "", "");
        assert_eq!(
            (answer.status, answer.field("Allow")),
            (405, Some(allow)),
            "{method} {path}"
        );
    }
    let shared = server.with("POST", "/certificates/x", "", "pem");
    assert_eq!(shared.field("Allow"), Some("GET, HEAD, PUT, DELETE"));
}

#[test]
fn certificates_and_modules_are_stored_and_deleted_and_refusals_say_why() {
    let server = start(Fake::default());
    for (method, name, status, expected) in [
        (
            "PUT",
            "certificates/good",
            200,
            "Certificate chain uploaded.",
        ),
        (
            "PUT",
            "certificates/old",
            200,
            "\"warning\": \"it has expired\"",
        ),
        (
            "PUT",
            "certificates/bad",
            400,
            "There is no private key in it.",
        ),
        ("DELETE", "certificates/good", 200, "Certificate deleted."),
        (
            "DELETE",
            "certificates/used",
            409,
            "`/listeners/*:443/tls/certificate`",
        ),
        ("DELETE", "certificates/none", 404, "Value doesn't exist."),
        ("PUT", "js_modules/good", 200, "JS module uploaded."),
        ("PUT", "js_modules/bad", 400, "SyntaxError: no."),
        ("DELETE", "js_modules/good", 200, "JS module deleted."),
        ("DELETE", "js_modules/used", 409, "`/settings/js_module`"),
        ("DELETE", "js_modules/none", 404, "Value doesn't exist."),
    ] {
        let (_, body) = name.split_once('/').unwrap();
        let answer = server.with(method, &format!("/{name}"), "", body);
        assert_eq!(answer.status, status, "{method} {name}");
        assert!(
            answer.text().contains(expected),
            "{method} {name}: {}",
            answer.text()
        );
    }
    let bad = server.with("PUT", "/js_modules/bad", "", "bad").json();
    assert_eq!(
        bad["location"],
        json!({"offset": 20, "line": 2, "column": 9})
    );
}

#[test]
fn applications_are_restarted() {
    let server = start(Fake::default());
    for method in ["GET", "POST"] {
        let answer = server.with(method, "/control/applications/a%2Fb/restart", "", "");
        assert_eq!(
            (answer.status, answer.json()),
            (200, json!({"success": "Ok"}))
        );
    }
    assert_eq!(server.get("/control/applications/x/restart").status, 404);
    assert_eq!(server.get("/control/applications/x").status, 404);
    let answer = server.get("/control/applications/broken/restart");
    let body = answer.json();
    assert_eq!(
        (answer.status, &body["error"]),
        (500, &json!("Failed to restart the application."))
    );
    assert!(
        body["detail"]
            .as_str()
            .unwrap()
            .starts_with("it does not start")
    );
}

#[test]
fn entity_tags_guard_against_lost_updates() {
    let server = start(Fake::default());
    let tag = server
        .get("/config/routes/0")
        .field("ETag")
        .unwrap()
        .to_owned();
    let guard = format!("If-Match: {tag}\r\n");
    let fresh = server.with(
        "GET",
        "/config/routes/0",
        &format!("If-None-Match: {tag}\r\n"),
        "",
    );
    assert_eq!(
        (fresh.status, fresh.body.len(), fresh.field("ETag")),
        (304, 0, Some(tag.as_str()))
    );
    // A change elsewhere does not matter, one here does.
    assert_eq!(
        server
            .with("PUT", "/config/routes/1/action/return", "", "403")
            .status,
        200
    );
    let first = server.with("PUT", "/config/routes/0/action/return", "", "201");
    assert_eq!(first.status, 200);
    let second = server.with(
        "PUT",
        "/config/routes/0",
        &guard,
        r#"{"action": {"return": 202}}"#,
    );
    assert_eq!(second.status, 412);
    assert_eq!(
        server.get("/config/routes/0/action/return").json(),
        json!(201)
    );
    // With the tag the last answer gave it goes through.
    let tag = first.field("ETag").unwrap();
    let third = server.with(
        "PUT",
        "/config/routes/0/action/return",
        &format!("If-Match: {tag}\r\n"),
        "203",
    );
    assert_eq!(third.status, 200);
    // Create, but never replace.
    let create = "If-None-Match: *\r\n";
    assert_eq!(
        server
            .with("PUT", "/config/access_log", create, "\"/a\"")
            .status,
        200
    );
    assert_eq!(
        server
            .with("PUT", "/config/access_log", create, "\"/b\"")
            .status,
        412
    );
    assert_eq!(
        server
            .with("DELETE", "/config/settings", "If-Match: *\r\n", "")
            .status,
        412
    );
    assert_eq!(
        server
            .with("GET", "/config/routes", "If-Match: \"other\"\r\n", "")
            .status,
        412
    );
}

#[test]
fn of_two_updates_of_the_same_version_one_wins() {
    let server = Arc::new(start(Fake::default()));
    let tag = server
        .get("/config/routes")
        .field("ETag")
        .unwrap()
        .to_owned();
    let writers: Vec<_> = (0..8)
        .map(|number| {
            let (server, tag) = (Arc::clone(&server), tag.clone());
            std::thread::spawn(move || {
                let body = format!(r#"[{{"action": {{"return": {}}}}}]"#, 300 + number);
                server
                    .with(
                        "PUT",
                        "/config/routes",
                        &format!("If-Match: {tag}\r\n"),
                        &body,
                    )
                    .status
            })
        })
        .collect();
    let mut statuses: Vec<u16> = writers
        .into_iter()
        .map(|writer| writer.join().unwrap())
        .collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 412, 412, 412, 412, 412, 412, 412]);
}

#[test]
fn changes_come_one_after_the_other_and_none_is_lost() {
    let service = Fake::default();
    let (applied, overlapped) = (
        Arc::clone(&service.applied),
        Arc::clone(&service.overlapped),
    );
    let server = Arc::new(start(service));
    let writers: Vec<_> = (0..20)
        .map(|number| {
            let server = Arc::clone(&server);
            std::thread::spawn(move || {
                let body = format!(r#"{{"action": {{"return": {}}}}}"#, 300 + number);
                server.with("POST", "/config/routes", "", &body).status
            })
        })
        .collect();
    for writer in writers {
        assert_eq!(writer.join().unwrap(), 200);
    }
    assert_eq!(
        server
            .get("/config/routes")
            .json()
            .as_array()
            .unwrap()
            .len(),
        22
    );
    assert_eq!(applied.lock().unwrap().len(), 20);
    assert!(!overlapped.load(Ordering::SeqCst));
}

#[test]
fn a_change_goes_on_when_its_client_leaves_and_others_can_read_meanwhile() {
    let gate = Arc::new(Semaphore::new(0));
    let service = Fake {
        gate: Some(Arc::clone(&gate)),
        ..Fake::default()
    };
    let (applied, at_once) = (Arc::clone(&service.applied), Arc::clone(&service.at_once));
    let server = start(service);
    let mut client = server.connect();
    client
        .write_all(b"DELETE /config/routes HTTP/1.1\r\nHost: x\r\n\r\n")
        .unwrap();
    wait_until("the change is made", || at_once.load(Ordering::SeqCst) == 1);
    drop(client);
    // A silent client and one that stops in the middle do not delay others either.
    let _silent = server.connect();
    let mut stuck = server.connect();
    stuck
        .write_all(b"PUT /config HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{")
        .unwrap();
    assert_eq!(
        server.get("/config/routes/0/action/return").json(),
        json!(200)
    );
    gate.add_permits(1);
    wait_until("it has been made", || applied.lock().unwrap().len() == 1);
    assert_eq!(server.get("/config/routes").status, 404);
}

#[test]
fn large_and_chunked_bodies_are_taken() {
    let server = start(Fake::default());
    let name = "n".repeat(3 << 20);
    let body = format!(r#"{{"{name}": 1}}"#);
    assert_eq!(
        server.with("PUT", "/config/applications", "", &body).status,
        200
    );
    assert_eq!(
        server
            .get("/config/applications")
            .json()
            .as_object()
            .unwrap()
            .len(),
        1
    );
    let answer = server.raw(
        b"PUT /config/routes HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n[\r\n1\r\n]\r\n0\r\n\r\n",
    );
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert_eq!(server.get("/config/routes").json(), json!([]));
}

#[test]
fn a_client_that_asks_first_gets_100_continue() {
    let server = start(Fake::default());
    let mut client = server.connect();
    client
        .write_all(b"PUT /config/routes HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut interim = [0; 25];
    client.read_exact(&mut interim).unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    client.write_all(b"[]").unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
}

#[test]
fn connections_are_kept_and_requests_may_be_pipelined() {
    let server = start(Fake::default());
    let one = "GET /config/routes/0/action/return HTTP/1.1\r\nHost: x\r\n\r\n";
    let last = "GET /status/connections HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let answers = server.raw(format!("{one}{one}{last}").as_bytes());
    assert_eq!(
        answers.matches("HTTP/1.1 200 OK\r\n").count(),
        3,
        "{answers}"
    );
    let old = server.raw(b"GET /config/routes/0/action/return HTTP/1.0\r\n\r\n");
    assert!(old.starts_with("HTTP/1.0 200 OK\r\n"), "{old}");
}

#[test]
fn malformed_requests_are_refused_with_an_answer() {
    let server = start(Fake::default());
    let long = format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "x".repeat(100_000));
    let table: [(&[u8], u16); 10] = [
        (b"nonsense\r\n\r\n", 400),
        (b"GET /config HTTP/1.1\r\n\r\n", 400),
        (b"GET /config HTTP/3.0\r\nHost: x\r\n\r\n", 400),
        (b"GET /config/%zz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 400),
        (b"PUT /config HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400),
        (b"PUT /config HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n", 413),
        (b"PUT /config HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        // hyper reads chunks where both are given (RFC 9112 §6.3).
        (b"PUT /config HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\nz\r\n", 400),
        (b"GET /config HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400),
        (long.as_bytes(), 414),
    ];
    for (request, status) in table {
        let answer = server.raw(request);
        let shown = String::from_utf8_lossy(request.get(..request.len().min(80)).unwrap());
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{shown}: {answer}"
        );
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        assert!(
            serde_json::from_str::<Value>(body).unwrap()["error"].is_string(),
            "{shown}"
        );
    }
}

#[test]
fn tcp_is_served_too() {
    let access = ControlAccess {
        token: Some(Token::read(&"t".repeat(32)).unwrap()),
        ..ControlAccess::default()
    };
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            serve(
                ControlListener::from_fd(socket.into(), access).unwrap(),
                Arc::new(Fake::default()),
                Arc::default(),
            )
            .await;
        });
    });
    let mut client = std::net::TcpStream::connect(address).unwrap();
    client
        .write_all(
            b"GET /config/routes/0/action/return HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
              Authorization: Bearer tttttttttttttttttttttttttttttttt\r\n\r\n",
        )
        .unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("\r\n\r\n200\n"), "{answer}");
}

#[test]
fn a_merge_patch_changes_what_it_names_and_leaves_the_rest() {
    let fake = Fake::default();
    let (applied, causes) = (Arc::clone(&fake.applied), Arc::clone(&fake.causes));
    let server = start(fake);
    let fields = "Content-Type: application/merge-patch+json\r\nUser-Agent: test/1\r\n";
    let patched = server.with(
        "PATCH",
        "/config/applications/a%2Fb",
        fields,
        r#"{"processes": 3, "root": null}"#,
    );
    assert_eq!(patched.status, 200, "{}", patched.text());
    let text = applied.lock().unwrap().pop().unwrap();
    assert!(
        text.contains(r#"{"a/b":{"type":"php","processes":3}}"#),
        "{text}"
    );
    let cause = causes.lock().unwrap().pop().unwrap();
    assert_eq!(cause.change, "PATCH /config/applications/a%2Fb");
    assert!(
        cause.by.contains("uid ") && cause.by.ends_with(", test/1"),
        "{}",
        cause.by
    );
    let other = server.with(
        "PATCH",
        "/config",
        "Content-Type: application/json-patch+json\r\n",
        "[]",
    );
    assert_eq!(other.status, 415);
    let missing = server.with("PATCH", "/config/nothing/here", fields, "{}");
    assert_eq!(missing.status, 404);
}

#[test]
fn yaml_and_toml_are_taken_and_yaml_is_given() {
    let server = start(Fake::default());
    let put = server.with(
        "PUT",
        "/config/routes/0",
        "Content-Type: application/yaml; charset=utf-8\r\n",
        "action:\n  return: 204 # nothing\n",
    );
    assert_eq!(put.status, 200, "{}", put.text());
    let put = server.with(
        "PUT",
        "/config/routes/1",
        "Content-Type: application/toml\r\n",
        "action.return = 205\n",
    );
    assert_eq!(put.status, 200, "{}", put.text());
    let read = server.with("GET", "/config/routes", "Accept: application/yaml\r\n", "");
    assert!(read.head.contains("Content-Type: application/yaml"));
    assert_eq!(
        read.text(),
        "- action:\n    return: 204\n- action:\n    return: 205\n"
    );
    let wrong = server.with(
        "PUT",
        "/config/routes",
        "Content-Type: text/yaml\r\n",
        "- action: {\n",
    );
    assert_eq!(wrong.status, 400);
    assert!(wrong.text().contains("Invalid YAML."), "{}", wrong.text());
}

#[test]
fn an_earlier_configuration_is_read_and_put_in_force() {
    let fake = Fake::default();
    let applied = Arc::clone(&fake.applied);
    let server = start(fake);
    assert_eq!(server.get("/history").status, 200);
    assert!(server.get("/history/7").text().contains("routes"));
    assert_eq!(server.get("/history/8").status, 404);
    assert_eq!(server.with("PUT", "/history/7/restore", "", "").status, 405);
    assert_eq!(
        server.with("POST", "/history/7/restore", "", "").status,
        200
    );
    assert_eq!(applied.lock().unwrap().as_slice(), [r#"{"routes":[]}"#]);
    assert_eq!(
        server.with("POST", "/history/8/restore", "", "").status,
        404
    );
    // Started without configuration files: only certificates in files are read again.
    assert_eq!(server.with("POST", "/control/reload", "", "").status, 200);
}

#[test]
fn the_schema_and_the_description_of_this_interface_are_served() {
    let server = start(Fake::default());
    let schema = server.get("/schema");
    assert!(schema.head.contains("application/schema+json"));
    assert!(
        schema
            .text()
            .contains("https://json-schema.org/draft/2020-12/schema")
    );
    let description = server.get("/schema/openapi.json").json();
    assert_eq!(description["openapi"], "3.1.0");
    for path in [
        "/config",
        "/config/listeners/{name}/pass",
        "/config/routes/{index}/action/share",
    ] {
        assert!(description["paths"][path]["put"].is_object(), "{path}");
    }
}

/// Issue 10, 1.3: a page of a stranger's site changed the configuration.
#[test]
fn web_pages_of_others_are_refused() {
    let service = Fake::default();
    let applied = Arc::clone(&service.applied);
    let server = start(service);
    let ask = |host: &str, fields: &str| {
        let body = r#"{"action": {"return": 200}}"#;
        let length = body.len();
        let text = server.raw(
            format!("POST /config/routes HTTP/1.1\r\nHost: {host}\r\n{fields}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}")
                .as_bytes(),
        );
        text.split(' ').nth(1).unwrap().parse::<u16>().unwrap()
    };
    let refused = [
        // DNS rebinding: the page's own name means this machine.
        ("evil.example", "", 403),
        (
            "evil.example:8443",
            "Origin: http://evil.example:8443\r\nSec-Fetch-Site: same-origin\r\n",
            403,
        ),
        ("localhost", "Origin: http://evil.example\r\n", 403),
        ("localhost", "Origin: null\r\n", 403),
        ("localhost", "Origin: http://localhost:81\r\n", 403),
        ("localhost", "Sec-Fetch-Site: cross-site\r\n", 403),
        ("localhost", "Sec-Fetch-Site: same-site\r\n", 403),
        ("localhost", "Referer: http://evil.example/page\r\n", 403),
        (
            "localhost",
            "Content-Type: text/plain;charset=UTF-8\r\n",
            415,
        ),
        (
            "localhost",
            "Content-Type: multipart/form-data; boundary=x\r\n",
            415,
        ),
    ];
    for (host, fields, status) in refused {
        assert_eq!(ask(host, fields), status, "{host} {fields}");
    }
    assert!(applied.lock().unwrap().is_empty());
    let taken = [
        // As `curl -d` and `curl --data-binary` send.
        (
            "localhost",
            "Content-Type: application/x-www-form-urlencoded\r\n",
        ),
        ("localhost", "Content-Type: application/json\r\n"),
        ("unit", ""),
        ("%2Frun%2Fcontrol.unit.sock", ""),
        (
            "127.0.0.1:8443",
            "Origin: http://127.0.0.1:8443\r\nSec-Fetch-Site: same-origin\r\n",
        ),
        ("[::1]:8443", "Referer: https://[::1]:8443/console?x\r\n"),
    ];
    for (host, fields) in taken {
        assert_eq!(ask(host, fields), 200, "{host} {fields}");
    }
}

/// Issue 10, 1.3.
#[test]
fn a_token_is_asked_for_where_there_is_one() {
    let secret = "0123456789abcdef0123456789abcdef";
    let access = ControlAccess {
        token: Some(Token::read(secret).unwrap()),
        ..ControlAccess::default()
    };
    let server = start_for(Fake::default(), access);
    let with = |fields: &str| server.with("GET", "/config", fields, "");
    let without = with("");
    assert_eq!(
        (without.status, without.field("WWW-Authenticate")),
        (401, Some("Bearer"))
    );
    assert!(!without.text().contains("listeners"));
    for wrong in [
        "Bearer x",
        &format!("Basic {secret}"),
        &format!("Bearer {secret}1"),
    ] {
        assert_eq!(
            with(&format!("Authorization: {wrong}\r\n")).status,
            401,
            "{wrong}"
        );
    }
    let right = format!("Authorization: Bearer {secret}\r\n");
    assert_eq!(with(&right).status, 200);
    // With two, a proxy in between could evaluate another one than the server.
    assert_eq!(with(&format!("{right}{right}")).status, 401);
}

/// Issue 28: the router passes on any client's requests.
#[test]
fn at_the_socket_for_routers_there_is_the_status_and_nothing_else() {
    let fake = Fake::default();
    let applied = Arc::clone(&fake.applied);
    let server = start_at(fake, |socket| ControlListener::of_status(socket, None));
    let ask = |request: &str| {
        let fields = "Host: shop.example\r\nOrigin: https://a.example\r\nConnection: close\r\n";
        server.raw(format!("{request} HTTP/1.1\r\n{fields}\r\n").as_bytes())
    };
    for path in [
        "/status",
        "/status/",
        "/status/connections/active",
        "/st%61tus?a=1",
    ] {
        let answer = ask(&format!("GET {path}"));
        assert!(answer.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
    }
    assert!(ask("HEAD /status").starts_with("HTTP/1.1 200 "));
    assert!(ask("GET /status/none").starts_with("HTTP/1.1 404 "));
    for path in [
        "/",
        "/config",
        "/config/routes",
        "//status",
        "/status/../config",
        "/metrics",
        "/schema",
        "/control/stop",
    ] {
        let answer = ask(&format!("GET {path}"));
        assert!(answer.starts_with("HTTP/1.1 404 "), "{path}: {answer}");
    }
    for method in ["PUT", "POST", "PATCH", "DELETE"] {
        let answer = ask(&format!("{method} /status"));
        assert!(answer.starts_with("HTTP/1.1 405 "), "{method}: {answer}");
        let answer = ask(&format!("{method} /config"));
        assert!(answer.starts_with("HTTP/1.1 404 "), "{method}: {answer}");
    }
    // A request body is refused, so that no client can fill the memory.
    let put = b"PUT /config HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}";
    assert!(server.raw(put).starts_with("HTTP/1.1 413 "));
    assert!(applied.lock().unwrap().is_empty());
    // Where the control API requires a token, so does this.
    let token = Token::read(&"t".repeat(32)).unwrap();
    let server = start_at(Fake::default(), |socket| {
        ControlListener::of_status(socket, Some(token))
    });
    let line = "GET /status HTTP/1.1\r\nHost: a\r\nConnection: close\r\n";
    let shown = format!("{line}Authorization: Bearer {}\r\n\r\n", "t".repeat(32));
    assert!(
        server
            .raw(format!("{line}\r\n").as_bytes())
            .starts_with("HTTP/1.1 401 ")
    );
    assert!(server.raw(shown.as_bytes()).starts_with("HTTP/1.1 200 "));
}

/// Issue 28: the warning comes also where the change makes no difference, and has the place in the whole document.
#[test]
fn a_comma_before_a_bracket_is_taken_with_a_warning() {
    let server = start(Fake::default());
    for _ in 0..2 {
        let answer = server.with(
            "PUT",
            "/config/settings",
            "",
            r#"{"http": {"idle_timeout": 7,}}"#,
        );
        assert_eq!(answer.status, 200, "{answer:?}");
        let warning = answer.json()["warnings"][0].clone();
        assert_eq!(warning["message"], "there is a comma before `}`");
        assert_eq!(warning["pointer"], "/settings/http");
        assert_eq!(warning["offset"], 27);
    }
    let answer = server.with("PUT", "/config/settings", "", r#"{"http": {},,}"#);
    assert_eq!(answer.status, 400, "{answer:?}");
}

/// Issue 10, 1.3.
#[test]
fn a_tcp_port_is_not_served_without_a_token() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let refused = ControlListener::from_fd(port.into(), ControlAccess::default()).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
}

/// Issue 10, 1.10 and 2.14.
#[test]
fn warnings_about_a_change_that_works_come_beside_success() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join(".git")).unwrap();
    std::fs::write(folder.path().join("index.php"), "<?php").unwrap();
    std::fs::write(folder.path().join("config.php"), "<?php").unwrap();
    let root = folder.path().display();
    let server = start(Fake::default());
    let put = |deny: &str, shm: &str| {
        let config = format!(
            r#"{{"listeners": {{"*:80": {{"pass": "routes"}}}},
  "routes": [{{"match": {{"uri": "!/index.php"}}, "action": {{"share": "{root}$uri"{deny}, "fallback": {{"pass": "applications/site"}}}}}}],
  "applications": {{"site": {{"type": "php", "root": "{root}/", "script": "index.php", "limits": {{{shm}}}}}}}}}"#
        );
        let answer = server.with("PUT", "/config", "", &config);
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    };
    let reply = put("", r#""shm": 1048576"#);
    assert_eq!(reply["success"], "Reconfiguration done.");
    let warnings = reply["warnings"].as_array().unwrap();
    let about = |index: usize| {
        (
            warnings[index]["pointer"].as_str().unwrap(),
            warnings[index]["message"].as_str().unwrap(),
        )
    };
    assert_eq!(warnings.len(), 3, "{reply}");
    assert_eq!(
        about(0),
        (
            "/routes/0/action/share",
            "`GET /.git/config` serves a hidden file"
        )
    );
    assert!(
        about(1)
            .1
            .starts_with("`GET /config.php` serves a source file of the application `site`"),
        "{reply}"
    );
    assert!(
        warnings[1]["suggestion"]
            .as_str()
            .unwrap()
            .contains(r#""deny": ["*.php"]"#),
        "{reply}"
    );
    assert_eq!(warnings[1]["line"], 2);
    assert_eq!(
        about(2),
        (
            "/applications/site/limits/shm",
            "`shm` of `limits` has no effect"
        )
    );
    assert_eq!(
        put(r#", "deny": ["*/.*", "*.php"]"#, ""),
        json!({"success": "Reconfiguration done."})
    );
}

/// Issue 10, 2.15, and issue 28: FreeUnit's `path` is that of the invalid member.
#[test]
fn errors_have_path_and_suggestion_at_the_top() {
    let server = start(Fake::default());
    let config = r#"{"applications": {"a": {"type": "php", "root": "/a", "processes": {"max": 2, "idle_timout": 3}}}}"#;
    let document = tutti_config::parse(config.as_bytes()).unwrap();
    let faults = tutti_config::validate(
        &document,
        &tutti_config::ValidationContext::with_modules([("php", "8")]),
    )
    .unwrap_err();
    let report = faults.to_json();
    assert_eq!(report["path"], "/applications/a/processes/idle_timout");
    assert_eq!(report["location"]["path"], report["path"]);
    assert_eq!(report["suggestion"], "idle_timeout");
    assert_eq!(
        report["errors"][0]["pointer"],
        "/applications/a/processes/idle_timout"
    );
    let broken = server.with("PUT", "/config", "", "{");
    assert_eq!(broken.json().get("path"), None, "{broken:?}");
}

#[test]
fn a_change_that_cannot_be_made_now_is_not_remembered_as_refused() {
    let follow = |changes: &Changes, kind| {
        let mut fault = Diagnostic::apply(Pointer::default(), "no");
        fault.kind = kind;
        let service = Fake {
            fail: Some(Diagnostics::one(fault)),
            ..Fake::default()
        };
        let done = changes.follow(&service, b"{}", Cause::default());
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        assert!(runtime.build().unwrap().block_on(done).is_err());
        let refused = changes.refused();
        refused.map(|refused| refused.faults.kind())
    };
    let changes = Changes::default();
    assert_eq!(follow(&changes, FaultKind::Unavailable), None);
    let refused = Some(FaultKind::Invalid);
    assert_eq!(follow(&changes, FaultKind::Invalid), refused);
    assert_eq!(follow(&changes, FaultKind::Unavailable), refused);
}
