//! A CGI script, its operator and its clients may rely on this, through the whole server.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use tutti_e2e::{http3, http3_site};
use tutti_sys::{proc, signal};
use tutti_testkit::client::{self, Client, Reply};
use tutti_testkit::{ServerOptions, Site, files, is_root, processes, skip, wait_until};

/// All that a script sees, one value a line.
const SEEN: &str = r#"#!/usr/bin/perl
use Cwd;
my $body = do { local $/; <STDIN> };
print "Content-Type: text/plain\n\n";
print "$_=$ENV{$_}\n" for sort keys %ENV;
print "arguments ", scalar @ARGV, "\nfolder ", getcwd(), "\nbody $body\n";
opendir my $all, '/proc/self/fd';
print "descriptors ", join(' ', sort grep { /\d/ && -e "/proc/self/fd/$_" } readdir $all), "\n";
"#;

/// Writes what its query names: a file of the folder `says`.
const SAYS: &str = "#!/bin/sh\ncat \"$WORK/says-$QUERY_STRING\"\n";

/// Sends its request's body back.
const ECHO: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nexec cat\n";

/// Tells its number and that of a child with the same output, which both ignore SIGTERM, and waits.
const WAITS: &str = r#"#!/bin/sh
trap '' TERM
sleep 1000 &
echo "$$ $!" >"$WORK/pids.new"; mv "$WORK/pids.new" "$WORK/pids"
printf 'Content-Type: text/plain\n\nwaiting\n'
sleep 1000
"#;

struct CgiSite(Site);

impl std::ops::Deref for CgiSite {
    type Target = Site;

    fn deref(&self) -> &Site {
        &self.0
    }
}

impl CgiSite {
    fn start(scripts: &[(&str, &str)], extra: &Value) -> CgiSite {
        let mut site = Site::new("scripts", &ServerOptions::default());
        let root = site.root();
        fs::create_dir_all(&root).unwrap();
        site.application = json!({
            "type": "cgi", "root": root, "environment": {"WORK": site.work()}
        });
        let site = CgiSite(site);
        for (name, text) in scripts {
            site.script(name, text);
        }
        site.configure(extra);
        site
    }

    fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.root().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        files::script(&path, text);
        path
    }

    /// The answer to a request whose script writes this.
    fn said(&self, method: &str, text: impl AsRef<[u8]>) -> Reply {
        fs::write(self.work().join("says-it"), text).unwrap();
        self.send(method, "/says?it", "", b"")
    }

    /// The numbers that a script has written to the file `pids`.
    fn pids(&self) -> Vec<i32> {
        let file = self.work().join("pids");
        wait_until("the script runs", || file.exists());
        let text = fs::read_to_string(file).unwrap();
        let numbers = text.split_whitespace();
        numbers.map(|number| number.parse().unwrap()).collect()
    }

    fn wait_for_end(&self, pids: &[i32]) {
        for pid in pids {
            wait_until(&format!("process {pid} has ended"), || {
                !processes::is_running(*pid)
            });
        }
    }

    /// No process of the server has ended without being waited for.
    fn wait_for_no_zombie(&self) {
        let state = |pid| proc::stat(pid).ok().map(|stat| stat.state);
        wait_until("all ended processes have been reaped", || {
            let all = self.server.processes();
            all.iter().all(|process| state(process.pid) != Some('Z'))
        });
    }
}

// Requests.

