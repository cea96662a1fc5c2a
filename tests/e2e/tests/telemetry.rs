//! Traces of requests at a collector: docs/operate/telemetry.md by example, and collectors that are not well.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::thread::JoinHandle;

use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use serde_json::{Value, json};
use tutti_e2e::authority::{Authority, EC};
use tutti_e2e::collector::{Collector, Temper, attributes, hexadecimal};
use tutti_e2e::python::PythonSite;
use tutti_testkit::{Reply, Server, ServerOptions, client, free_port, wait_until};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// A configuration that sends spans to `collector` over HTTP.
fn configuration(server: &Server, action: &Value, collector: &Collector, more: &Value) -> Value {
    let mut telemetry = json!({
        "endpoint": format!("http://{}", collector.address()),
        "protocol": "http",
    });
    tutti_testkit::set_members(&mut telemetry, more);
    json!({
        "listeners": {format!("127.0.0.1:{}", server.port()): {"pass": "routes"}},
        "routes": [{"action": action}],
        "settings": {"telemetry": telemetry},
    })
}

/// A server that answers 204 and sends spans to `collector`.
fn tracing(collector: &Collector, more: &Value) -> Server {
    let server = Server::start(&ServerOptions::default());
    server.put(
        "/config",
        &configuration(&server, &json!({"return": 204}), collector, more),
    );
    server
}

fn send(server: &Server, line: &str, fields: &str) -> Reply {
    let request =
        format!("{line} HTTP/1.1\r\nHost: a.example:81\r\nConnection: close\r\n{fields}\r\n");
    client::request(server.address(), request.as_bytes()).unwrap()
}

fn get(server: &Server, path: &str) {
    assert_eq!(server.get(path).status, 204);
}

fn dropped(server: &Server) -> u64 {
    server.status("/telemetry/dropped").as_u64().unwrap()
}

/// The span whose `url.path` this is.
fn span_of<'s>(spans: &'s [Span], path: &str) -> &'s Span {
    let mut found = spans
        .iter()
        .filter(|span| attributes(&span.attributes)["url.path"] == path);
    let span = found.next().unwrap_or_else(|| panic!("no span of {path}"));
    assert!(found.next().is_none(), "two spans of {path}");
    span
}

/// A server of one request, which it never answers: its port, and the bytes that it is sent.
fn sink() -> (u16, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let heard = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = [0; 65536];
        let count = stream.read(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..count]).into_owned()
    });
    (port, heard)
}

