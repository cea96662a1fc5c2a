//! Logs: one id for a request in all of them, and everything that a log can be written to.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tutti_e2e::Site;
use tutti_e2e::collector::{Collector, attributes};
use tutti_e2e::python::PythonSite;
use tutti_testkit::{Reply, Server, ServerOptions, client, wait_until};

/// Sends a request with these fields, each with its line end.
fn send(server: &Server, target: &str, fields: &str) -> Reply {
    let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n");
    client::request(server.address(), request.as_bytes()).unwrap()
}

/// The lines of a file, once there are so many.
fn lines(path: &Path, count: usize) -> Vec<String> {
    let mut found = Vec::new();
    wait_until(&format!("{count} lines in {}", path.display()), || {
        let text = fs::read_to_string(path).unwrap_or_default();
        found = text.lines().map(str::to_owned).collect();
        found.len() >= count
    });
    found
}

/// An application that shows its environment, and a server that passes on to it; `/gone` has no server.
fn identified(request_id: &Value, collector: &Collector) -> PythonSite {
    let site = PythonSite::bare();
    let server = &site.server;
    let mut configuration = site.configuration(&json!({"processes": 1}));
    let listener = format!("127.0.0.1:{}", server.port());
    configuration["listeners"] = json!({listener: {"pass": "routes"}});
    configuration["routes"] = json!([
        {"match": {"uri": "/far/*"}, "action": {"rewrite": "/environ", "proxy": format!("http://{}", server.address())}},
        {"match": {"uri": "/gone"}, "action": {"proxy": format!("http://{}", tutti_testkit::refusing_address())}},
        {"match": {"uri": "/own"}, "action": {"pass": "applications/app", "rewrite": "/environ",
                                              "request_headers": {"X-Request-Id": "mine"}}},
        {"action": {"pass": "applications/app"}},
    ]);
    configuration["access_log"] = json!({
        "path": server.folder().join("access.log"), "format": "$uri $request_id",
    });
    configuration["settings"] = json!({
        "http": {"request_id": request_id},
        "telemetry": {"endpoint": format!("http://{}", collector.address()), "protocol": "http", "batch_size": 1},
    });
    server.put("/config", &configuration);
    site
}

#[test]
fn one_id_is_in_every_log_and_passed_on_with_the_request() {
    let collector = Collector::start();
    let site = identified(&json!({"response": true}), &collector);
    let server = &site.server;
    let reply = send(server, "/environ", "X-Request-Id: forged\r\n");
    let id = reply.field("X-Request-Id").unwrap().to_owned();
    assert!(
        id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "{id}"
    );
    assert_eq!(reply.json()["HTTP_X_REQUEST_ID"], id);
    assert_eq!(
        reply.head.matches(&id).count(),
        2,
        "and the trace: {}",
        reply.head
    );
    let log = lines(&server.folder().join("access.log"), 1);
    assert_eq!(log, [format!("/environ {id}")]);
    let spans = collector.spans(1);
    assert_eq!(attributes(&spans[0].attributes)["tutti.request_id"], id);

    // A line of the daemon's log about a request has it, whatever is wrong.
    let reply = send(server, "/gone", "");
    assert_eq!(reply.status, 502);
    let id = reply.field("X-Request-Id").unwrap();
    server.wait_for_log(&format!(", id {id}"));

    // The configuration has precedence.
    let own = send(server, "/own", "");
    assert_eq!(own.json()["HTTP_X_REQUEST_ID"], "mine");
}