#[test]
fn a_script_gets_its_request_and_nothing_else() {
    let site = CgiSite::start(&[("dir/seen", SEEN)], &json!({"prefix": "/cgi-bin"}));
    let fields = "X-Field: one\r\nx-field: two\r\nCookie: a=1\r\nCookie: b=2\r\nProxy: evil\r\nContent_Length: 9\r\nContent-Type: text/x\r\nAuthorization: Basic eDp5\r\n";
    let target = "/cgi-bin/dir/seen/more%20info/?x=%20y&-d+z";
    let reply = site.send("POST", target, fields, b"a body");
    assert_eq!(reply.status, 200, "{}", reply.text());
    let shown = reply.text();
    let root = fs::canonicalize(site.root()).unwrap();
    let root = root.to_str().unwrap();
    let port = site.server.port();
    let work = site.work();
    let mut names = Vec::new();
    for line in shown.lines().take_while(|line| line.contains('=')) {
        names.push(line.split_once('=').unwrap().0);
    }
    let expected = [
        ("CONTENT_LENGTH", "6"),
        ("CONTENT_TYPE", "text/x"),
        ("DOCUMENT_ROOT", root),
        ("DOCUMENT_URI", "/cgi-bin/dir/seen/more info/"),
        ("GATEWAY_INTERFACE", "CGI/1.1"),
        ("HTTP_AUTHORIZATION", "Basic eDp5"),
        ("HTTP_CONNECTION", "close"),
        ("HTTP_COOKIE", "a=1; b=2"),
        ("HTTP_HOST", "test"),
        ("HTTP_X_FIELD", "one, two"),
        ("PATH", ""),
        ("PATH_INFO", "/more info/"),
        ("PATH_TRANSLATED", &format!("{root}/more info/")),
        ("QUERY_STRING", "x=%20y&-d+z"),
        ("REDIRECT_STATUS", "200"),
        ("REMOTE_ADDR", "127.0.0.1"),
        ("REMOTE_PORT", ""),
        ("REQUEST_METHOD", "POST"),
        ("REQUEST_SCHEME", "http"),
        ("REQUEST_URI", target),
        ("SCRIPT_FILENAME", &format!("{root}/dir/seen")),
        ("SCRIPT_NAME", "/cgi-bin/dir/seen"),
        ("SERVER_ADDR", "127.0.0.1"),
        ("SERVER_NAME", "test"),
        ("SERVER_PORT", &port.to_string()),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
        ("SERVER_SOFTWARE", ""),
        ("WORK", work.to_str().unwrap()),
    ];
    assert_eq!(names, expected.map(|(name, _)| name), "{shown}");
    for (name, value) in expected {
        let begin = format!("{name}={value}");
        let is_there = |line: &str| line == begin || (value.is_empty() && line.starts_with(&begin));
        assert!(shown.lines().any(is_there), "{begin}: {shown}");
    }
    for line in [
        "arguments 0",
        &format!("folder {root}/dir"),
        "body a body",
        // The last is the folder that it reads.
        "descriptors 0 1 2 3",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line}: {shown}");
    }
    let without = site.text("/cgi-bin/dir/seen");
    for name in ["CONTENT_", "PATH_INFO", "PATH_TRANSLATED"] {
        assert!(!without.contains(name), "{without}");
    }
    site.configure(&json!({
        "prefix": "/cgi-bin", "working_directory": "/",
        "environment": {"HTTPS": "on", "REQUEST_SCHEME": "https", "PATH": "/bin"}
    }));
    let shown = site.text("/cgi-bin/dir/seen");
    for line in ["HTTPS=on", "REQUEST_SCHEME=https", "PATH=/bin", "folder /"] {
        assert!(shown.lines().any(|shown| shown == line), "{line}: {shown}");
    }
}

#[test]
fn paths_lead_to_scripts_and_to_nothing_else() {
    let scripts = [
        (
            "hello",
            "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nHello'\n",
        ),
        (".git/hooks/post-update", ECHO),
        (
            "dir/index.cgi",
            "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nIndex'\n",
        ),
    ];
    let site = CgiSite::start(&scripts, &json!({}));
    fs::write(site.root().join("config.php"), "secret").unwrap();
    files::script(&site.server.folder().join("outside"), ECHO);
    for (target, status) in [
        ("/hello", 200),
        ("/hello/", 200),
        ("/dir/", 200),
        ("/dir", 301),
        ("/", 404),
        ("/none", 404),
        ("/config.php", 403),
        ("/config.php/hello", 403),
        ("/.git/hooks/post-update", 404),
        ("/hello%00", 400),
        ("/dir/%2e%2e/%2e%2e/outside", 400),
        ("/dir/..%2f..%2foutside", 400),
    ] {
        let reply = site.get(target);
        assert_eq!(reply.status, status, "{target}: {}", reply.text());
        let text = reply.text();
        assert!(!text.contains("secret") && !text.contains("#!"), "{text}");
    }
    let reply = site.get("/dir?a=b&c");
    assert_eq!(
        reply.field("Location"),
        Some("/dir/?a=b&c"),
        "{}",
        reply.head
    );
    // A file without an interpreter fails, and the log says why.
    let script = site.script("broken", "no program\n");
    assert_eq!(site.get("/broken").status, 500);
    site.server
        .wait_for_log("its first line must name its interpreter");
    files::script(&script, "#!/no/such/interpreter\n");
    assert_eq!(site.get("/broken").status, 500);
    site.server
        .wait_for_log("the interpreter that its first line names does not exist");
}

