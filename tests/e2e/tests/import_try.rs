//! `tutti import --try`: the imported configuration beside an old server, and the differences of their answers.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tempfile::TempDir;
use tutti_testkit::processes;
use tutti_testkit::server::built;

/// An old server: it answers with the function, and keeps the heads of requests.
struct Old {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Old {
    fn start(answer: fn(&str) -> String) -> Old {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&heads);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut head = String::new();
                let mut byte = [0];
                while !head.ends_with("\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) > 0 {
                    head.push(char::from(byte[0]));
                }
                // A connection without a request asks whether the server is there.
                if head.is_empty() {
                    continue;
                }
                let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
                kept.lock().unwrap().push(head);
                let _ = stream.write_all(answer(&target).as_bytes());
            }
        });
        Old { address, heads }
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

fn answer(status: &str, fields: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\n{fields}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// A folder with files that the server's user may read, and nginx's file about it for a server at `address`.
fn site(address: SocketAddr, more: &str) -> (TempDir, PathBuf) {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::Builder::new().prefix("site-").tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let root = folder.path().display();
    std::fs::write(folder.path().join("a.txt"), "text").unwrap();
    std::fs::write(
        folder.path().join("index.html"),
        "<a href='/a.txt'>a</a><a href='http://other.example/'>b</a><a href=/moved>c</a>",
    )
    .unwrap();
    let conf = folder.path().join("site.conf");
    let text = format!(
        "types {{ text/html html; text/plain txt; }}\nserver {{ listen {address}; server_name site.example; root {root}; location = /moved {{ return 301 /a.txt; }} {more} }}\n"
    );
    std::fs::write(&conf, text).unwrap();
    (folder, conf)
}

fn tried(conf: &Path, more: &[&str]) -> Output {
    built("tutti-import");
    Command::new(built("tutti"))
        .args(["import", "nginx", "--try"])
        .arg(conf)
        .args(more)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// As the imported site answers.
fn same(target: &str) -> String {
    let html = "<a href='/a.txt'>a</a><a href='http://other.example/'>b</a><a href=/moved>c</a>";
    match target {
        "/" | "/index.html" => answer("200 OK", "Content-Type: text/html\r\n", html),
        "/a.txt" => answer("200 OK", "Content-Type: text/plain\r\n", "text"),
        "/moved" => answer("301 Moved Permanently", "Location: /a.txt\r\n", ""),
        _ => answer("404 Not Found", "", ""),
    }
}

#[test]
fn a_crawl_finds_no_differences_where_there_are_none() {
    let old = Old::start(same);
    let (_folder, conf) = site(old.address, "");
    let ignore = ["--ignore", "last-modified", "--host", "site.example"];
    let done = tried(&conf, &ignore);
    let told = text(&done.stdout) + &text(&done.stderr);
    assert_eq!(done.status.code(), Some(0), "{told}");
    assert!(told.contains("no differences: 3 requests"), "{told}");
    for head in old.heads() {
        let host = format!("Host: site.example:{}\r\n", old.address.port());
        assert!(head.contains(&host) && head.starts_with("GET "), "{head}");
    }
}

#[test]
fn differences_are_a_table_and_json() {
    fn other(target: &str) -> String {
        match target {
            "/a.txt" => answer(
                "200 OK",
                "Content-Type: text/plain\r\nX-Kind: old\r\n",
                "texT",
            ),
            "/gone" => answer("410 Gone", "", "our own page"),
            _ => same(target),
        }
    }
    let old = Old::start(other);
    let (folder, conf) = site(old.address, "");
    let list = folder.path().join("list");
    std::fs::write(&list, "/a.txt\n/gone\n/moved\n").unwrap();
    let list = list.to_str().unwrap();
    let arguments = ["--requests", list, "--ignore", "Last-Modified"];
    let done = tried(&conf, &arguments);
    let told = text(&done.stdout);
    assert_eq!(done.status.code(), Some(1), "{told}");
    for row in [
        "x-kind",
        "body",
        "410",
        "404",
        "from 3: T",
        "2 differ: 3 requests",
    ] {
        assert!(told.contains(row), "{row}: {told}");
    }
    let done = tried(&conf, &[&arguments[..], &["--format", "json"]].concat());
    let told: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!((&told["asked"], &told["differing"]), (&3.into(), &2.into()));
    let first = &told["requests"][1]["differences"][0];
    assert_eq!(
        (&first["what"], &first["old"]),
        (&"status".into(), &"410".into())
    );
}

#[test]
fn what_the_old_server_says_differently_each_time_is_not_compared() {
    fn counts(target: &str) -> String {
        static COUNT: Mutex<u32> = Mutex::new(0);
        let mut count = COUNT.lock().unwrap();
        *count += 1;
        match target {
            "/a.txt" => answer("200 OK", "Content-Type: text/plain\r\n", &count.to_string()),
            _ => same(target),
        }
    }
    let old = Old::start(counts);
    let (folder, conf) = site(old.address, "");
    let list = folder.path().join("list");
    std::fs::write(&list, "/a.txt\n").unwrap();
    let list = list.to_str().unwrap();
    let done = tried(&conf, &["--requests", list, "--ignore", "last-modified"]);
    let told = text(&done.stdout);
    assert_eq!(done.status.code(), Some(0), "{told}");
    assert!(told.contains("1 parts of responses not compared"), "{told}");
}

#[test]
fn only_safe_methods_of_a_log_are_sent_and_only_to_the_old_server() {
    let old = Old::start(same);
    let (folder, conf) = site(old.address, "");
    let log = folder.path().join("access.log");
    let line = |request: &str| format!("192.0.2.1 - - [x] \"{request}\" 200 1 \"-\" \"-\"\n");
    let lines = [
        line("POST /a.txt HTTP/1.1"),
        line("DELETE /a.txt HTTP/1.1"),
        line("GET /a.txt HTTP/1.1"),
        line("HEAD /a.txt HTTP/1.1"),
        line("GET http://other.example/ HTTP/1.1"),
        line(r"\x16\x03\x01"),
        line(r"GET /\x0d\x0aX: y HTTP/1.1"),
    ];
    std::fs::write(&log, lines.concat()).unwrap();
    let log = log.to_str().unwrap();
    let done = tried(&conf, &["--requests", log, "--ignore", "last-modified"]);
    let told = text(&done.stdout);
    assert_eq!(done.status.code(), Some(0), "{told}");
    assert!(
        told.contains("2 requests not sent: their methods"),
        "{told}"
    );
    assert!(told.contains("3 lines without a request"), "{told}");
    let methods: Vec<String> = old
        .heads()
        .iter()
        .map(|head| head[..4].to_owned())
        .collect();
    assert_eq!(methods, ["GET ", "HEAD"]);
}

#[test]
fn what_cannot_be_tried_is_told() {
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let (folder, conf) = site(free, "");
    let none = tried(&conf, &[]);
    let told = text(&none.stderr);
    assert_eq!(
        (none.status.code(), none.stdout.len()),
        (Some(2), 0),
        "{told}"
    );
    assert!(
        told.contains("does not answer") && told.contains("--old ADDRESS"),
        "{told}"
    );

    let old = Old::start(same);
    let (_folder, conf) = site(old.address, "");
    let list = folder.path().join("list");
    std::fs::write(&list, "no request\n").unwrap();
    for (more, wanted) in [
        (
            ["--requests", "/no/such/file"],
            "cannot read `/no/such/file`",
        ),
        (
            ["--requests", list.to_str().unwrap()],
            "contains no request",
        ),
        (["--crawl", "ftp://x"], "this is not an address"),
        (
            ["--crawl", "http://site.example:1/"],
            "does not listen at the addresses to crawl",
        ),
        (["--field", "no field"], "this is not a header field"),
    ] {
        let failed = tried(&conf, &more);
        let told = text(&failed.stderr);
        assert_eq!(failed.status.code(), Some(2), "{told}");
        assert!(told.contains(wanted), "{told}");
    }
}

#[test]
fn the_server_on_trial_ends_with_the_command() {
    let old = TcpListener::bind("127.0.0.1:0").unwrap();
    let (_folder, conf) = site(old.local_addr().unwrap(), "");
    built("tutti-import");
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGKILL] {
        let mut child = Command::new(built("tutti"))
            .args(["import", "nginx", "--try"])
            .arg(&conf)
            .stderr(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // The first connection asks whether it is there, the second has a request that is never answered.
        let _first = old.accept().unwrap();
        let _second = old.accept().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let all = processes::tree(pid);
        assert!(all.len() > 2, "{all:?}");
        tutti_sys::signal::send(pid, signal).unwrap();
        let ended = child.wait().unwrap();
        assert!(!ended.success());
        processes::wait_until_gone(&all);
    }
}
