//! The examples and commands of `docs/http/delivery.md`, as they stand there, with a real application and curl.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tutti_e2e::documents::examples;
use tutti_testkit::client::Client;
use tutti_testkit::server::binaries;
use tutti_testkit::{Server, ServerOptions, wait_until};

const PAGE: &str = include_str!("../../../docs/http/delivery.md");

/// A server with the configuration under a heading of the page, `/srv` being a folder of its own.
fn serve(heading: &str, files: &[(&str, &str)]) -> (Server, Value) {
    let server = Server::start(&ServerOptions::default());
    for (name, content) in files {
        server.write(name, content);
    }
    let source = include_bytes!("delivery/site_app.py");
    server.write("srv/site/site_app.py", source);
    let config = configuration(&server, heading);
    server.put("/config", &config);
    (server, config)
}

fn section(heading: &str) -> &'static str {
    let (_, section) = PAGE
        .split_once(&format!("\n## {heading}\n"))
        .unwrap_or_else(|| panic!("no heading {heading}"));
    section
}

fn configuration(server: &Server, heading: &str) -> Value {
    let folder = server.folder().display();
    let text = examples(section(heading), "json")
        .remove(0)
        .replace("/srv", &format!("{folder}/srv"))
        .replace("\"*:8080\"", &format!("\"{}\"", server.address()));
    serde_json::from_str(&text).unwrap()
}

/// The heads of all answers, and the body, that curl gets over HTTP/2.
fn curl(server: &Server, path: &str, more: &[&str]) -> (String, String) {
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--http2-prior-knowledge"])
        .args(["--dump-header", "-", "--max-time", "60"])
        .args(more)
        .arg(format!("http://{}{path}", server.address()))
        .output()
        .unwrap();
    let all = String::from_utf8_lossy(&output.stdout).into_owned();
    let (head, body) = all.rsplit_once("\r\n\r\n").unwrap();
    (head.to_ascii_lowercase(), body.to_owned())
}

#[test]
fn a_return_has_a_body() {
    let (server, _) = serve("Fixed responses", &[]);
    let robots = server.get("/robots.txt");
    assert_eq!(robots.text(), "User-agent: *\nDisallow: /private/\n");
    assert_eq!(
        robots.field("Content-Type"),
        Some("text/plain; charset=utf-8")
    );
    let (head, body) = curl(&server, "/ip", &["--user-agent", "a\"b"]);
    assert!(head.starts_with("http/2 200"), "{head}");
    assert!(head.contains("content-type: application/json"), "{head}");
    let expected = r#"{"address":"127.0.0.1","agent":"a\"b","version":1}"#;
    assert_eq!(body, expected);
    assert!(head.contains(&format!("content-length: {}", expected.len())));
    let (head, body) = curl(&server, "/ip", &["--head"]);
    assert!(head.contains("content-length: "), "{head}");
    assert_eq!(body, "");
    let moved = server.get("/old/x");
    assert_eq!(moved.field("Location"), Some("/new/"));
    assert_eq!(
        (moved.status, moved.text().as_str()),
        (301, "It has moved.\n")
    );
    let (head, body) = curl(&server, "/", &["--data", "a=b"]);
    assert!(head.starts_with("http/2 503"), "{head}");
    assert!(head.contains("retry-after: 600"), "{head}");
    assert!(head.contains("content-type: text/html; charset=utf-8"));
    assert_eq!(body, "<h1>Back soon</h1>");
}