/// `targets`, `script` and `extensions`, each with its own part of the paths.
#[test]
fn entry_points_have_their_own_scripts() {
    let site = CgiSite::start(&[("seen", SEEN), ("stats/seen.pl", SEEN)], &json!({}));
    let root = site.root();
    let mut configuration = site.configuration(&json!({}));
    configuration["applications"]["scripts"] = json!({"type": "cgi", "targets": {
        "git": {"root": root, "script": "seen", "prefix": "/git"},
        "stats": {"root": root.join("stats"), "extensions": [".pl"]},
    }});
    let listener = configuration["listeners"]
        .as_object()
        .unwrap()
        .keys()
        .next()
        .unwrap()
        .clone();
    configuration["listeners"][&listener] = json!({"pass": "routes"});
    configuration["routes"] = json!([
        {"match": {"uri": "/git*"}, "action": {"pass": "applications/scripts/git"}},
        {"action": {"pass": "applications/scripts/stats"}}
    ]);
    site.server.put("/config", &configuration);
    for (target, lines) in [
        (
            "/git/a.git/info",
            ["SCRIPT_NAME=/git", "PATH_INFO=/a.git/info"],
        ),
        ("/git/seen/x", ["SCRIPT_NAME=/git/seen", "PATH_INFO=/x"]),
        ("/seen.pl/x", ["SCRIPT_NAME=/seen.pl", "PATH_INFO=/x"]),
    ] {
        let shown = site.text(target);
        for line in lines {
            assert!(
                shown.lines().any(|shown| shown == line),
                "{target}: {line}: {shown}"
            );
        }
    }
    assert_eq!(site.get("/seen").status, 404);
    let refused = site.server.call(
        "PUT",
        "/config/applications/scripts/targets/git/root",
        &json!("/no/such/folder"),
    );
    assert_eq!(refused.status, 500, "{}", refused.text());
    let text = refused.text();
    assert!(
        text.contains("targets/git/root") && text.contains("create the folder"),
        "{text}"
    );
}

/// Issue 31: a user that `authenticate` has admitted. No client can name itself another.
#[test]
fn a_script_gets_the_name_of_an_authenticated_user() {
    let script = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n%s' \"${REMOTE_USER-none}\"\n";
    let site = CgiSite::start(&[("user", script)], &json!({}));
    let mut configuration = site.configuration(&json!({}));
    let listener = configuration["listeners"]
        .as_object()
        .unwrap()
        .keys()
        .next()
        .unwrap()
        .clone();
    configuration["listeners"][&listener] = json!({"pass": "routes"});
    let hash = Command::new("openssl")
        .args(["passwd", "-6", "word"])
        .output()
        .unwrap();
    let hash = String::from_utf8(hash.stdout).unwrap();
    let basic = json!({"users": {"anna": hash.trim()}});
    configuration["routes"] = json!([
        {"match": {"query": "private"}, "action": {"pass": "applications/scripts", "authenticate": {"basic": basic}}},
        {"action": {"pass": "applications/scripts"}}
    ]);
    let forged = "Remote-User: root\r\nRemote_User: root\r\n";
    let unchecked = format!("{forged}Authorization: Basic YW5uYTp3b3Jk\r\n");
    assert_eq!(site.send("GET", "/user", &unchecked, b"").text(), "none");
    site.server.put("/config", &configuration);
    assert_eq!(site.send("GET", "/user", &unchecked, b"").text(), "none");
    assert_eq!(site.send("GET", "/user?private", forged, b"").status, 401);
    let reply = site.send("GET", "/user?private", &unchecked, b"");
    assert_eq!((reply.status, reply.text().as_str()), (200, "anna"));
}

// Answers.