#[test]
fn an_id_is_taken_over_from_those_who_are_believed() {
    let collector = Collector::start();
    let trusted =
        json!({"header": "X-Correlation-Id", "source": ["127.0.0.0/8"], "response": true});
    let site = identified(&trusted, &collector);
    let server = &site.server;
    // Through a server that passes on, which is this one again: both have the id of the first.
    let reply = send(server, "/far/x", "X-Correlation-Id: Root=1-67891233-ab\r\n");
    assert_eq!(reply.json()["HTTP_X_CORRELATION_ID"], "Root=1-67891233-ab");
    assert_eq!(reply.field("X-Correlation-Id"), Some("Root=1-67891233-ab"));
    let log = lines(&server.folder().join("access.log"), 2);
    assert!(
        log.iter().all(|line| line.ends_with(" Root=1-67891233-ab")),
        "{log:?}"
    );

    // A UUID is the id of the trace, too.
    let uuid = "123e4567-e89b-12d3-a456-426614174000";
    let reply = send(server, "/environ", &format!("X-Correlation-Id: {uuid}\r\n"));
    let trace = reply.field("traceparent").unwrap();
    assert!(trace.contains(&uuid.replace('-', "")), "{trace}");

    // No id: a text that would break a line, several, none at all.
    for fields in [
        "X-Correlation-Id: a\" b\r\n",
        "X-Correlation-Id: a\r\nX-Correlation-Id: b\r\n",
        "X-Correlation-Id: \r\n",
        "",
    ] {
        let reply = send(server, "/environ", fields);
        let id = reply.field("X-Correlation-Id").unwrap();
        assert_eq!(id.len(), 32, "{fields:?}: {id}");
        assert_eq!(reply.json()["HTTP_X_CORRELATION_ID"], id);
    }
}

#[test]
fn without_the_option_no_server_gets_an_id() {
    let collector = Collector::start();
    let site = identified(&json!(false), &collector);
    let server = &site.server;
    let reply = send(server, "/environ", "X-Request-Id: theirs\r\n");
    assert_eq!(reply.json()["HTTP_X_REQUEST_ID"], "theirs");
    assert_eq!(reply.field("X-Request-Id"), None);
    let refused = server.call(
        "PUT",
        "/config/settings/http/request_id",
        &json!({"header": "Content-Length"}),
    );
    assert_eq!(refused.status, 400);
    let text = refused.text();
    assert!(text.contains("/settings/http/request_id/header"), "{text}");
}

/// A configuration with an application that can be held, and a slow log with a threshold of a fifth of a second.
fn slow(site: &PythonSite, format: &str) -> Value {
    let mut configuration = site.configuration(&json!({"processes": 1}));
    let listener = format!("127.0.0.1:{}", site.server.port());
    configuration["listeners"] = json!({listener: {"pass": "routes"}});
    configuration["routes"] = json!([
        {"match": {"uri": "/far"}, "action": {"proxy": format!("http://{}", site.server.address()), "rewrite": "/thread"}},
        {"match": {"uri": "/own"}, "action": {"return": 204}},
        {"action": {"pass": "applications/app"}},
    ]);
    configuration["slow_log"] = json!({
        "path": site.server.folder().join("slow.log"), "threshold": 0.2, "format": format,
    });
    configuration
}

/// Sends a request that waits for the file `name`, and makes that file once `until` says so.
fn held(site: &PythonSite, uri: &str, name: &str, until: impl FnOnce()) -> Reply {
    let folder = site.work();
    let target = format!("{uri}?folder={}&wait={name}", folder.display());
    std::thread::scope(|scope| {
        let reply = scope.spawn(|| send(&site.server, &target, ""));
        until();
        fs::write(folder.join(name), "").unwrap();
        reply.join().unwrap()
    })
}

