//! Metrics: their values after known traffic, their formats as Prometheus reads them, and that clients cannot make them grow.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};
use tutti_e2e::authority::{Authority, EC};
use tutti_e2e::documents::json_examples;
use tutti_e2e::python::PythonSite;
use tutti_e2e::scrape::{Samples, accepting};
use tutti_testkit::client::{self, Client};
use tutti_testkit::{
    PATIENCE, Server, ServerOptions, free_port, refusing_address, skip, wait_until,
};

const PAGE: &str = include_str!("../../../docs/operate/metrics.md");
const MONITORING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/monitoring");
const SIGKILL: i32 = 9;
const SIGSEGV: i32 = 11;

const TEXT: &str = "text/plain;version=0.0.4";
const OPENMETRICS: &str = "application/openmetrics-text;version=1.0.0";
const PROTOBUF: &str =
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";

/// A server with an action of each kind, and an upstream whose only server does not exist.
fn everything() -> (PythonSite, Value) {
    let site = PythonSite::bare();
    site.server.write("site/file.txt", "0123456789");
    let mut configuration = site.configuration(&json!({"processes": 2}));
    let listener = format!("127.0.0.1:{}", site.server.port());
    let folder = site.server.folder().join("site").display().to_string();
    configuration["listeners"] = json!({listener: {"pass": "routes"}});
    configuration["routes"] = json!([
        {"match": {"uri": "/app*"}, "action": {"pass": "applications/app", "rewrite": "/hello"}},
        {"match": {"uri": "/pid"}, "action": {"pass": "applications/app"}},
        {"match": {"uri": "/spin"}, "action": {"pass": "applications/app"}},
        {"match": {"uri": "/up"}, "action": {"pass": "upstreams/far"}},
        {"match": {"uri": "/gone"}, "action": {"return": 410}},
        {"match": {"uri": "/away"}, "action": {"return": 302, "location": "/"}},
        {"match": {"uri": "/file*"}, "action": {"share": format!("{folder}$uri")}},
        {"match": {"host": "metrics"}, "action": {"pass": "$host"}},
    ]);
    configuration["upstreams"] = json!({"far": {"servers": {refusing_address().to_string(): {}}}});
    site.server.put("/config", &configuration);
    (site, configuration)
}

fn requests(samples: &Samples, labels: &str) -> f64 {
    samples.get("tutti_requests_total", labels)
}

#[test]
fn each_request_is_counted_where_it_was_answered_and_by_its_class() {
    let (site, _) = everything();
    let server = &site.server;
    let port = server.port();
    for (target, times) in [
        ("/app", 5),
        ("/up", 2),
        ("/gone", 3),
        ("/away", 1),
        ("/file.txt", 4),
        ("/files", 1),
        ("/x", 6),
    ] {
        for _ in 0..times {
            server.get(target);
        }
    }
    let malformed = client::raw(server.address(), b"GET / HTTP/1.1\r\nA b: c\r\n\r\n").unwrap();
    assert!(malformed.starts_with(b"HTTP/1.1 400"));
    // The head of an answer leaves before the connection has ended.
    wait_until("all connections are closed", || {
        Samples::of(server).get("tutti_connections_closed_total", "") >= 23.0
    });
    let samples = Samples::of(server);
    for (labels, count) in [
        (
            "action=\"application\",application=\"app\",class=\"2xx\"",
            5.0,
        ),
        (
            "action=\"application\",application=\"app\",class=\"5xx\"",
            0.0,
        ),
        ("action=\"upstream\",upstream=\"far\",class=\"5xx\"", 2.0),
        ("action=\"return\",class=\"3xx\"", 1.0),
        ("action=\"return\",class=\"4xx\"", 3.0),
        ("action=\"share\",class=\"2xx\"", 4.0),
        ("action=\"share\",class=\"4xx\"", 1.0),
        ("action=\"none\",class=\"4xx\"", 7.0),
    ] {
        assert_eq!(requests(&samples, labels), count, "{labels}");
    }
    let listener = |class: &str| {
        let labels = format!("listener=\"127.0.0.1:{port}\",class=\"{class}\"");
        samples.get("tutti_listener_requests_total", &labels)
    };
    assert_eq!(
        ["2xx", "3xx", "4xx", "5xx"].map(listener),
        [9.0, 1.0, 11.0, 2.0]
    );
    let accepted = format!("listener=\"127.0.0.1:{port}\"");
    assert_eq!(
        samples.get("tutti_listener_connections_total", &accepted),
        23.0
    );
    assert_eq!(samples.get("tutti_connections", "state=\"active\""), 0.0);
    let durations = |suffix: &str| {
        let name = format!("tutti_request_duration_seconds_{suffix}");
        samples.get(&name, "action=\"application\",application=\"app\"")
    };
    assert_eq!(durations("count"), 5.0);
    assert!(durations("sum") > 0.0);
    let all = "action=\"application\",application=\"app\",le=\"+Inf\"";
    assert_eq!(
        samples.get("tutti_request_duration_seconds_bucket", all),
        5.0
    );
    // The server of the upstream refuses connections, so each request failed; the claims are all it had.
    let far: Vec<(&String, &f64)> = samples
        .0
        .iter()
        .filter(|(name, _)| {
            name.starts_with("tutti_upstream_server_failures_total{upstream=\"far\"")
        })
        .collect();
    assert_eq!(far.len(), 1);
    assert_eq!(*far[0].1, 2.0);
}