#[test]
fn heads_become_the_clients() {
    let site = CgiSite::start(&[("says", SAYS)], &json!({}));
    for (text, status, field, body) in [
        (
            "Content-Type: text/x\n\nbody\n",
            200,
            ("Content-Type", "text/x"),
            "body\n",
        ),
        (
            "Content-Type: text/x \t\r\n\r\nbody",
            200,
            ("Content-Type", "text/x"),
            "body",
        ),
        (
            "Content-Type:text/x\r\nX-Mixed: a\n\nbody",
            200,
            ("X-Mixed", "a"),
            "body",
        ),
        (
            "Status: 404\nContent-Type: text/x\n\ngone",
            404,
            ("Content-Type", "text/x"),
            "gone",
        ),
        (
            "status: 503 Out of order\nRetry-After: 5\n\n",
            503,
            ("Retry-After", "5"),
            "",
        ),
        (
            "Location: http://example.org/a?b\n\n",
            302,
            ("Location", "http://example.org/a?b"),
            "",
        ),
        // RFC 3875 §6.2.2 would have the server answer for `/there` itself; the client is sent there instead.
        ("Location: /there?a\n\n", 302, ("Location", "/there?a"), ""),
        (
            "Status: 301\nLocation: /there\n\n",
            301,
            ("Location", "/there"),
            "",
        ),
        (
            "Status: 201\nLocation: /there\nContent-Type: text/x\n\nmade",
            201,
            ("Location", "/there"),
            "made",
        ),
        ("Status: 204\nX-A: 1\n\nnothing", 204, ("X-A", "1"), ""),
        ("Status: 304\nETag: \"a\"\n\n", 304, ("ETag", "\"a\""), ""),
        (
            "Content-Length: 4\nContent-Type: text/x\n\nbodyandmore",
            200,
            ("Content-Length", "4"),
            "body",
        ),
        (
            "Transfer-Encoding: chunked\nConnection: close\nContent-Type: text/x\n\nbody",
            200,
            ("Content-Type", "text/x"),
            "body",
        ),
    ] {
        let reply = site.said("GET", text);
        assert_eq!(
            (reply.status, reply.text().as_str()),
            (status, body),
            "{text:?}"
        );
        assert_eq!(
            reply.field(field.0),
            Some(field.1),
            "{text:?}: {}",
            reply.head
        );
        assert_eq!(reply.field("Status"), None, "{}", reply.head);
    }
    let reply = site.said(
        "GET",
        "Content-Type: text/x\nSet-Cookie: a=1\nSet-Cookie: b=2\n\n",
    );
    let cookies = reply.head.matches("Set-Cookie: ").count();
    assert_eq!(cookies, 2, "{}", reply.head);
    let reply = site.said(
        "HEAD",
        "Content-Type: text/x\nContent-Length: 9\n\nnot sent!",
    );
    assert_eq!((reply.status, reply.body.len()), (200, 0));
    assert_eq!(reply.field("Content-Length"), Some("9"), "{}", reply.head);
    let log = site.server.log();
    assert!(!log.contains("the script `"), "{log}");
}

#[test]
fn an_answer_without_a_good_head_is_502_and_logged() {
    let site = CgiSite::start(&[("says", SAYS)], &json!({}));
    let long = format!("Content-Type: text/x\nX-Long: {}\n\n", "x".repeat(70_000));
    let many = format!("Content-Type: text/x\n{}\n", "X-Many: 1\n".repeat(1100));
    let texts: [(&[u8], &str); 14] = [
        (b"", "it wrote nothing, and exited with code 0"),
        (b"Content-Type: text/x\n", "has no empty line at its end"),
        (b"Content-Type: text/x\nX", "has no empty line at its end"),
        (b"Hello\n\n", "it begins with \\\"Hello\\\""),
        (
            b"HTTP/1.1 200 OK\r\nContent-Type: a/b\r\n\r\n",
            "writes `Status: 200` in place of a status line",
        ),
        (b"sh: not found\n\n", "has none of the fields"),
        (b"\n\nbody", "has none of the fields"),
        (b"Status: 99\n\n", "it does not begin with a CGI head"),
        (b"Status: 101\n\n", "it does not begin with a CGI head"),
        (b"Status: 2000\n\n", "it does not begin with a CGI head"),
        (
            b"Content-Type: a\0b\n\n",
            "it does not begin with a CGI head",
        ),
        (
            b"Content-Length: 1\nContent-Length: 2\nContent-Type: a/b\n\nxx",
            "it does not begin with a CGI head",
        ),
        (long.as_bytes(), "it does not begin with a CGI head"),
        (many.as_bytes(), "it does not begin with a CGI head"),
    ];
    for (text, reason) in texts {
        let before = site.server.log().len();
        let reply = site.said("GET", text);
        let shown = String::from_utf8_lossy(text.get(..40).unwrap_or(text)).into_owned();
        assert_eq!(reply.status, 502, "{shown:?}: {}", reply.text());
        wait_until(&format!("{shown:?} is logged with `{reason}`"), || {
            let log = site.server.log().split_off(before);
            let mut lines = log.lines();
            lines.any(|line| {
                line.contains("GET /says?it: the script `")
                    && line.contains("/says` failed")
                    && line.contains(&reason.replace("\\\"", "\""))
            })
        });
    }
    site.wait_for_no_zombie();
}