#[test]
fn the_slow_log_says_where_a_request_stands_and_later_how_long_it_took() {
    let site = PythonSite::bare();
    let server = &site.server;
    server.put("/config", &slow(&site, "json"));
    let log = server.folder().join("slow.log");
    let reply = held(&site, "/thread", "one", || drop(lines(&log, 1)));
    assert_eq!(reply.status, 200);
    let entries: Vec<Value> = lines(&log, 2)
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let [running, finished] = &entries[..] else {
        panic!("{entries:?}");
    };
    assert_eq!(running["state"], "running");
    assert_eq!(running["application"], "app");
    let pid: i32 = reply.text().split(' ').next().unwrap().parse().unwrap();
    assert_eq!(running["pid"], pid, "{running}");
    let places = running["backtrace"].to_string();
    assert!(
        places.contains("application.py") && places.contains("in thread"),
        "{places}"
    );
    assert!(running["seconds"].as_f64().unwrap() >= 0.2, "{running}");

    assert_eq!(finished["state"], "finished");
    assert_eq!(finished["status"], 200);
    assert_eq!(finished["request_id"], running["request_id"]);
    assert!(
        finished["target"]
            .as_str()
            .unwrap()
            .starts_with("/thread?folder=")
    );
    let phases = finished["phases"].as_object().unwrap();
    let names: Vec<&str> = phases.keys().map(String::as_str).collect();
    assert_eq!(names, ["head", "body", "queue", "worker", "send"]);
    assert!(phases["worker"].as_f64().unwrap() >= 0.2, "{finished}");
    // Requests below the threshold have no entry. It is an hour, since a busy machine may delay any of them.
    server.put("/config/slow_log/threshold", &json!(3600));
    // It was asked, not ended: the same process serves on.
    assert!(site.text("/thread").starts_with(&format!("{pid} ")));
    send(server, "/own", "");
    assert_eq!(lines(&log, 2).len(), 2);
}

#[test]
fn a_request_that_waits_for_a_worker_is_logged_as_such() {
    let site = PythonSite::bare();
    let server = &site.server;
    server.put("/config", &slow(&site, "text"));
    let log = server.folder().join("slow.log");
    let has = |text: &str, count: usize| {
        let found = fs::read_to_string(&log).unwrap_or_default();
        found.lines().filter(|line| line.contains(text)).count() >= count
    };
    // The only worker is held; another request waits behind it, longer than it should.
    held(&site, "/thread", "two", || {
        wait_until("the worker is at it", || {
            site.work().join("at-two").exists()
        });
        std::thread::scope(|scope| {
            scope.spawn(|| {
                wait_until("both are logged", || has("[running]", 2));
                fs::write(site.work().join("two"), "").unwrap();
            });
            assert_eq!(send(server, "/hello", "").status, 200);
        });
    });
    wait_until("both have ended", || has("[slow]", 2));
    let text = fs::read_to_string(&log).unwrap();
    let of = |state: &str, target: &str| {
        let wanted = format!("request \"GET {target}");
        let mut lines = text.lines();
        lines
            .find(|line| line.contains(state) && line.contains(&wanted))
            .unwrap()
    };
    let waiting = of("[running]", "/hello");
    assert!(!waiting.contains("process "), "{waiting}");
    let waited = of("[slow]", "/hello");
    let queue = waited.split("queue ").nth(1).unwrap().split(',').next();
    assert!(queue.unwrap().parse::<f64>().unwrap() > 0.0, "{waited}");
    assert!(text.contains("application.py"), "{text}");
}

#[test]
fn the_slow_log_knows_upstreams_and_can_leave_applications_alone() {
    let site = PythonSite::bare();
    let server = &site.server;
    let mut configuration = slow(&site, "json");
    configuration["slow_log"]["backtrace"] = json!(false);
    server.put("/config", &configuration);
    let log = server.folder().join("slow.log");
    // The upstream is this server: both its requests are slow.
    held(&site, "/far", "three", || drop(lines(&log, 2)));
    let entries: Vec<Value> = lines(&log, 4)
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of_upstream = |one: &&Value| one["upstream"].is_string();
    let passed_on: Vec<&Value> = entries.iter().filter(of_upstream).collect();
    assert_eq!(passed_on.len(), 2, "{entries:?}");
    let phases = passed_on[1]["phases"].as_object().unwrap();
    let names: Vec<&str> = phases.keys().map(String::as_str).collect();
    assert_eq!(names, ["head", "body", "upstream", "send"]);
    assert!(
        entries.iter().all(|one| one["backtrace"].is_null()),
        "{entries:?}"
    );
}