#[test]
fn an_application_gives_leave_for_files() {
    let heading = "Protected files";
    let (server, mut config) = serve(
        heading,
        &[
            ("srv/protected/report.pdf", "0123456789"),
            ("srv/protected/long.pdf", "long"),
            ("srv/secret.txt", "secret"),
        ],
    );
    for target in ["/report/report.pdf", "/report/long.pdf"] {
        let reply = server.get(target);
        assert_eq!(reply.status, 200, "{}", server.log());
        assert_eq!(reply.field("Content-Type"), Some("application/pdf"));
        assert_eq!(reply.field("Set-Cookie"), Some("seen=1"));
        assert!(!reply.text().contains("not this"));
    }
    let (head, body) = curl(&server, "/report/report.pdf", &["--range", "3-5"]);
    assert!(head.starts_with("http/2 206"), "{head}");
    assert!(head.contains("set-cookie: seen=1"), "{head}");
    assert_eq!(body, "345");
    let (head, _) = curl(&server, "/report/report.pdf", &["--data", "a=b"]);
    assert!(head.starts_with("http/2 200"), "{head}");
    for path in ["/protected/report.pdf", "/protected/../secret.txt"] {
        assert!(server.get(path).text().starts_with("GET /"), "{path}");
    }
    for path in ["/report/../secret.txt", "/report/%2e%2e%2fsecret.txt"] {
        let reply = server.get(path);
        assert!(!reply.text().contains("secret") || reply.text().starts_with("GET"));
    }
    // A `pass` to the route is a mistake, and is reported.
    config["routes"]["site"].as_array_mut().unwrap().insert(
        0,
        json!({"match": {"uri": "/x"}, "action": {"pass": "routes/protected"}}),
    );
    let refused = server.call("PUT", "/config", &config).json();
    let detail = refused["detail"].as_str().unwrap();
    assert!(
        detail.contains("the route `protected` is internal"),
        "{detail}"
    );
    assert!(detail.contains("/routes/site/0/action/pass"), "{detail}");
}

#[test]
fn errors_have_pages() {
    let (server, _) = serve(
        "Error pages",
        &[
            ("srv/errors/404.html", "nothing here"),
            ("srv/errors/sorry.html", "sorry"),
            ("srv/www/a.txt", "a"),
        ],
    );
    assert_eq!(server.get("/a.txt").text(), "a");
    let none = server.get("/none");
    assert_eq!((none.status, none.text().as_str()), (404, "nothing here"));
    let moved = server.get("/old/x");
    assert_eq!(
        (moved.status, moved.field("Location")),
        (301, Some("/new/"))
    );
    let failed = server.get("/app/status/503");
    assert_eq!((failed.status, failed.text().as_str()), (503, "sorry"));
    assert_eq!(failed.field("Retry-After"), Some("9"));
    assert!(
        failed
            .field("X-Request-Id")
            .is_some_and(|id| id.len() == 32)
    );
    assert_eq!(server.get("/app/status/418").text(), "GET /app/status/418");
    let (head, body) = curl(&server, "/none", &["--data", "a=b"]);
    // A POST to a file.
    assert!(head.starts_with("http/2 405"), "{head} {body}");
    let (head, body) = curl(&server, "/none", &[]);
    assert!(head.starts_with("http/2 404"), "{head}");
    assert_eq!(body, "nothing here");
}

#[test]
fn a_site_and_a_path_have_their_own_settings() {
    let server = Server::start(&ServerOptions::default());
    server.write("srv/logs/none", "");
    let config = configuration(&server, "Settings for a site or a path");
    server.put("/config", &config);
    let body = server.folder().join("body");
    std::fs::write(&body, vec![b'x'; 2 << 20]).unwrap();
    let data = format!("@{}", body.display());
    let (head, _) = curl(&server, "/upload/a", &["--data-binary", &data]);
    assert!(head.starts_with("http/2 200"), "{head}");
    let mut client = Client::to(server.address());
    client.send("POST /other HTTP/1.1\r\nHost: a\r\nContent-Length: 2097152\r\n\r\n");
    assert_eq!(client.response("POST").status, 413);
    assert_eq!(server.get("/health").status, 200);
    assert_eq!(server.get("/last").status, 200);
    let log = |name: &str| server.folder().join("srv/logs").join(name);
    let read = |name: &str| std::fs::read_to_string(log(name)).unwrap_or_default();
    wait_until("the logs", || {
        read("all.log").lines().count() >= 2 && read("uploads.log").ends_with('\n')
    });
    // Two threads have no order between them.
    let all = read("all.log");
    let mut all: Vec<&str> = all.lines().collect();
    all.sort_unstable();
    assert_eq!(all, ["/last", "/other"]);
    assert_eq!(read("uploads.log"), "127.0.0.1 /upload/a 200\n");
}