/// Whatever shows only in the middle of an answer breaks it off, so that it does not look whole.
#[test]
fn an_answer_that_is_cut_short_does_not_look_whole() {
    let begin = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nbegun'\n";
    let scripts = [
        ("killed", format!("{begin}kill -KILL $$\n")),
        (
            "short",
            "#!/bin/sh\nprintf 'Content-Type: text/plain\\nContent-Length: 10\\n\\nbegun'\n"
                .to_owned(),
        ),
        ("code", format!("{begin}exit 3\n")),
    ];
    let scripts = scripts
        .each_ref()
        .map(|(name, text)| (*name, text.as_str()));
    let site = CgiSite::start(&scripts, &json!({}));
    for (target, reason) in [
        (
            "/killed",
            "it exited on signal 9 (SIGKILL) during its response",
        ),
        ("/short", "5 bytes short of its `Content-Length`"),
    ] {
        let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let bytes = client::raw(site.server.address(), request.as_bytes());
        let text = String::from_utf8(bytes.unwrap_or_default()).unwrap();
        let is_whole = text.ends_with("0\r\n\r\n") || text.ends_with("begun12345");
        assert!(!is_whole, "{text}");
        site.server.wait_for_log(reason);
    }
    assert_eq!(site.text("/code"), "begun");
    site.server
        .wait_for_log("exited with code 3 after its answer");
}

#[test]
fn bodies_go_both_ways_at_once_and_need_not_be_read() {
    let ignores = "#!/bin/sh\nexec <&-\nprintf 'Content-Type: text/plain\\n\\nignored'\n";
    let scripts = [
        ("echo", ECHO),
        ("ignores", ignores),
        (
            "never",
            "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nnever'\n",
        ),
    ];
    let site = CgiSite::start(&scripts, &json!({}));
    let body: Vec<u8> = (0..5_000_000).map(|at| (at % 251) as u8).collect();
    for is_buffered in [true, false] {
        let option = "/config/applications/scripts/request_buffering";
        site.server.put(option, &json!(is_buffered));
        let reply = site.send("POST", "/echo", "", &body);
        assert!(reply.body == body, "{} bytes came back", reply.body.len());
        assert_eq!(site.send("POST", "/ignores", "", &body).text(), "ignored");
        assert_eq!(site.send("POST", "/never", "", &body).text(), "never");
    }
}

