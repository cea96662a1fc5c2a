//! Each difference from NGINX Unit that `docs/reference/compat.md` names, shown by a request.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};
use tutti_testkit::{Reply, Server, ServerOptions, client, wait_until};

/// A server whose every request is answered 200 by a route.
fn start(route: &Value) -> Server {
    let server = Server::start(&ServerOptions::default());
    server.put("/config", &configuration(&server, route));
    server
}

fn configuration(server: &Server, route: &Value) -> Value {
    json!({
        "listeners": {format!("127.0.0.1:{}", server.port()): {"pass": "routes"}},
        "routes": route,
        "access_log": {"path": server.folder().join("access.log"), "format": "$uri \"$header_user_agent\""}
    })
}

fn always() -> Value {
    json!([{"action": {"return": 200}}])
}

/// Everything that comes back until the connection is closed.
fn raw(server: &Server, bytes: &str) -> String {
    let answer = client::raw(server.address(), bytes.as_bytes()).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

fn status(answer: &str) -> &str {
    answer.get(9..12).unwrap_or_default()
}

#[test]
fn ambiguous_framing_is_refused_and_the_connection_closed() {
    let server = start(&always());
    for (fields, expected) in [
        ("Content-Length: 1\r\nContent-Length: 1\r\n", "400"),
        ("Content-Length: 1\r\nContent-Length: 2\r\n", "400"),
        ("Content-Length: 1, 1\r\n", "400"),
        ("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n", "400"),
        ("Content-Length: 01\r\n", "400"),
        ("Transfer-Encoding: gzip, chunked\r\n", "501"),
        ("Transfer-Encoding: identity\r\n", "400"),
        ("X-Folded: a\r\n b\r\n", "400"),
    ] {
        let one = format!("POST / HTTP/1.1\r\nHost: test\r\n{fields}\r\nx");
        // `raw` reads to the end: it is closed, and the second request is not answered.
        let answer = raw(
            &server,
            &format!("{one}GET /second HTTP/1.1\r\nHost: test\r\n\r\n"),
        );
        assert_eq!(status(&answer), expected, "{fields:?}: {answer}");
        assert_eq!(
            answer.matches("HTTP/1.1 ").count(),
            1,
            "{fields:?}: {answer}"
        );
    }
}

#[test]
fn a_path_above_the_root_is_400() {
    let server = start(&always());
    for target in ["/..", "/../x", "/a/../../x", "/%2e%2e/x"] {
        assert_eq!(server.get(target).status, 400, "{target}");
    }
    assert_eq!(server.get("/a/../x").status, 200);
}

#[test]
fn http10_keep_alive_says_so() {
    let server = start(&always());
    let request = "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
    let answer = raw(&server, &format!("{request}GET / HTTP/1.0\r\n\r\n"));
    assert_eq!(answer.matches("HTTP/1.1 200").count(), 2, "{answer}");
    assert!(
        answer
            .to_ascii_lowercase()
            .contains("connection: keep-alive"),
        "{answer}"
    );
}

#[test]
fn a_request_line_too_long_is_414_and_a_field_431() {
    let server = start(&always());
    let long = "x".repeat(40_000);
    let line = raw(
        &server,
        &format!("GET /{long} HTTP/1.1\r\nHost: test\r\n\r\n"),
    );
    assert_eq!(status(&line), "414");
    let field = raw(
        &server,
        &format!("GET / HTTP/1.1\r\nHost: test\r\nX: {long}\r\n\r\n"),
    );
    assert_eq!(status(&field), "431");
}

#[test]
fn mistakes_are_found_when_configured_and_all_at_once() {
    let server = start(&always());
    let wrong = configuration(
        &server,
        &json!([
            {"match": {"urii": "/x"}, "action": {"return": 200}},
            {"action": {"share": "/srv$urii"}}
        ]),
    );
    let reply = server.call("PUT", "/config", &wrong);
    assert_eq!(reply.status, 400);
    let errors = reply.json()["errors"].clone();
    let pointers: Vec<_> = errors
        .as_array()
        .unwrap()
        .iter()
        .map(|error| error["pointer"].clone())
        .collect();
    assert_eq!(
        pointers,
        ["/routes/0/match/urii", "/routes/1/action/share"],
        "{errors}"
    );
    assert!(reply.json()["error"].is_string() && reply.json()["detail"].is_string());
    let twice = client::control(
        server.control(),
        "PUT",
        "/config",
        br#"{"routes": [], "routes": []}"#,
    )
    .unwrap();
    assert_eq!(twice.status, 400, "{}", twice.text());
    assert!(twice.text().contains("routes"), "{}", twice.text());
    assert!(
        twice.json()["location"]["line"].is_number(),
        "{}",
        twice.text()
    );
    assert_eq!(server.get("/").status, 200);
}

#[test]
fn log_values_cannot_forge_a_line() {
    let server = start(&always());
    let answer = raw(
        &server,
        "GET /a%0Ab HTTP/1.1\r\nHost: test\r\nUser-Agent: a\" \\ b\r\nConnection: close\r\n\r\n",
    );
    assert_eq!(status(&answer), "200");
    let path = server.folder().join("access.log");
    let mut log = String::new();
    wait_until("a line in the access log", || {
        log = fs::read_to_string(&path).unwrap_or_default();
        log.ends_with('\n')
    });
    assert_eq!(log, "/a\\x0Ab \"a\\x22 \\x5C b\"\n");
}

/// Issue 10: a rule that denies let the request through when its expression ran out of steps.
#[test]
fn a_regular_expression_cannot_hold_the_server_nor_open_it() {
    // Needs backtracking because of the references, and steps beyond counting on what almost matches.
    const ENDLESS: &str = "^/(?:(a+)(a+)(a+))+\\1\\2\\3(?=c)";
    let server = start(&json!([
        {"match": {"uri": format!("~{ENDLESS}")}, "action": {"return": 403}},
        {"action": {"return": 200}}
    ]));
    assert_eq!(server.get("/aaaaaac").status, 403);
    assert_eq!(server.get("/b").status, 200);
    let almost = format!("/{}", "a".repeat(60));
    assert_eq!(server.get(&almost).status, 500);
    let line = format!("the regular expression `{ENDLESS}` could not be evaluated");
    server.wait_for_log(&line);
}

/// Issue 10.
#[test]
fn what_is_no_request_target_is_400() {
    let server = start(&always());
    for request in [
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost:\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a..b\r\n\r\n",
        "GET /café HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /a\tb HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /?a#b HTTP/1.1\r\nHost: a\r\n\r\n",
    ] {
        assert_eq!(status(&raw(&server, request)), "400", "{request:?}");
    }
    for request in [
        "GET / HTTP/1.0\r\n\r\n",
        "GET /a%20b%23c HTTP/1.1\r\nHost: a.\r\nConnection: close\r\n\r\n",
    ] {
        assert_eq!(status(&raw(&server, request)), "200", "{request:?}");
    }
}

#[test]
fn another_number_of_threads_is_for_the_next_start() {
    let server = start(&always());
    server.put("/config/settings", &json!({"listen_threads": 3}));
    wait_until("the log says so", || {
        server
            .log()
            .contains("`listen_threads`: 3 is stored; it takes effect at the next start")
    });
    assert_eq!(server.get("/").status, 200);
}

/// CHANGES of FreeUnit 1.36.0: each such connection cost a descriptor for ever.
#[test]
fn control_connections_that_end_early_leave_no_descriptor() {
    use std::io::Write;
    let server = start(&always());
    let descriptors = || -> usize {
        ["tutti: main", "tutti: controller", "tutti: router"]
            .iter()
            .flat_map(|title| server.pids(title))
            .filter_map(|pid| fs::read_dir(format!("/proc/{pid}/fd")).ok())
            .map(Iterator::count)
            .sum()
    };
    let before = descriptors();
    for begun in [
        "",
        "GET",
        "GET /config HTTP/1.1\r\nHost: a\r\n\r\n",
        "PUT /config HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{",
        "PUT /config HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n",
    ] {
        for _ in 0..20 {
            let mut stream = std::os::unix::net::UnixStream::connect(server.control()).unwrap();
            // It may have been refused already.
            let _ = stream.write_all(begun.as_bytes());
        }
    }
    wait_until("all are closed", || descriptors() <= before);
    assert_eq!(server.call("GET", "/config", &Value::Null).status, 200);
}

#[test]
fn bodies_without_a_length_are_taken() {
    let server = start(&always());
    let request = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n1\r\na\r\n0\r\n\r\n";
    assert_eq!(status(&raw(&server, request)), "200");
    let settings = json!({"http": {"chunked_transform": false}});
    server.put("/config/settings", &settings);
    assert_eq!(status(&raw(&server, request)), "411");
}

#[test]
fn a_status_below_100_is_500_over_http2() {
    let server = start(&json!([{"action": {"return": 99}}]));
    let answer = raw(
        &server,
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    );
    assert_eq!(status(&answer), "099");
    let url = format!("http://{}/", server.address());
    let output = std::process::Command::new("curl")
        .args(["-s", "-o", "/dev/null", "-w", "%{http_code}"])
        .args(["--http2-prior-knowledge", &url])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "500");
}