#[test]
fn responses_have_the_types_rates_and_texts_of_their_action() {
    let (server, _) = serve(
        "Types, charsets, rates and texts",
        &[
            ("srv/www/old/page", "<a href=http://old.example/x>"),
            ("srv/www/new.html", "new"),
        ],
    );
    server.write("srv/www/videos/a.mp4", "x".repeat(1_500_000));
    let page = format!("<a href=http://{}/x>", server.address().ip());
    let old = server.get("/old/page");
    assert_eq!(
        old.field("Content-Type"),
        Some("text/html; charset=iso-8859-1")
    );
    assert!(!old.text().contains("old.example"), "{}", old.text());
    let (head, body) = curl(&server, "/old/page", &[]);
    assert!(head.contains("trailer: x-bytes"), "{head}");
    assert!(body.starts_with(&page), "{body}");
    let new = server.get("/new.html");
    assert_eq!(new.field("Content-Type"), Some("text/html; charset=utf-8"));
    // The first megabyte is free, and half a million bytes more go out at once.
    assert_eq!(server.get("/videos/a.mp4").body.len(), 1_500_000);
}

#[test]
fn copies_reach_the_upstream() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let next = listener.local_addr().unwrap();
    let seen = Arc::new(Mutex::new(String::new()));
    let told = Arc::clone(&seen);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut bytes = [0; 4096];
            // Head and body need not come together.
            while let Ok(count @ 1..) = stream.read(&mut bytes) {
                let mut told = told.lock().unwrap();
                told.push_str(&String::from_utf8_lossy(&bytes[..count]));
                if told.ends_with("field=value") {
                    break;
                }
            }
            let _ = stream.write_all(
                b"HTTP/1.1 500 Whatever\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            );
        }
    });
    let server = Server::start(&ServerOptions::default());
    server.write(
        "srv/site/site_app.py",
        include_bytes!("delivery/site_app.py"),
    );
    let text = configuration(&server, "Copies of requests").to_string();
    let mut config: Value =
        serde_json::from_str(&text.replace("127.0.0.1:9090", &next.to_string())).unwrap();
    config["routes"][0]["action"]["mirror"]["ratio"] = json!(1);
    server.put("/config", &config);
    let (_, body) = curl(&server, "/x", &["--data", "field=value"]);
    assert_eq!(body, "POST /x");
    wait_until("the copy has come", || {
        let seen = seen.lock().unwrap();
        seen.starts_with("POST /x HTTP/1.1\r\n") && seen.ends_with("\r\n\r\nfield=value")
    });
}

#[test]
fn hints_come_before_the_answer() {
    let (server, _) = serve("Early hints", &[]);
    let (head, body) = curl(&server, "/", &[]);
    let (hints, answer) = head.split_once("\r\n\r\n").unwrap();
    assert!(hints.starts_with("http/2 103"), "{hints}");
    assert!(
        hints.contains("link: </site.css>; rel=preload; as=style"),
        "{hints}"
    );
    assert!(
        hints.contains("link: <https://cdn.example.com>; rel=preconnect"),
        "{hints}"
    );
    assert!(answer.starts_with("http/2 200"), "{answer}");
    assert_eq!(body, "GET /");
    // HTTP/1.1 gets none.
    assert_eq!(server.get("/").status, 200);
    let (head, _) = curl(&server, "/", &["--header", "Sec-Fetch-Mode: no-cors"]);
    assert!(head.starts_with("http/2 200"), "{head}");
}

#[test]
fn folders_are_listed_and_files_served_compressed() {
    let (server, _) = serve(
        "Precompressed files and folder listings",
        &[
            ("srv/downloads/a.txt", "a"),
            ("srv/downloads/.hidden", "a"),
            ("srv/www/style.css", "plain"),
            ("srv/www/style.css.br", "br"),
        ],
    );
    let page = server.get("/downloads/").text();
    assert!(
        page.contains("href=\"./a.txt\"") && !page.contains("hidden"),
        "{page}"
    );
    assert_eq!(server.get("/style.css").text(), "plain");
    let (head, body) = curl(&server, "/style.css", &["--header", "Accept-Encoding: br"]);
    assert!(head.contains("content-encoding: br"), "{head}");
    assert!(head.contains("content-type: text/css"), "{head}");
    assert_eq!(body, "br");
    let (_, body) = curl(
        &server,
        "/downloads/",
        &["--header", "Accept: application/json"],
    );
    let listed: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(listed["entries"][0]["name"], "a.txt");
}