/// More than any buffer holds, for a client that is slow: the worker keeps none of it.
#[test]
fn a_large_answer_is_never_in_the_workers_memory() {
    const SIZE: usize = 300 << 20;
    let script = format!(
        "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nexec head -c {SIZE} /dev/zero\n"
    );
    let site = CgiSite::start(&[("large", &script)], &json!({}));
    let mut client = Client::to(site.server.address());
    client.send("GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_eq!(client.head().status, 200);
    let [worker] = site.server.workers("scripts").try_into().unwrap();
    let (mut count, mut most) = (0, 0);
    while let Some(chunk) = client.chunk() {
        count += chunk.len();
        most = most.max(proc::rss(worker).unwrap());
    }
    assert_eq!(count, SIZE);
    assert!(most < 32 << 20, "{most} bytes");
}

#[test]
fn every_version_of_http_gets_the_same() {
    let server = http3_site::bare();
    let script = server.folder().join("scripts/seen");
    fs::create_dir(script.parent().unwrap()).unwrap();
    files::script(&script, SEEN);
    server.put(
        "/config",
        &json!({
            "listeners": http3_site::listeners(&server, "applications/scripts", &json!(true)),
            "applications": {"scripts": {"type": "cgi", "root": server.folder().join("scripts")}}
        }),
    );
    http3_site::run(async {
        let mut client = http3::Http3Client::connect(server.port()).await;
        let answer = client.get("/seen/a").await.unwrap();
        assert_eq!(answer.status.as_u16(), 200);
        for line in ["SERVER_PROTOCOL=HTTP/3.0", "PATH_INFO=/a", "HTTPS=on"] {
            assert!(
                answer.text().lines().any(|shown| shown == line),
                "{line}: {}",
                answer.text()
            );
        }
    });
    let output = Command::new("curl")
        .args(["-sk", "--http2", "--max-time", "60", "-d", "x=1"])
        .arg(format!("https://localhost:{}/seen", server.port()))
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    for line in ["SERVER_PROTOCOL=HTTP/2.0", "CONTENT_LENGTH=3", "body x=1"] {
        assert!(shown.lines().any(|shown| shown == line), "{line}: {shown}");
    }
}

/// A script names what the server is to send, as any application does.
#[test]
fn an_internal_redirect_is_followed() {
    let script = "#!/bin/sh\nprintf 'Content-Type: text/x\\nX-Accel-Redirect: /files/a\\n\\n'\n";
    let site = CgiSite::start(&[("redirects", script)], &json!({}));
    let mut configuration = site.configuration(&json!({}));
    let listener = configuration["listeners"]
        .as_object()
        .unwrap()
        .keys()
        .next()
        .unwrap()
        .clone();
    configuration["listeners"][&listener] = json!({"pass": "routes/site"});
    configuration["routes"] = json!({
        "site": [{"action": {"pass": "applications/scripts", "internal": "routes/files"}}],
        "files": [{"action": {"return": 200, "body": "the file $uri"}}]
    });
    site.server.put("/config", &configuration);
    assert_eq!(site.text("/redirects"), "the file /files/a");
}

/// A client that has the whole answer does not end the script by leaving.
#[test]
fn a_script_may_finish_its_work_when_its_answer_is_whole() {
    let works = "#!/bin/sh\nprintf 'Status: 204\\n\\n'\nexec >&-\nsleep 0.3\n: >\"$WORK/done\"\n";
    let site = CgiSite::start(&[("works", works)], &json!({}));
    assert_eq!(site.get("/works").status, 204);
    let file = site.work().join("done");
    wait_until("the script has finished", || file.exists());
}

// Processes.

/// Its child holds the output open, and would hold the client.
#[test]
fn what_a_script_leaves_behind_ends_with_it_unless_it_has_left_the_group() {
    let leaves = r#"#!/bin/sh
printf 'Content-Type: text/plain\n\n'
sleep 1000 &
setsid sh -c 'exec sleep 1000' >/dev/null 2>&1 </dev/null &
echo "$$ $!"
while [ "$(cut -d ' ' -f 5 /proc/$!/stat)" = "$$" ]; do :; done
echo "$(cat /proc/$$/task/$$/children)"
"#;
    let site = CgiSite::start(&[("leaves", leaves)], &json!({}));
    let reply = site.get("/leaves");
    assert_eq!(reply.status, 200, "{}", reply.text());
    let text = reply.text();
    let (first, second) = text.split_once('\n').unwrap();
    let numbers = |line: &str| -> Vec<i32> {
        line.split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect()
    };
    let [script, daemon] = numbers(first).try_into().unwrap();
    let mut group = numbers(second);
    group.retain(|pid| *pid != daemon);
    group.push(script);
    assert!(group.len() >= 2, "{text}");
    site.wait_for_end(&group);
    assert!(processes::is_running(daemon), "{text}");
    // It is an orphan of the worker, which waits for its end.
    signal::send(daemon, libc::SIGKILL).unwrap();
    site.wait_for_no_zombie();
    // One that is there when the application goes ends with it.
    let text = site.text("/leaves");
    let [_, daemon] = numbers(text.lines().next().unwrap()).try_into().unwrap();
    site.server
        .put("/config", &json!({"listeners": {}, "applications": {}}));
    site.wait_for_end(&[daemon]);
}

#[test]
fn a_client_that_goes_ends_its_script() {
    let site = CgiSite::start(&[("waits", WAITS)], &json!({}));
    let mut client = Client::to(site.server.address());
    client.send("GET /waits HTTP/1.1\r\nHost: a\r\n\r\n");
    client.read_until("waiting");
    let pids = site.pids();
    client.reset();
    site.wait_for_end(&pids);
    site.server
        .wait_for_log("was stopped: the client disconnected");
    site.wait_for_no_zombie();
}

#[test]
fn a_request_that_takes_too_long_ends_its_script_and_no_worker() {
    // Nothing is sent, so that the client can be answered.
    let waits = WAITS.replace("printf", ": printf");
    let limits = json!({"limits": {"timeout": 3}});
    let site = CgiSite::start(&[("waits", &waits), ("echo", ECHO)], &limits);
    assert_eq!(site.send("POST", "/echo", "", b"here").text(), "here");
    let workers = site.server.workers("scripts");
    let reply = site.get("/waits");
    assert_eq!(reply.status, 504, "{}", reply.text());
    site.wait_for_end(&site.pids());
    site.server.wait_for_log("/waits` (process ");
    site.wait_for_no_zombie();
    site.server
        .put("/config/applications/scripts/limits/timeout", &json!(60));
    assert_eq!(site.send("POST", "/echo", "", b"here").text(), "here");
    assert_eq!(site.server.workers("scripts"), workers);
}

/// A worker's end, whatever its reason, is that of its script.
#[test]
fn a_worker_that_is_killed_takes_its_script_with_it() {
    let site = CgiSite::start(&[("waits", WAITS)], &json!({}));
    let mut client = Client::to(site.server.address());
    client.send("GET /waits HTTP/1.1\r\nHost: a\r\n\r\n");
    client.read_until("waiting");
    let pids = site.pids();
    for worker in site.server.workers("scripts") {
        signal::send(worker, libc::SIGKILL).unwrap();
    }
    site.wait_for_end(&pids);
    site.wait_for_no_zombie();
}

#[test]
fn a_script_that_takes_too_much_memory_is_killed_and_nothing_else() {
    // Its child has the memory.
    let grows = "#!/bin/sh\nperl -e '$all = \"x\" x (300 << 20); sleep 1000'\n";
    let members = json!({"limits": {"memory_max": "150M"}});
    let site = CgiSite::start(&[("grows", grows), ("echo", ECHO)], &members);
    assert_eq!(site.send("POST", "/echo", "", b"here").text(), "here");
    let workers = site.server.workers("scripts");
    assert_eq!(site.get("/grows").status, 502);
    site.server
        .wait_for_log("more than `limits.memory_max`, and are killed");
    site.wait_for_no_zombie();
    assert_eq!(site.server.workers("scripts"), workers);
}

/// Forks twice, so that its grandchild has a session of its own and no parent, and writes the number of that one.
const DAEMON: &str = r#"#!/usr/bin/perl
use POSIX;
unless (fork) {
    POSIX::setsid();
    exit if fork;
    open STDOUT, '>', '/dev/null';
    open STDERR, '>', '/dev/null';
    open my $out, '>', "$ENV{WORK}/pids.new";
    print $out "$$ ", getppid();
    close $out;
    rename "$ENV{WORK}/pids.new", "$ENV{WORK}/pids";
    my $all = 'x' x ($ENV{QUERY_STRING} << 20);
    sleep 1000;
}
wait;
select undef, undef, undef, 0.01 until -e "$ENV{WORK}/pids";
sleep 1000 if $ENV{QUERY_STRING} > 200;
print "Content-Type: text/plain\n\ndone";
"#;

/// A process that forks twice was counted by no limit, and outlived its request.
#[test]
fn a_process_that_has_left_its_script_counts_and_ends_with_the_request() {
    let members = json!({"limits": {"memory_max": "150M"}});
    let site = CgiSite::start(&[("daemon", DAEMON), ("echo", ECHO)], &members);
    assert_eq!(site.send("POST", "/echo", "", b"here").text(), "here");
    let workers = site.server.workers("scripts");
    assert_eq!(site.get("/daemon?300").status, 502);
    site.server
        .wait_for_log("more than `limits.memory_max`, and are killed");
    site.wait_for_end(&site.pids()[..1]);
    fs::remove_file(site.work().join("pids")).unwrap();
    // A small one ends before its client has the whole response.
    let reply = site.get("/daemon?1");
    assert_eq!((reply.status, reply.text().as_str()), (200, "done"));
    assert!(!processes::is_running(site.pids()[0]));
    site.wait_for_no_zombie();
    assert_eq!(site.server.workers("scripts"), workers);
}

/// The end of one script is not that of another one's processes.
#[test]
fn processes_of_a_running_script_are_its_own() {
    let members = json!({"processes": 1, "limits": {"memory_max": "900M", "concurrency": 2}});
    let site = CgiSite::start(&[("daemon", DAEMON), ("echo", ECHO)], &members);
    let mut client = Client::to(site.server.address());
    client.send("GET /daemon?201 HTTP/1.1\r\nHost: a\r\n\r\n");
    let daemon = site.pids()[0];
    assert_eq!(site.send("POST", "/echo", "", b"here").text(), "here");
    assert!(processes::is_running(daemon));
    client.reset();
    site.wait_for_end(&[daemon]);
    site.wait_for_no_zombie();
}

/// As many scripts as processes, or as `limits.concurrency` allows each of them; other requests wait.
#[test]
fn no_more_scripts_run_at_once_than_the_limits_allow() {
    let waits = "#!/bin/sh\n: >\"$WORK/$QUERY_STRING\"\nuntil [ -e \"$WORK/go\" ]; do sleep 0.01; done\nprintf 'Content-Type: text/plain\\n\\ndone'\n";
    let two = [
        json!({"processes": 2}),
        json!({"processes": 1, "limits": {"concurrency": 2}}),
    ];
    for members in two {
        let site = CgiSite::start(&[("waits", waits)], &members);
        let mut clients = Vec::new();
        for number in 1..=3 {
            let mut client = Client::to(site.server.address());
            client.send(format!(
                "GET /waits?{number} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
            ));
            clients.push(client);
        }
        let begun = || (1..=3).filter(|number| site.work().join(number.to_string()).exists());
        wait_until("two have begun, and the third one waits", || {
            let status = site.server.status("/applications/scripts/requests");
            begun().count() == 2 && status["queued"] == 1
        });
        fs::write(site.work().join("go"), "").unwrap();
        for client in &mut clients {
            assert_eq!(client.response("GET").text(), "done");
        }
    }
}

#[test]
fn a_namespace_of_its_own_is_enough_for_scripts() {
    if !is_root() {
        skip!("namespaces need root");
    }
    let orphan = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n%s ' $PPID\n(sleep 0.01 &) >/dev/null 2>&1\nid -un\n";
    let members =
        json!({"user": "daemon", "isolation": {"namespaces": {"pid": true, "network": true}}});
    let site = CgiSite::start(&[("orphan", orphan), ("waits", WAITS)], &members);
    for _ in 0..5 {
        let text = site.text("/orphan");
        assert!(text.ends_with(" daemon\n"), "{text}");
    }
    fs::set_permissions(
        site.work(),
        std::os::unix::fs::PermissionsExt::from_mode(0o777),
    )
    .unwrap();
    let mut client = Client::to(site.server.address());
    client.send("GET /waits HTTP/1.1\r\nHost: a\r\n\r\n");
    client.read_until("waiting");
    let is_sleep = |process: &processes::Process| process.title.contains("sleep 1000");
    wait_until("the script sleeps", || {
        site.server.processes().iter().any(is_sleep)
    });
    client.reset();
    wait_until("the script has ended", || {
        !site.server.processes().iter().any(is_sleep)
    });
    site.wait_for_no_zombie();
}

#[test]
fn what_cannot_be_started_is_refused_with_its_place() {
    let site = CgiSite::start(&[("echo", ECHO)], &json!({}));
    fs::write(site.root().join("text"), "").unwrap();
    for (members, pointer, text) in [
        (
            json!({"root": "/no/such/folder"}),
            "/applications/scripts/root",
            "create the folder",
        ),
        (
            json!({"script": "none"}),
            "/applications/scripts/script",
            "there is no such file",
        ),
        (
            json!({"script": "text"}),
            "/applications/scripts/script",
            "chmod +x",
        ),
    ] {
        let refused = site.refused(&members).to_string();
        assert!(
            refused.contains(pointer) && refused.contains(text),
            "{refused}"
        );
    }
}