#[test]
fn a_request_has_a_span_with_what_the_conventions_say() {
    let collector = Collector::start();
    let server = tracing(&collector, &json!({}));
    let fields = format!(
        "User-Agent: tester/1\r\nTraceparent: {PARENT}\r\ntracestate: a=1\r\nTraceState: b=2\r\n"
    );
    assert_eq!(send(&server, "GET /a%20b/c?secret=1", &fields).status, 204);
    send(&server, "BREW /pot", "");
    let curl = Command::new("curl")
        .args(["-s", "--http2-prior-knowledge"])
        .arg(format!("http://{}/two", server.address()))
        .output()
        .unwrap();
    assert!(curl.status.success());

    let spans = collector.spans(3);
    let span = span_of(&spans, "/a%20b/c");
    let server_port = server.port().to_string();
    let expected = [
        ("client.address", "127.0.0.1"),
        ("http.request.method", "GET"),
        ("http.response.status_code", "204"),
        ("network.protocol.version", "1.1"),
        ("server.address", "a.example"),
        ("server.port", &server_port),
        ("url.path", "/a%20b/c"),
        ("url.scheme", "http"),
        ("user_agent.original", "tester/1"),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let mut told = attributes(&span.attributes);
    let id = told.remove("tutti.request_id").unwrap();
    assert!(id.len() == 32 && id != TRACE, "{id}");
    assert_eq!(told, expected.into());
    assert_eq!(hexadecimal(&span.trace_id), TRACE);
    assert_eq!(hexadecimal(&span.parent_span_id), "b7ad6b7169203331");
    assert_eq!(span.trace_state, "a=1,b=2");
    assert_eq!(span.name, "GET");
    assert_eq!(span.kind(), SpanKind::Server);
    assert!(span.status.is_none());
    assert!(span.start_time_unix_nano > 0 && span.end_time_unix_nano >= span.start_time_unix_nano);

    let odd = span_of(&spans, "/pot");
    let told = attributes(&odd.attributes);
    assert_eq!(odd.name, "HTTP");
    assert_eq!(told["http.request.method"], "_OTHER");
    assert_eq!(told["http.request.method_original"], "BREW");
    assert!(odd.parent_span_id.is_empty() && odd.trace_id != span.trace_id);

    let two = attributes(&span_of(&spans, "/two").attributes);
    assert_eq!(two["network.protocol.version"], "2");

    let head = collector.head().to_lowercase();
    assert!(head.starts_with("post /v1/traces http/1.1\r\n"), "{head}");
    assert!(
        head.contains("content-type: application/x-protobuf"),
        "{head}"
    );
    let export = &collector.exports()[0].resource_spans[0];
    let resource = attributes(&export.resource.as_ref().unwrap().attributes);
    assert_eq!(resource["service.name"], "tutti");
}

#[test]
fn what_goes_wrong_is_an_error_of_the_span() {
    let collector = Collector::start();
    let server = Server::start(&ServerOptions::default());
    let proxy = json!({"proxy": format!("http://127.0.0.1:{}", free_port())});
    server.put(
        "/config",
        &configuration(&server, &proxy, &collector, &json!({})),
    );
    assert_eq!(server.get("/nobody").status, 502);
    let span = span_of(&collector.spans(1), "/nobody").clone();
    let told = attributes(&span.attributes);
    assert_eq!(told["error.type"], "502");
    assert_eq!(span.status.unwrap().code(), StatusCode::Error);

    // A client that goes before its answer.
    let (port, heard) = sink();
    let proxy = json!({"proxy": format!("http://127.0.0.1:{port}")});
    server.put(
        "/config",
        &configuration(&server, &proxy, &collector, &json!({})),
    );
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream
        .write_all(b"POST /gone HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf")
        .unwrap();
    drop(stream);
    let span = span_of(&collector.spans(2), "/gone").clone();
    let told = attributes(&span.attributes);
    assert_eq!(told["error.type"], "aborted");
    assert!(!told.contains_key("http.response.status_code"));
    // So that its thread ends.
    let _ = TcpStream::connect(("127.0.0.1", port))
        .unwrap()
        .write_all(b"x");
    heard.join().unwrap();
}

#[test]
fn the_next_server_gets_our_span() {
    let collector = Collector::start();
    // An application.
    let site = PythonSite::bare();
    let mut config = site.configuration(&json!({}));
    config["settings"]["telemetry"] =
        json!({"endpoint": format!("http://{}", collector.address()), "protocol": "https"});
    let wrong = site.server.call("PUT", "/config", &config);
    assert_eq!(wrong.status, 400, "{}", wrong.text());
    config["settings"]["telemetry"]["protocol"] = json!("http");
    site.server.put("/config", &config);
    let told = |fields: &str| {
        let answer = site.send("GET", "/environ", fields, b"");
        let shown = answer.json();
        // Issue 10: the client gets the trace, also if it sent two.
        assert_eq!(
            answer.field("traceparent"),
            shown["HTTP_TRACEPARENT"].as_str(),
            "{fields}"
        );
        shown
    };
    let shown = told(&format!("traceparent: {PARENT}\r\ntracestate: a=1\r\n"));
    let spans = collector.spans(1);
    let own = hexadecimal(&spans[0].span_id);
    assert_eq!(shown["HTTP_TRACEPARENT"], format!("00-{TRACE}-{own}-01"));
    assert_eq!(shown["HTTP_TRACESTATE"], "a=1");
    // One that is not valid, and several, count for nothing, and what goes with them is not passed on.
    for fields in [
        "traceparent: 00-0-0-01\r\ntracestate: a=1\r\n".to_owned(),
        format!("traceparent: {PARENT}\r\ntraceparent: {PARENT}\r\ntracestate: a=1\r\n"),
        "tracestate: a=1\r\n".to_owned(),
    ] {
        let shown = told(&fields);
        let value = shown["HTTP_TRACEPARENT"].as_str().unwrap();
        assert!(value.len() == 55 && !value.contains(TRACE), "{value}");
        assert_eq!(shown["HTTP_TRACESTATE"], Value::Null, "{fields}");
    }
    // Nor is a state that is not valid, though its parent is (§3.3.1.3).
    for state in ["A=1", "a=1,b", "a=b=c"] {
        let shown = told(&format!("traceparent: {PARENT}\r\ntracestate: {state}\r\n"));
        let value = shown["HTTP_TRACEPARENT"].as_str().unwrap();
        assert!(value.contains(TRACE), "{value}");
        assert_eq!(shown["HTTP_TRACESTATE"], Value::Null, "{state}");
    }
    // Issue 11: the configured one was left out with the client's.
    config["routes"] = json!([
        {"action": {"pass": "applications/app", "request_headers": {"tracestate": "b=2"}}},
    ]);
    for listener in config["listeners"].as_object_mut().unwrap().values_mut() {
        listener["pass"] = json!("routes");
    }
    site.server.put("/config", &config);
    assert_eq!(told("tracestate: a=1\r\n")["HTTP_TRACESTATE"], "b=2");
    drop(site);

    // Servers, by HTTP and by CGI variables.
    let server = Server::start(&ServerOptions::default());
    let reach = |scheme: &str, fields: &Value| {
        let (port, heard) = sink();
        let proxy =
            json!({"proxy": format!("{scheme}127.0.0.1:{port}"), "request_headers": fields});
        server.put(
            "/config",
            &configuration(&server, &proxy, &collector, &json!({})),
        );
        let path = format!("/{port}");
        send(
            &server,
            &format!("GET {path}"),
            &format!("traceparent: {PARENT}\r\ntracestate: a=1\r\n"),
        );
        let heard = heard.join().unwrap();
        let mut own = String::new();
        wait_until("the span of the request", || {
            let spans = collector.spans(1);
            let mut spans = spans.iter();
            let found = spans.find(|span| attributes(&span.attributes)["url.path"] == path);
            own = found
                .map(|span| hexadecimal(&span.span_id))
                .unwrap_or_default();
            found.is_some()
        });
        (heard, format!("00-{TRACE}-{own}-01"))
    };
    let (heard, expected) = reach("http://", &json!({}));
    assert!(
        heard.contains(&format!("\r\ntraceparent: {expected}\r\n")),
        "{heard}"
    );
    assert!(
        heard.contains("\r\ntracestate: a=1\r\n") && !heard.contains(PARENT),
        "{heard}"
    );
    let (heard, expected) = reach("scgi://", &json!({}));
    assert!(
        heard.contains(&format!("HTTP_TRACEPARENT\0{expected}\0")),
        "{heard:?}"
    );
    assert!(
        heard.contains("HTTP_TRACESTATE\0a=1\0") && !heard.contains(PARENT),
        "{heard:?}"
    );
    let (heard, _) = reach("http://", &json!({"traceparent": "mine"}));
    assert_eq!(heard.matches("traceparent: ").count(), 1, "{heard}");
    assert!(heard.contains("\r\ntraceparent: mine\r\n"), "{heard}");
}

#[test]
fn a_request_is_recorded_if_its_parent_is_or_by_chance() {
    let collector = Collector::start();
    let server = tracing(&collector, &json!({"sampling_ratio": 0}));
    for _ in 0..20 {
        get(&server, "/not");
    }
    let unsampled = PARENT.replace("-01", "-00");
    let with = |path: &str, parent: &str| {
        send(
            &server,
            &format!("GET {path}"),
            &format!("traceparent: {parent}\r\n"),
        );
    };
    with("/not", &unsampled);
    with("/yes", PARENT);
    assert_eq!(
        attributes(&collector.spans(1)[0].attributes)["url.path"],
        "/yes"
    );
    let config = configuration(
        &server,
        &json!({"return": 204}),
        &collector,
        &json!({"sampling_ratio": 1}),
    );
    server.put("/config", &config);
    with("/not", &unsampled);
    get(&server, "/one");
    let spans = collector.spans(2);
    assert_eq!(spans.len(), 2, "{spans:?}");
    span_of(&spans, "/one");

    // The next server learns that it is not recorded; and the trace is the request's id where the client has begun none.
    let (port, heard) = sink();
    let proxy = json!({
        "proxy": format!("http://127.0.0.1:{port}"),
        "request_headers": {"X-Id": "$request_id"},
    });
    server.put(
        "/config",
        &configuration(&server, &proxy, &collector, &json!({"sampling_ratio": 0.0})),
    );
    send(&server, "GET /next", "");
    let heard = heard.join().unwrap();
    let id = heard.split("\r\nX-Id: ").nth(1).unwrap();
    let id = id.split("\r\n").next().unwrap();
    let value = heard.split("\r\ntraceparent: ").nth(1).unwrap();
    let value = value.split("\r\n").next().unwrap();
    assert!(
        value.starts_with(&format!("00-{id}-")) && value.ends_with("-00"),
        "{heard}"
    );
}

#[test]
fn spans_are_sent_in_batches() {
    let collector = Collector::start();
    let server = tracing(&collector, &json!({"batch_size": 5}));
    let requests = "GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(16)
        + "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    client::raw(server.address(), requests.as_bytes()).unwrap();
    collector.spans(17);
    let batches = collector.batches();
    assert_eq!(batches.iter().sum::<usize>(), 17);
    assert!(batches.iter().all(|size| *size <= 5), "{batches:?}");
    // They came at once: not all of them were sent because it was time.
    assert!(batches.contains(&5), "{batches:?}");
    wait_until("17 spans in /status", || {
        server.status("/telemetry") == json!({"exported": 17, "dropped": 0})
    });
}

#[test]
fn a_collector_that_is_not_well_costs_no_request() {
    let collector = Collector::start();
    let server = tracing(&collector, &json!({"batch_size": 1}));
    // Its own fault: not tried again.
    collector.set(Temper::Refuses(400));
    get(&server, "/");
    wait_until("a lost span", || dropped(&server) == 1);
    get(&server, "/");
    wait_until("another", || dropped(&server) == 2);
    assert_eq!(collector.attempts(), 2);
    let complaints = || server.log().matches("does not accept all spans").count();
    server.wait_for_log("does not accept all spans");
    server.wait_for_log("it answers 400");
    assert_eq!(complaints(), 1, "{}", server.log());
    // For a moment: tried again.
    collector.set(Temper::Refuses(503));
    get(&server, "/again");
    wait_until("two more attempts", || collector.attempts() >= 4);
    collector.set(Temper::Good);
    span_of(&collector.spans(1), "/again");
    server.wait_for_log("accepts spans again; 2 have been lost");
    assert_eq!(complaints(), 1, "{}", server.log());

    // Silent: what does not fit the queue is lost, and everybody is answered.
    collector.set(Temper::Silent);
    let count = 3000;
    let requests = "GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(count - 1)
        + "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let mut stream = TcpStream::connect(server.address()).unwrap();
    let mut writer = stream.try_clone().unwrap();
    let writing = std::thread::spawn(move || writer.write_all(requests.as_bytes()));
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    writing.join().unwrap().unwrap();
    assert_eq!(answers.matches("HTTP/1.1 204").count(), count);
    wait_until("lost spans", || dropped(&server) > 2);

    // Not there at all.
    let nobody = json!({"endpoint": format!("http://127.0.0.1:{}", free_port())});
    server.put(
        "/config",
        &configuration(&server, &json!({"return": 204}), &collector, &nobody),
    );
    let before = dropped(&server);
    get(&server, "/");
    wait_until("a span is dropped", || dropped(&server) > before);
}

#[test]
fn what_waits_is_sent_when_the_configuration_changes_and_when_the_server_ends() {
    let collector = Collector::start();
    let large = json!({"batch_size": 1000});
    let server = tracing(&collector, &large);
    get(&server, "/before");
    let reply = server.call("DELETE", "/config/settings/telemetry", &Value::Null);
    assert_eq!(reply.status, 200, "{}", reply.text());
    get(&server, "/without");
    let spans = collector.spans(1);
    span_of(&spans, "/before");
    for (signal, path) in [(libc::SIGQUIT, "/graceful"), (libc::SIGTERM, "/quick")] {
        let mut server = tracing(&collector, &large);
        get(&server, path);
        server.signal(signal);
        server.wait_for_end();
        // All there is: nothing comes any more.
        let spans = collector.spans(1);
        span_of(&spans, path);
    }
    assert_eq!(collector.spans(3).len(), 3);

    // No request waits for ever.
    let mut server = tracing(&collector, &json!({"batch_size": 1}));
    collector.set(Temper::Silent);
    let before = collector.attempts();
    get(&server, "/");
    wait_until("an attempt", || collector.attempts() > before);
    server.signal(libc::SIGQUIT);
    server.wait_for_end();
    assert!(
        server.log().contains("the last spans are lost"),
        "{}",
        server.log()
    );
}

#[test]
fn collectors_are_reached_over_grpc_and_tls_and_by_name() {
    let collector = Collector::start_grpc();
    let server = Server::start(&ServerOptions::default());
    let grpc = json!({
        "endpoint": format!("http://localhost:{}", collector.address().port()),
        "protocol": "grpc",
    });
    let config = configuration(&server, &json!({"return": 204}), &collector, &grpc);
    server.put("/config", &config);
    get(&server, "/grpc");
    span_of(&collector.spans(1), "/grpc");
    drop(server);

    // Another server takes the TLS off.
    let collector = Collector::start();
    let front = Server::start(&ServerOptions::default());
    let authority = Authority::new(front.folder());
    let bundle = authority.bundle("front", EC, "IP:127.0.0.1");
    let reply = client::control(
        front.control(),
        "PUT",
        "/certificates/front",
        bundle.as_bytes(),
    );
    assert_eq!(reply.unwrap().status, 200);
    front.put(
        "/config",
        &json!({
            "listeners": {format!("127.0.0.1:{}", front.port()): {"pass": "routes", "tls": {"certificate": "front"}}},
            "routes": [{"action": {"proxy": format!("http://{}", collector.address())}}],
        }),
    );
    for path in [
        front.folder().to_owned(),
        authority.folder().to_owned(),
        authority.path("ca.pem"),
    ] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let server = Server::start(&ServerOptions {
        wrapper: vec![
            "env".to_owned(),
            format!("SSL_CERT_FILE={}", authority.path("ca.pem").display()),
            "OTEL_SERVICE_NAME=shop".to_owned(),
        ],
        ..ServerOptions::default()
    });
    let tls = json!({"endpoint": format!("https://{}/v1/traces", front.address())});
    let config = configuration(&server, &json!({"return": 204}), &collector, &tls);
    server.put("/config", &config);
    get(&server, "/tls");
    span_of(&collector.spans(1), "/tls");
    let export = &collector.exports()[0].resource_spans[0];
    let resource = attributes(&export.resource.as_ref().unwrap().attributes);
    assert_eq!(resource["service.name"], "shop");
}