/// The output of a command of the page, with the server's own socket and folder in it.
fn run(server: &Server, command: &str) -> String {
    let folder = server.folder().display().to_string();
    let socket = server.control().display().to_string();
    let tutti = binaries().join("tutti").display().to_string();
    let command = command
        .trim_start_matches("sudo ")
        .replace("/srv/", &format!("{folder}/srv/"))
        .replace(
            "--unix-socket /run/tutti/control.sock",
            &format!("--silent --unix-socket {socket}"),
        );
    let command = match command.strip_prefix("tutti ") {
        Some(rest) => format!("{tutti} {rest} --control unix:{socket}"),
        None => command,
    };
    let done = Command::new("sh").args(["-c", &command]).output().unwrap();
    assert!(done.status.success(), "{command}: {done:?}");
    String::from_utf8_lossy(&done.stdout).replace(&folder, "")
}

#[test]
fn maintenance_is_begun_and_ended_as_the_page_says() {
    let mut server = Server::start(&ServerOptions::default());
    server.write("srv/errors/maintenance.html", "back soon");
    let listeners = json!({server.address().to_string(): {"pass": "routes"}});
    let config = json!({"listeners": listeners, "routes": [{"action": {"return": 204}}]});
    server.put("/config", &config);
    assert_eq!(server.get("/").status, 204);
    let session = examples(section("Maintenance"), "console").remove(0);
    let mut commands = session.split("$ ").skip(1);
    let mut follow = || {
        let (command, expected) = commands.next().unwrap().split_once('\n').unwrap();
        let shown = run(&server, command);
        assert_eq!(shown.trim_end(), expected.trim_end(), "{command}");
    };
    follow();
    let reply = server.get("/");
    assert_eq!((reply.status, reply.text().as_str()), (503, "back soon"));
    assert_eq!(reply.field("Retry-After"), Some("600"));
    follow();
    assert_eq!(server.status("/maintenance/retry_after"), 600);
    assert!(run(&server, "tutti status").contains("requests get 503"));
    // A deployment does not end it.
    let new = json!({"listeners": listeners, "routes": [{"action": {"return": 200}}]});
    server.put("/config", &new);
    assert_eq!(server.get("/").status, 503);
    // Nor does a restart.
    server.start_again(&ServerOptions::default());
    wait_until("it serves again", || {
        std::panic::catch_unwind(|| server.get("/").status).is_ok_and(|status| status == 503)
    });
    let off = session.rsplit("$ ").next().unwrap();
    let (command, expected) = off.split_once('\n').unwrap();
    assert_eq!(run(&server, command).trim_end(), expected.trim_end());
    assert_eq!(server.get("/").status, 200);
    assert_eq!(
        server
            .call("GET", "/control/maintenance", &Value::Null)
            .status,
        404
    );
    // That of a part is shown, too.
    let path = format!("/config/listeners/{}/maintenance", server.address());
    server.put(&path, &json!({"retry_after": 120}));
    assert_eq!(server.get("/").status, 503);
    let place = format!("/listeners/{}", server.address());
    assert_eq!(
        server.status("/maintenance_of_parts"),
        json!({&place: {"retry_after": 120}})
    );
    let shown = run(&server, "tutti status");
    let line = format!("maintenance requests of {place} get 503, try again after 2 minutes");
    assert!(shown.contains(&line), "{shown}");
    assert_eq!(server.call("DELETE", &path, &Value::Null).status, 200);
    assert_eq!(server.get("/").status, 200);
    let none = server.call("GET", "/status/maintenance_of_parts", &Value::Null);
    assert_eq!(none.status, 404);
    // Mistakes are reported with their place.
    let wrong = json!({"retry_after": "soon"});
    let refused = server.call("PUT", "/control/maintenance", &wrong);
    assert_eq!(refused.status, 400);
    assert!(
        refused.text().contains("/settings/maintenance/retry_after"),
        "{}",
        refused.text()
    );
    assert_eq!(server.get("/").status, 200);
}