/// Each language that answers the watchdog of requests is asked in the same way; PHP as another one that writes its place itself.
#[test]
fn a_php_script_says_its_line() {
    let site = Site::start(&json!({}));
    let script = site.root().join("hold.php");
    let text = "<?php\nfunction hold($name) {\n  while (!file_exists($name)) {\n    clearstatcache();\n  }\n}\nhold($_GET['name']);\necho 'done';\n";
    fs::write(&script, text).unwrap();
    let server = &site.server;
    let log = server.folder().join("slow.log");
    server.put("/config/slow_log", &json!({"path": log, "threshold": 0.2}));
    let file = server.folder().join("go");
    let reply = std::thread::scope(|scope| {
        let target = format!("/hold.php?name={}", file.display());
        let reply = scope.spawn(move || send(server, &target, ""));
        let found = lines(&log, 2);
        assert!(
            found[0].contains("[running]") && found[0].contains(", process "),
            "{found:?}"
        );
        assert!(
            found[1].contains("hold.php:") && found[1].contains("hold()"),
            "{found:?}"
        );
        fs::write(&file, "").unwrap();
        reply.join().unwrap()
    });
    assert_eq!(reply.text(), "done");
}

/// Issue 28: what a script waited for was cut short by the question where it is.
#[test]
fn a_script_that_is_asked_waits_as_long_as_it_would_have() {
    let server = Server::start(&ServerOptions::default());
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/waits");
    for entry in fs::read_dir(sources).unwrap() {
        let entry = entry.unwrap();
        let name = Path::new("waits").join(entry.file_name());
        server.write(name.to_str().unwrap(), fs::read(entry.path()).unwrap());
    }
    let folder = server.folder().join("waits");
    let log = server.folder().join("slow.log");
    server.put(
        "/config",
        &json!({
            "listeners": {format!("127.0.0.1:{}", server.port()): {"pass": "routes"}},
            "routes": [
                {"match": {"uri": "/index.php"}, "action": {"pass": "applications/php"}},
                {"match": {"uri": "/waits.psgi"}, "action": {"pass": "applications/perl"}},
                {"match": {"uri": "/waits.py"}, "action": {"pass": "applications/python"}},
                {"match": {"uri": "/config.ru"}, "action": {"pass": "applications/ruby"}},
            ],
            "applications": {
                "php": {"type": "php", "root": folder},
                "perl": {"type": "perl", "script": folder.join("waits.psgi")},
                "python": {"type": "python", "path": folder, "module": "waits"},
                "ruby": {"type": "ruby", "script": folder.join("config.ru")},
            },
            "slow_log": {"path": log, "threshold": 0.2, "format": "json"},
        }),
    );
    let own: [(&str, &[&str]); 4] = [
        ("index.php", &["usleep", "nanosleep"]),
        ("waits.psgi", &["usleep"]),
        ("waits.py", &[]),
        ("config.ru", &[]),
    ];
    let mut count = 0;
    for (script, own) in own {
        for how in ["sleep", "select", "read", "lock"].iter().chain(own) {
            let reply = send(&server, &format!("/{script}?how={how}"), "");
            let text = reply.text();
            let took = text.strip_prefix("whole ").map(str::parse::<u32>);
            assert!(
                took.is_some_and(|took| took.is_ok_and(|took| took >= 1000)),
                "{script}, {how}: {text}; {}",
                server.log()
            );
            count += 2;
            let entries = lines(&log, count);
            let running: Value = serde_json::from_str(&entries[count - 2]).unwrap();
            assert_eq!(running["state"], "running", "{running}");
            let place = running["backtrace"].to_string();
            assert!(place.contains(script), "{script}, {how}: {running}");
        }
    }
}