#[test]
fn changes_may_be_conditional() {
    let server = start(&always());
    let before = server.call("GET", "/config/routes", &Value::Null);
    let tag = before.field("ETag").unwrap().to_owned();
    let change = |tag: &str| -> Reply {
        let body = r#"[{"action": {"return": 201}}]"#;
        let request = format!(
            "PUT /config/routes HTTP/1.1\r\nHost: localhost\r\nIf-Match: {tag}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        client::request_by_path(server.control(), request.as_bytes()).unwrap()
    };
    assert_eq!(change(&tag).status, 200);
    assert_eq!(server.get("/").status, 201);
    // It has another tag now.
    assert_eq!(change(&tag).status, 412);
}

#[test]
fn the_name_is_its_own() {
    let server = start(&always());
    let name = server.get("/").field("Server").unwrap().to_owned();
    assert!(name.starts_with("Tutti/"), "{name}");
    server.put(
        "/config/settings",
        &json!({"http": {"server_version": false}}),
    );
    assert_eq!(server.get("/").field("Server"), Some("Tutti"));
    assert_eq!(server.pids("tutti: main").len(), 1);
}

#[test]
fn a_restart_may_be_a_post() {
    let site = tutti_e2e::Site::start(&json!({}));
    for method in ["GET", "POST"] {
        let reply = site
            .server
            .call(method, "/control/applications/php/restart", &Value::Null);
        assert_eq!(reply.status, 200, "{method}: {}", reply.text());
    }
    let none = site
        .server
        .call("POST", "/control/applications/none/restart", &Value::Null);
    assert_eq!(none.status, 404, "{}", none.text());
}

#[test]
fn what_logs_and_shares_say_of_small_things() {
    let server = Server::start(&ServerOptions::default());
    server.write("site/long.log", "a line of a log\n".repeat(500_000));
    server.write("site/page.html", "a page");
    let share = format!("{}/site$uri", server.folder().display());
    server.put(
        "/config",
        &json!({
            "listeners": {format!("127.0.0.1:{}", server.port()): {"pass": "routes"}},
            "routes": [{"action": {"share": share, "types": "text/plain"}}],
            "settings": {"http": {"compression": {"compressors": [{"encoding": "gzip"}]}}},
            "access_log": {
                "path": server.folder().join("access.log"),
                "format": "$uri $header_x_empty $response_header_transfer_encoding"
            }
        }),
    );
    let get = |target: &str, fields: &str| {
        let text = format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n");
        client::request(server.address(), text.as_bytes()).unwrap()
    };
    let log = get("/long.log", "X-Empty:\r\nAccept-Encoding: gzip\r\n");
    assert_eq!(
        (log.status, log.field("Content-Type")),
        (200, Some("text/plain"))
    );
    assert_eq!(get("/page.html", "").status, 403);
    assert_eq!(get("/none.html", "").status, 404);
    let log = || fs::read_to_string(server.folder().join("access.log")).unwrap_or_default();
    wait_until("the lines", || log().lines().count() == 3);
    // Each thread writes its own.
    let text = log();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    let expected = ["/long.log - chunked", "/none.html - -", "/page.html - -"];
    assert_eq!(lines, expected);
}

/// Issue 28, 5.5.
#[test]
fn the_log_names_the_folder_that_denies_access() {
    let server = Server::start(&ServerOptions::default());
    server.write("site/closed/page.html", "a page");
    server.write("site/secret.html", "a page");
    let folder = server.folder().join("site");
    let share = format!("{}$uri", folder.display());
    server.put(
        "/config",
        &configuration(&server, &json!([{"action": {"share": share}}])),
    );
    let closed = folder.join("closed");
    fs::set_permissions(&closed, Permissions::from_mode(0o000)).unwrap();
    fs::set_permissions(folder.join("secret.html"), Permissions::from_mode(0o000)).unwrap();
    assert_eq!(server.get("/closed/page.html").status, 403);
    server.wait_for_log(&format!(") may not enter `{}`", closed.display()));
    assert_eq!(server.get("/secret.html").status, 403);
    server.wait_for_log(") may not read the file");
    fs::set_permissions(&closed, Permissions::from_mode(0o700)).unwrap();
}

/// Issue 28, 3.8: Unit counts both.
#[test]
fn connections_to_upstreams_are_not_those_of_clients() {
    let server = Server::start(&ServerOptions::default());
    let port = server.port();
    let proxy = json!([
        {"match": {"uri": "/inside"}, "action": {"return": 200}},
        {"action": {"rewrite": "/inside", "proxy": format!("http://127.0.0.1:{port}"), "proxy_options": {"keepalive": 4}}}
    ]);
    server.put("/config", &configuration(&server, &proxy));
    let before = server.status("/connections/accepted").as_u64().unwrap();
    assert_eq!(server.get("/").status, 200);
    // The client's, and the server's own, which is a client here.
    let accepted = server.status("/connections/accepted").as_u64().unwrap();
    assert_eq!(accepted - before, 2);
}