#[test]
fn bytes_are_those_of_the_sockets() {
    let server = Server::start(&ServerOptions::default());
    let listener = format!("127.0.0.1:{}", server.port());
    let file = server.write("large", vec![b'x'; 3_000_000]);
    server.put(
        "/config",
        &json!({"listeners": {listener: {"pass": "routes"}}, "routes": [{"action": {"share": file}}]}),
    );
    let request = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let answer = client::raw(server.address(), request).unwrap();
    assert!(answer.len() > 3_000_000);
    wait_until("the bytes are counted", || {
        Samples::of(&server).get("tutti_sent_bytes_total", "") >= answer.len() as f64
    });
    let samples = Samples::of(&server);
    assert_eq!(
        samples.get("tutti_sent_bytes_total", ""),
        answer.len() as f64
    );
    assert_eq!(
        samples.get("tutti_received_bytes_total", ""),
        request.len() as f64
    );
}

#[test]
fn handshakes_are_counted_and_why_they_failed() {
    let server = Server::start(&ServerOptions::default());
    let authority = Authority::new(server.folder());
    let bundle = authority.bundle("site", EC, "DNS:site.example");
    let stored = client::control(
        server.control(),
        "PUT",
        "/certificates/site",
        bundle.as_bytes(),
    );
    assert_eq!(stored.unwrap().status, 200);
    let listener = format!("127.0.0.1:{}", server.port());
    server.put(
        "/config",
        &json!({
            "listeners": {listener.as_str(): {"pass": "routes", "tls": {"certificate": "site"}}},
            "routes": [{"action": {"return": 204}}],
        }),
    );
    let curl = Command::new("curl")
        .args(["-sk", &format!("https://{listener}/")])
        .status();
    assert!(curl.unwrap().success());
    client::raw(server.address(), b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    client::raw(server.address(), b"\x16\x03\x01\x00\x05hello").unwrap();
    let failed = |samples: &Samples, reason: &str| {
        let labels = format!("listener=\"{listener}\",reason=\"{reason}\"");
        samples.get("tutti_listener_tls_handshake_failures_total", &labels)
    };
    wait_until("both failures are counted", || {
        let samples = Samples::of(&server);
        failed(&samples, "plain") + failed(&samples, "protocol") == 2.0
    });
    let samples = Samples::of(&server);
    let reasons = ["plain", "protocol", "timeout", "closed"];
    assert_eq!(
        reasons.map(|reason| failed(&samples, reason)),
        [1.0, 1.0, 0.0, 0.0]
    );
    let labels = format!("listener=\"{listener}\"");
    assert_eq!(
        samples.get("tutti_listener_tls_handshakes_total", &labels),
        1.0
    );
    let expiry = samples.get(
        "tutti_certificate_expiry_timestamp_seconds",
        "certificate=\"site\"",
    );
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let days = (expiry - now.unwrap().as_secs_f64()) / 86400.0;
    assert!((1.0..400.0).contains(&days), "{days}");
}

#[test]
fn processes_that_end_are_counted_by_reason() {
    let (site, configuration) = everything();
    let server = &site.server;
    let count = |reason: &str| {
        let labels = format!("application=\"app\",reason=\"{reason}\"");
        Samples::of(server).get("tutti_application_process_ends_total", &labels)
    };
    let restarts =
        || Samples::of(server).get("tutti_application_restarts_total", "application=\"app\"");
    let mut told = 0.0;
    for (signal, reason) in [(SIGKILL, "killed"), (SIGSEGV, "signal")] {
        let victim = server.wait_for_workers("app", 2)[0];
        tutti_sys::signal::send(victim, signal).unwrap();
        wait_until(reason, || count(reason) == 1.0);
        told += 1.0;
        wait_until("the restart is counted", || restarts() == told);
    }
    let ready = server.wait_for_workers("app", 2);
    let processes = |state: &str| {
        let labels = format!("application=\"app\",state=\"{state}\"");
        Samples::of(server).get("tutti_application_processes", &labels)
    };
    wait_until("both are idle", || processes("idle") == 2.0);
    assert_eq!(processes("busy") + processes("starting"), 0.0);
    let memory = Samples::of(server).get(
        "tutti_application_resident_memory_bytes",
        "application=\"app\"",
    );
    let read: u64 = ready
        .iter()
        .map(|pid| tutti_sys::proc::rss(*pid).unwrap())
        .sum();
    assert!((memory / read as f64 - 1.0).abs() < 0.2, "{memory} {read}");
    // Another environment makes other processes, and the counts go on.
    let mut other = configuration.clone();
    other["applications"]["app"]["environment"] = json!({"A": "b"});
    server.put("/config", &other);
    wait_until("the former processes have left", || {
        let now = server.workers("app");
        now.len() == 2 && now.iter().all(|pid| !ready.contains(pid))
    });
    assert_eq!(
        (count("killed"), count("signal"), restarts()),
        (1.0, 1.0, 2.0)
    );
    wait_until("their end is counted", || count("retired") == 2.0);
}

#[test]
fn processes_that_end_by_a_limit_are_counted_by_which() {
    let site = PythonSite::bare();
    let count = |reason: &str| {
        let labels = format!("application=\"app\",reason=\"{reason}\"");
        Samples::of(&site.server).get("tutti_application_process_ends_total", &labels)
    };
    for (limits, target, status, reason) in [
        (json!({"requests": 1}), "/hello", 200, "left"),
        // More than this it has before it begins.
        (json!({"memory": 1}), "/hello", 200, "memory"),
        (json!({"timeout": 1}), "/spin", 504, "timeout"),
    ] {
        site.configure(&json!({"processes": 1, "limits": limits}));
        assert_eq!(site.get(target).status, status, "{reason}");
        wait_until(reason, || count(reason) >= 1.0);
    }
    site.configure(&json!({"processes": 1}));
    assert_eq!(site.get("/crash").status, 502);
    wait_until("the crash", || count("signal") == 1.0);
    assert_eq!((count("left"), count("timeout")), (1.0, 1.0));
    // The next process has too much memory, too, and may be looked at before the limit is gone.
    assert!(count("memory") >= 1.0);
    assert_eq!((count("killed"), count("unknown")), (0.0, 0.0));
}

#[test]
fn a_request_that_waits_for_a_process_is_counted_with_its_time() {
    let site = PythonSite::start(&json!({"processes": 1}));
    let server = &site.server;
    let wait = |suffix: &str| {
        let name = format!("tutti_application_queue_wait_seconds_{suffix}");
        Samples::of(server).get(&name, "application=\"app\"")
    };
    let gauge = |name: &str| Samples::of(server).get(name, "application=\"app\"");
    server.get("/hello");
    assert_eq!(wait("count"), 1.0);
    let before = wait("sum");
    let asked = Instant::now();
    // The only process is at one request until files are there, and another waits for it.
    let folder = site.work().display().to_string();
    let first = site.open(&format!("/stepwise?folder={folder}"));
    let busy = "application=\"app\",state=\"busy\"";
    wait_until("the first is begun", || {
        Samples::of(server).get("tutti_application_processes", busy) == 1.0
    });
    let second = site.open("/hello");
    wait_until("the second waits", || {
        gauge("tutti_application_queued_requests") == 1.0
    });
    let seen = Instant::now();
    assert_eq!(gauge("tutti_application_active_requests"), 2.0);
    let least = seen.elapsed();
    for step in ["step0", "step1", "step2"] {
        site.touch(step);
    }
    for mut stream in [first, second] {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    assert_eq!(wait("count"), 3.0);
    let waited = wait("sum") - before;
    // Two requests waited; neither began before it was asked.
    let most = 2 * asked.elapsed();
    assert!(
        waited >= least.as_secs_f64() && waited <= most.as_secs_f64(),
        "{least:?} {waited} {most:?}"
    );
    assert_eq!(gauge("tutti_application_queued_requests"), 0.0);
}

#[test]
fn counters_go_on_when_the_configuration_changes_and_never_back() {
    let (site, configuration) = everything();
    let server = &site.server;
    for target in ["/app", "/gone", "/x", "/file.txt", "/up"] {
        server.get(target);
    }
    wait_until("all are counted", || {
        Samples::of(server).get("tutti_connections_closed_total", "") >= 5.0
    });
    let before = Samples::of(server);
    let mut other = configuration.clone();
    other["applications"]["app"]["environment"] = json!({"A": "b"});
    other["applications"]["added"] = other["applications"]["app"].clone();
    other["upstreams"]["far"]["retries"] = json!(1);
    let listener = other["listeners"]
        .as_object()
        .unwrap()
        .keys()
        .next()
        .unwrap()
        .clone();
    other["listeners"][&listener]["forwarded"] =
        json!({"client_ip": "X-Forwarded-For", "source": []});
    server.put("/config", &other);
    let after = Samples::of(server);
    let gone: Vec<&String> = before
        .0
        .keys()
        .filter(|name| !after.0.contains_key(*name))
        .collect();
    assert!(gone.is_empty(), "{gone:?}");
    for (name, value) in before.0.iter().filter(|(name, _)| name.contains("_total")) {
        assert!(
            after.0[name] >= *value,
            "{name}: {value}, then {}",
            after.0[name]
        );
    }
    assert_eq!(
        requests(
            &after,
            "action=\"application\",application=\"added\",class=\"2xx\""
        ),
        0.0
    );
    assert_eq!(
        after.get("tutti_configuration_generation", ""),
        before.get("tutti_configuration_generation", "") + 1.0
    );
    // An application that is removed is no longer reported.
    server.put("/config", &configuration);
    let names = Samples::of(server);
    assert!(!names.0.keys().any(|name| name.contains("\"added\"")));
}

/// A request counts for the route that was looked in last, whatever has led there; the names are those of the configuration.
#[test]
fn requests_are_counted_by_route() {
    let server = Server::start(&ServerOptions::default());
    let listener = server.address().to_string();
    let direct = format!("127.0.0.1:{}", free_port());
    let config = json!({
        "listeners": {listener: {"pass": "routes/front"}, &direct: {"pass": "upstreams/away"}},
        "routes": {
            "front": [
                {"match": {"uri": "/shop/*"}, "action": {"pass": "routes/shop"}},
                {"match": {"uri": "/by/*"}, "action": {"pass": "routes/$arg_route"}},
                {"match": {"uri": "/files/*"}, "action": {"share": "/nowhere$uri", "fallback": {"pass": "routes/shop"}}},
                {"match": {"uri": "/front"}, "action": {"return": 204}},
            ],
            "shop": [{"action": {"return": 200}}],
            "idle": [{"action": {"return": 200}}],
        },
        "upstreams": {"away": {"servers": {tutti_testkit::refusing_address().to_string(): {}}}},
    });
    server.put("/config", &config);
    for path in [
        "/front",
        "/shop/1",
        "/by/name?route=shop",
        "/files/x",
        "/by/name?route=made-up",
        "/no-step",
    ] {
        server.get(path);
    }
    client::get(direct.parse().unwrap(), "/no/route").unwrap();
    let counted = |samples: &Samples| {
        let all = samples.0.iter();
        let counted = all.filter(|(name, value)| {
            name.starts_with("tutti_route_requests_total") && **value > 0.0
        });
        counted
            .map(|(name, value)| (name.clone(), *value))
            .collect::<Vec<_>>()
    };
    let name = |route: &str, class: &str| {
        format!("tutti_route_requests_total{{route=\"routes/{route}\",class=\"{class}\"}}")
    };
    let samples = Samples::of(&server);
    let expected = [
        (name("front", "2xx"), 1.0),
        (name("front", "4xx"), 2.0),
        (name("shop", "2xx"), 3.0),
    ];
    assert_eq!(counted(&samples), expected);
    let durations = |route: &str| {
        let labels = format!("route=\"routes/{route}\"");
        samples.get("tutti_route_request_duration_seconds_count", &labels)
    };
    assert_eq!(["front", "shop", "idle"].map(durations), [3.0, 3.0, 0.0]);
    assert!(samples.0.contains_key(&name("idle", "2xx")));
    assert!(!samples.0.keys().any(|name| name.contains("made-up")));

    // Another configuration: what it keeps by name counts on, what it does not have is not reported.
    server.put(
        "/config/routes",
        &json!({"front": [{"action": {"return": 200}}]}),
    );
    server.get("/");
    let samples = Samples::of(&server);
    let expected = [(name("front", "2xx"), 2.0), (name("front", "4xx"), 2.0)];
    assert_eq!(counted(&samples), expected);
    assert!(!samples.0.contains_key(&name("shop", "2xx")));
}

#[test]
fn no_client_makes_the_page_grow() {
    const MANY: usize = 100_000;
    const AT_ONCE: usize = 500;
    let (site, _) = everything();
    let server = &site.server;
    // The first request of a kind shows nothing new either.
    let before: BTreeSet<String> = Samples::of(server).0.into_keys().collect();
    let mut client = Client::to(server.address());
    let methods = ["GET", "POST", "DELETE", "BREW", "X"];
    let paths = ["/gone", "/files/", "/nothing/", "/away", "/metrics/"];
    for from in (0..MANY).step_by(AT_ONCE) {
        let mut batch = String::new();
        for number in from..from + AT_ONCE {
            let (method, path) = (methods[number % 5], paths[number / 5 % 5]);
            write!(batch, "{method}{} {path}{number}?q={number} HTTP/1.1\r\nHost: host-{number}.example\r\nUser-Agent: agent-{number}\r\n\r\n", if method == "X" { number.to_string() } else { String::new() }).unwrap();
        }
        client.send(batch);
        for number in from..from + AT_ONCE {
            client.response(methods[number % 5]);
        }
    }
    let samples = Samples::of(server);
    let after: BTreeSet<String> = samples.0.keys().cloned().collect();
    assert_eq!(before, after);
    let answered: f64 = samples
        .0
        .iter()
        .filter(|(name, _)| name.starts_with("tutti_requests_total"))
        .map(|(_, value)| value)
        .sum();
    assert_eq!(answered, MANY as f64);
}

#[test]
fn the_page_on_a_listener_is_as_the_guide_shows() {
    let server = Server::start(&ServerOptions::default());
    let (listener, other) = (
        server.address().to_string(),
        format!("127.0.0.1:{}", free_port()),
    );
    let places = [
        ("*:8080", listener.as_str()),
        ("127.0.0.1:9145", other.as_str()),
        ("127.0.0.1:9146", other.as_str()),
    ];
    let examples = json_examples(PAGE, &places);
    assert_eq!(examples.len(), 3);
    server.put("/config", &examples[2]);
    let counts = client::get(other.parse().unwrap(), "/").unwrap();
    in_nginxs_form(&counts.text());
    server.put("/config", &examples[0]);
    assert_eq!(server.get("/metrics").status, 204);
    let page = client::get(other.parse().unwrap(), "/whatever").unwrap();
    assert_eq!(
        page.field("Content-Type"),
        Some("text/plain; version=0.0.4; charset=utf-8")
    );
    let samples = Samples::read(&page.text());
    assert_eq!(requests(&samples, "action=\"return\",class=\"2xx\""), 1.0);
    let ask = |method: &str| {
        let request = format!(
            "{method} /metrics HTTP/1.1\r\nHost: a\r\nAccept: {OPENMETRICS}\r\nConnection: close\r\n\r\n"
        );
        client::request(other.parse().unwrap(), request.as_bytes()).unwrap()
    };
    assert!(ask("GET").text().ends_with("# EOF\n"));
    // Compressed without being configured, for a collector that takes it.
    let gzip = b"GET /metrics HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip;q=1.0,*;q=0.5\r\nConnection: close\r\n\r\n";
    let packed = client::request(other.parse().unwrap(), gzip).unwrap();
    assert_eq!(packed.field("Content-Encoding"), Some("gzip"));
    assert_eq!(packed.field("Vary"), Some("Accept, Accept-Encoding"));
    let mut text = String::new();
    let mut decoder = flate2::read::GzDecoder::new(&packed.body[..]);
    decoder.read_to_string(&mut text).unwrap();
    assert!(packed.body.len() < text.len() / 3);
    assert!(text.contains("tutti_clock_jumps_total{direction=\"forward\"} 0"));
    assert_eq!((ask("HEAD").status, ask("HEAD").text().len()), (200, 0));
    assert_eq!(ask("POST").status, 405);
    server.put("/config", &examples[1]);
    assert_eq!(server.get("/").status, 404);
    let page = server.get("/metrics");
    assert_eq!(page.status, 200);
    assert_eq!(
        Samples::read(&page.text()).names(),
        Samples::of(&server).names()
    );
}

#[test]
fn a_pass_with_variables_does_not_lead_to_the_metrics() {
    let (site, _) = everything();
    let request = b"GET /nothing HTTP/1.1\r\nHost: metrics\r\nConnection: close\r\n\r\n";
    let reply = client::request(site.server.address(), request).unwrap();
    assert_eq!(reply.status, 404);
}

#[test]
fn formats_have_the_same_series_and_promtool_finds_no_fault() {
    let (site, _) = everything();
    let server = &site.server;
    server.get("/app");
    let text = accepting(server, TEXT).text();
    let openmetrics = accepting(server, OPENMETRICS);
    assert_eq!(
        openmetrics.field("Content-Type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    let names = |page: &str| -> BTreeSet<String> { Samples::read(page).0.into_keys().collect() };
    assert_eq!(names(&text), names(&openmetrics.text()));
    let protobuf = accepting(server, PROTOBUF);
    assert!(
        protobuf
            .field("Content-Type")
            .unwrap()
            .starts_with("application/vnd.google.protobuf")
    );
    let command = server.command(&["metrics"]);
    assert!(command.status.success());
    assert_eq!(
        names(&String::from_utf8(command.stdout).unwrap()),
        names(&text)
    );
    // promtool wants `_total` and bytes and seconds; and help and type for each.
    let Some(faults) = promtool(&["check", "metrics"], Path::new("/"), &text) else {
        skip!("promtool is not installed (package prometheus)");
    };
    assert_eq!(faults, "", "{text}");
}

/// Runs promtool in this folder, with this input, and returns what it writes; `None` without promtool.
fn promtool(words: &[&str], folder: &Path, input: &str) -> Option<String> {
    let mut child = Command::new("promtool")
        .args(words)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8(said).unwrap();
    assert!(output.status.success(), "{said}");
    Some(said)
}

/// The words of a text that begin like a family of ours.
fn families(text: &str) -> BTreeSet<&str> {
    let is_inside = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    text.split(|letter| !is_inside(letter))
        .filter(|word| word.starts_with("tutti_"))
        .collect()
}

#[test]
fn the_dashboard_and_the_alerts_ask_for_what_there_is() {
    let mut known = BTreeSet::new();
    for family in tutti_metrics::ALL {
        match family.kind {
            tutti_metrics::MetricKind::Histogram => {
                known.extend(
                    ["_bucket", "_sum", "_count"].map(|end| format!("{}{end}", family.name)),
                );
            }
            _ => {
                known.insert(format!("{}{}", family.name, family.suffix()));
            }
        }
    }
    let read = |name: &str| fs::read_to_string(Path::new(MONITORING).join(name)).unwrap();
    let dashboard: Value = serde_json::from_str(&read("grafana.json")).unwrap();
    let mut expressions = Vec::new();
    let mut ids = std::collections::BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        // Grafana shows one of two panels that share an id.
        let id = panel["id"].as_u64().unwrap();
        assert!(ids.insert(id), "two panels have the id {id}");
        for target in panel["targets"].as_array().into_iter().flatten() {
            expressions.push(target["expr"].as_str().unwrap().to_owned());
        }
    }
    assert!(expressions.len() > 30);
    let shown = expressions.join("\n");
    let texts = [
        shown.as_str(),
        &read("alerts.yml"),
        &read("alerts-test.yml"),
    ];
    for asked in texts.into_iter().flat_map(families) {
        assert!(known.contains(asked), "there is no {asked}");
    }
    // Nothing is counted that is not shown, but for when it began.
    let asked = families(&shown);
    let unshown = |family: &&&tutti_metrics::Family| {
        !asked.iter().any(|asked| asked.starts_with(family.name))
    };
    let unshown: Vec<&str> = tutti_metrics::ALL
        .iter()
        .filter(unshown)
        .map(|family| family.name)
        .collect();
    assert_eq!(
        unshown,
        [
            "tutti_configuration_generation",
            "tutti_connections_closed",
            "tutti_application_active_requests",
            "tutti_upstream_mirrored_requests",
            "tutti_telemetry_spans",
            "tutti_router_start_timestamp_seconds",
        ]
    );
}

#[test]
fn the_alerts_are_rules_that_fire_when_they_should() {
    let folder = Path::new(MONITORING);
    let Some(said) = promtool(&["check", "rules", "alerts.yml"], folder, "") else {
        skip!("promtool is not installed (package prometheus)");
    };
    let rules = std::fs::read_to_string(folder.join("alerts.yml")).unwrap();
    let count = rules.matches("- alert: ").count();
    assert!(
        said.contains(&format!("{count} rules found")),
        "{count}: {said}"
    );
    promtool(&["test", "rules", "alerts-test.yml"], folder, "");
    // Each has a case in which it fires.
    let cases = std::fs::read_to_string(folder.join("alerts-test.yml")).unwrap();
    let cases: Vec<&str> = cases.split("alertname: ").skip(1).collect();
    for rule in rules.split("- alert: ").skip(1) {
        let name = rule.lines().next().unwrap().trim();
        let fires =
            |case: &&str| case.lines().next() == Some(name) && case.contains("- exp_labels:");
        assert!(cases.iter().any(fires), "{name} has no case that fires");
    }
}

/// A Prometheus that scrapes a server. Dropping it ends it.
struct Prometheus {
    child: Child,
    port: u16,
}

impl Prometheus {
    /// `None` without the program.
    fn start(server: &Server, target: &str, flags: &[&str]) -> Option<Self> {
        let port = free_port();
        let dashboard = format!(
            "global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}\n\
             rule_files: [{MONITORING}/alerts.yml]\n\
             scrape_configs:\n  - {{job_name: tutti, static_configs: [{{targets: [\"{target}\"]}}]}}\n"
        );
        let folder = server.folder().join(format!("prometheus-{port}"));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("prometheus.yml"), dashboard).unwrap();
        let log = fs::File::create(folder.join("log")).unwrap();
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}/prometheus.yml", folder.display()))
            .arg(format!("--storage.tsdb.path={}/data", folder.display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .args(flags)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .ok()?;
        Some(Self { child, port })
    }

    /// The value of an expression that has one; `None` as long as it has none.
    fn value(&self, expression: &str) -> Option<f64> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let body = format!("query={}", expression.replace('+', "%2B").replace(' ', "+"));
        let request = format!(
            "POST /api/v1/query HTTP/1.0\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (_, body) = answer.split_once("\r\n\r\n")?;
        let answer: Value = serde_json::from_str(body).ok()?;
        let result = answer.pointer("/data/result/0/value/1")?;
        result.as_str()?.parse().ok()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server with metrics on a listener of its own, whose address is returned, after five requests.
fn scraped() -> (PythonSite, String) {
    let (site, mut configuration) = everything();
    let address = format!("127.0.0.1:{}", free_port());
    configuration["listeners"][&address] = json!({"pass": "metrics"});
    site.server.put("/config", &configuration);
    for _ in 0..5 {
        assert_eq!(site.server.get("/app").status, 200);
    }
    (site, address)
}

const COUNTED: &str =
    "tutti_requests_total{action=\"application\",application=\"app\",class=\"2xx\"}";

#[test]
fn prometheus_scrapes_a_server() {
    let (site, address) = scraped();
    let Some(prometheus) = Prometheus::start(&site.server, &address, &[]) else {
        skip!("prometheus is not installed");
    };
    wait_until("a scrape", || prometheus.value(COUNTED) == Some(5.0));
    assert_eq!(prometheus.value("up{job=\"tutti\"}"), Some(1.0));
    // Every series of the page has arrived: none comes twice, none is refused.
    let samples = prometheus.value("scrape_samples_post_metric_relabeling{job=\"tutti\"}");
    let told = Samples::of(&site.server).0.len() as f64;
    assert_eq!(samples, Some(told));
    let count = "tutti_request_duration_seconds_count{application=\"app\"}";
    assert_eq!(prometheus.value(count), Some(5.0));
}

/// Issue 28, 2.8: the alert for metrics that are missing went off during maintenance.
#[test]
fn maintenance_leaves_the_metrics() {
    let (site, mut configuration) = everything();
    let address = format!("127.0.0.1:{}", free_port());
    configuration["listeners"][&address] = json!({"pass": "metrics"});
    configuration["routes"] = json!([
        {"match": {"uri": "/metrics"}, "action": {"pass": "metrics"}},
        {"action": {"pass": "applications/app"}}
    ]);
    configuration["settings"]["maintenance"] = json!({"retry_after": 60});
    site.server.put("/config", &configuration);
    assert_eq!(site.server.get("/app").status, 503);
    let ask = format!("GET / HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let metrics = client::request(address.parse().unwrap(), ask.as_bytes()).unwrap();
    assert_eq!(metrics.status, 200);
    assert!(metrics.text().contains("tutti_requests_total"));
    assert_eq!(site.server.get("/metrics").status, 200);
}

/// The numbers of a page in nginx's form, of which collectors read every byte: accepted, handled, requests, and the connections that are
/// open, read, written and idle.
fn in_nginxs_form(page: &str) -> [u64; 7] {
    let numbers: Vec<u64> = page
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    let [open, accepted, handled, requests, reading, writing, waiting] =
        numbers.try_into().unwrap();
    let expected = format!(
        "Active connections: {open} \nserver accepts handled requests\n {accepted} {handled} {requests} \nReading: {reading} Writing: {writing} Waiting: {waiting} \n"
    );
    assert_eq!(page, expected);
    [accepted, handled, requests, open, reading, writing, waiting]
}

#[test]
fn the_counts_are_available_in_nginxs_form() {
    let (site, mut configuration) = everything();
    let address = format!("127.0.0.1:{}", free_port());
    configuration["listeners"][&address] = json!({"pass": "routes/counts"});
    configuration["routes"] = json!({
        "main": [{"action": {"return": 204}}],
        "counts": [
            {"match": {"uri": "/by-variable"}, "action": {"pass": "$arg_x"}},
            {"action": {"pass": "metrics/stub_status"}},
        ],
    });
    let listener = format!("127.0.0.1:{}", site.server.port());
    configuration["listeners"][&listener] = json!({"pass": "routes/main"});
    // Monitoring continues during maintenance.
    configuration["settings"]["maintenance"] = json!({"retry_after": 60});
    site.server.put("/config", &configuration);
    let address = address.parse().unwrap();
    let ask = |line: &str| {
        let text = format!("{line} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        client::request(address, text.as_bytes()).unwrap()
    };
    // One connection that stays, with two requests.
    let mut idle = Client::to(site.server.address());
    for _ in 0..2 {
        idle.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(idle.response("GET").status, 503);
    }
    wait_until("the others have closed", || {
        in_nginxs_form(&ask("GET /").text())[3..] == [2, 0, 1, 1]
    });
    let reply = ask("GET /status");
    assert_eq!(reply.status, 200);
    assert_eq!(reply.field("content-type"), Some("text/plain"));
    let before = in_nginxs_form(&reply.text());
    assert_eq!(before[0], before[1]);
    wait_until("it has closed", || {
        site.server.status("/connections/active") == 0
    });
    let after = in_nginxs_form(&ask("GET /").text());
    assert_eq!(after[..3], [before[0] + 1, before[1] + 1, before[2] + 1]);
    let head = ask("HEAD /");
    assert_eq!((head.status, head.text().as_str()), (200, ""));
    let refused = ask("POST /");
    assert_eq!(
        (refused.status, refused.field("allow")),
        (405, Some("GET, HEAD"))
    );
    let curl = Command::new("curl")
        .args(["--silent", "--http2-prior-knowledge"])
        .arg(format!("http://{address}/"))
        .output()
        .unwrap();
    in_nginxs_form(&String::from_utf8(curl.stdout).unwrap());
    // No client chooses it.
    assert_ne!(ask("GET /by-variable?x=metrics/stub_status").status, 200);
    drop(idle);
}

/// The exporter that nginx publishes for Prometheus.
#[test]
fn the_exporter_for_nginx_reads_the_counts() {
    let server = Server::start(&ServerOptions::default());
    let (port, listen) = (server.port(), free_port());
    let listener = format!("127.0.0.1:{port}");
    server.put(
        "/config",
        &json!({"listeners": {listener: {"pass": "metrics/stub_status"}}}),
    );
    let exporter = Command::new("prometheus-nginx-exporter")
        .arg(format!("-nginx.scrape-uri=http://127.0.0.1:{port}/"))
        .arg(format!("-web.listen-address=127.0.0.1:{listen}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(exporter) = exporter else {
        skip!("prometheus-nginx-exporter is not installed");
    };
    let _exporter = Ended(exporter);
    let ask = "GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let page = || {
        let address = format!("127.0.0.1:{listen}").parse().unwrap();
        client::request(address, ask.as_bytes())
            .map_or_else(|_| String::new(), |reply| reply.text())
    };
    wait_until("the exporter has read the counts", || {
        page().contains("\nnginx_up 1\n")
    });
    let page = page();
    assert!(page.contains("\nnginx_connections_active 1\n"), "{page}");
    assert!(page.contains("\nnginx_http_requests_total "), "{page}");
}

/// A program that ends with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn prometheus_takes_native_histograms() {
    let (site, address) = scraped();
    let flags = ["--enable-feature=native-histograms"];
    let Some(prometheus) = Prometheus::start(&site.server, &address, &flags) else {
        skip!("prometheus is not installed");
    };
    wait_until("a scrape", || prometheus.value(COUNTED) == Some(5.0));
    let series = "tutti_request_duration_seconds{application=\"app\"}";
    let count = prometheus.value(&format!("histogram_count({series})"));
    assert_eq!(count, Some(5.0));
    let sum = prometheus
        .value(&format!("histogram_sum({series})"))
        .unwrap();
    let samples = Samples::of(&site.server);
    let labels = "action=\"application\",application=\"app\"";
    let own = samples.get("tutti_request_duration_seconds_sum", labels);
    assert!((sum - own).abs() < 1e-9, "{sum} {own}");
    // All of it is below the largest, and the largest is not far above the mean of five.
    let largest = prometheus
        .value(&format!("histogram_quantile(1, {series})"))
        .unwrap();
    assert!(
        largest >= sum / 5.0 && largest <= sum * 1.2,
        "{largest} {sum}"
    );
    let empty = "histogram_count(tutti_request_duration_seconds{action=\"share\"})";
    assert_eq!(prometheus.value(empty), Some(0.0));
}
