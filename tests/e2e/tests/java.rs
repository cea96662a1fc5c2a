//! A web application and its operator may rely on this, through the whole server. Servers are shared where that is possible: a virtual machine
//! takes a second to start.

use std::fs;
use std::io::{Read, Write};

use serde_json::{Value, json};
use tutti_e2e::java::{JavaSite, application, class_path, compile_to, pack};
use tutti_e2e::read_until;
use tutti_testkit::files::copy;
use tutti_testkit::{PATIENCE, client, wait_until};

fn site(extra: &Value) -> JavaSite {
    JavaSite::start("jakarta", extra)
}

// Requests and answers.

/// Issue 28, 1.4: Jetty drops parameters, so `/q;/env` was `/q/env` and no `/q/*`.
fn parameters(site: &JavaSite) {
    for refused in [
        "/q;/env",
        "/q;jsessionid=1/env",
        "/q/env;a=b",
        "/;a=b/q/env",
        "/q/env;jsessionid=1;a",
    ] {
        assert_eq!(site.get(refused).status, 400, "{refused}");
    }
    let env = site.get("/q/env;jsessionid=1").json();
    assert_eq!(env["path"], "/env");
    assert_eq!(site.get("/q/env?a;b").status, 200);
    // Each refusal ended with an exception in the log, whose lines come in order.
    assert_eq!(site.text("/q/logs"), "logged");
    site.wait_for_log("to standard output");
    let log = site.server.log();
    assert!(!log.contains("NullPointerException"), "{log}");
}

/// Found by `CookieTests.getValueQuotedTest` of the Servlet TCK: what Jetty notes about such cookies ended with an exception, and 500.
fn cookies_in_quotes(site: &JavaSite) {
    for (field, cookies) in [("a=\"1\"", "a=1"), ("a=\"1\"; b=2", "a=1|b=2")] {
        let env = site.send("GET", "/q/env", &format!("Cookie: {field}\r\n"), b"");
        assert_eq!(env.status, 200, "{field}");
        assert_eq!(env.json()["cookies"], cookies, "{field}");
    }
}

#[test]
fn parameters_of_a_path_are_taken_where_that_is_configured() {
    let site = site(&json!({"path_parameters": true}));
    let env = site.get("/q;a=b/env").json();
    assert_eq!(env["path"], "/env");
}

#[test]
fn javax_and_jakarta_get_the_same_request() {
    for (name, major) in [("javax", "4"), ("jakarta", "6")] {
        let site = JavaSite::start(name, &json!({}));
        let fields = "X-Field: one\r\nx-field: two\r\nCookie: a=1\r\nCookie: b=2\r\nContent-Type: text/x\r\n";
        let env = site.send("POST", "/q/env?x=%20y", fields, b"body").json();
        let port = site.server.port().to_string();
        for (name, value) in [
            ("method", "POST"),
            ("uri", "/q/env"),
            ("url", "http://test/q/env"),
            ("context", ""),
            ("servlet", "/q"),
            ("path", "/env"),
            ("query", "x=%20y"),
            ("protocol", "HTTP/1.1"),
            ("scheme", "http"),
            ("secure", "false"),
            ("server", "test"),
            ("server_port", "80"),
            ("remote", "127.0.0.1"),
            ("has_remote_port", "true"),
            ("local_port", &port),
            ("type", "text/x"),
            ("length", "4"),
            ("parameter", " y"),
            ("fields", "one|two"),
            ("cookies", "a=1|b=2"),
            ("major", major),
            ("encoding", "UTF-8"),
        ] {
            assert_eq!(env[name], value, "{name}: {env}");
        }
        let reply = client::request(site.server.address(), b"GET /q/env HTTP/1.0\r\n\r\n");
        let env = reply.unwrap().json();
        assert_eq!(env["protocol"], "HTTP/1.0");
        let env = site.get("/a/../q/./env").json();
        assert_eq!(
            (&env["servlet"], &env["path"]),
            (&json!("/q"), &json!("/env"))
        );
        for target in ["/q/a%2fb", "/a/%2e%2e/q/env"] {
            assert_eq!(
                site.get(target).status,
                400,
                "{target}: what Jetty refuses too"
            );
        }
        parameters(&site);
        cookies_in_quotes(&site);
        answers(&site);
        places_and_dispatchers(&site);
        a_field_that_cannot_be_sent(&site);
        pages_and_files(&site);
        assert_eq!(
            site.text("/q/hidden"),
            "no no no ",
            "what is ours is hidden"
        );
    }
}

fn answers(site: &JavaSite) {
    let reply = site.get("/q/fields");
    let head = reply.head.to_ascii_lowercase();
    for line in [
        "x-many: one\r\n",
        "x-many: two\r\n",
        "set-cookie: a=1\r\n",
        "set-cookie: b=2\r\n",
        "content-length: 5\r\n",
    ] {
        assert!(head.contains(line), "{head}");
    }
    assert_eq!((reply.status, reply.text().as_str()), (201, "caf\u{e9}"));
    assert_eq!(site.get("/q/letter").field("X-Letter"), Some("a?b"));
    assert_eq!(site.get("/q/error").status, 403);
    let reply = site.get("/q/redirect");
    assert_eq!(
        (reply.status, reply.field("Location")),
        (302, Some("/q/hello"))
    );
    let reply = site.send("HEAD", "/q/hello", "", b"");
    assert_eq!(
        (reply.body.len(), reply.field("Content-Length")),
        (0, Some("5"))
    );
    let reply = site.get("/q/large?size=3000000");
    let expected: Vec<u8> = (0..3_000_000_u32)
        .map(|index| (index % 251) as u8)
        .collect();
    assert!(reply.body == expected, "{} bytes", reply.body.len());
    let first = site.get("/q/session");
    assert_eq!(first.text(), "visit 1");
    let cookie = first
        .field("Set-Cookie")
        .unwrap()
        .split(';')
        .next()
        .unwrap()
        .to_owned();
    let again = site.send("GET", "/q/session", &format!("Cookie: {cookie}\r\n"), b"");
    assert_eq!(again.text(), "visit 2");
}

/// Issue 28: the page was empty, and nothing was logged.
fn a_field_that_cannot_be_sent(site: &JavaSite) {
    let reply = site.get("/q/cyrillic");
    assert_eq!(
        (reply.status, reply.text().as_str()),
        (500, "500 Internal Server Error\n")
    );
    site.wait_for_log("GET /q/cyrillic: the response cannot be sent");
}

/// Issue 28: places that are not there were null or empty, and a response stayed open.
fn places_and_dispatchers(site: &JavaSite) {
    let text = site.text("/q/places");
    let mut lines = text.lines();
    let root = lines.next().unwrap().trim_end_matches('/');
    assert_eq!(lines.next(), Some(format!("{root}/not/yet").as_str()));
    assert_eq!(lines.next(), Some("[/files/file.txt]"));
    assert_eq!(lines.next(), Some("null"));
    assert_eq!(site.text("/q/named"), "by its name");
    let reply = site.get("/q/attributes");
    assert_eq!(reply.text(), "gone");
    let kind = reply.field("Content-Type");
    assert_eq!(kind, Some("text/plain;charset=iso-8859-1"));
}

/// Issue 28 (Servlet 6.0 §10.10): a servlet could be no welcome file, and filters were passed by.
#[test]
fn welcome_files_are_as_if_they_had_been_asked_for() {
    for (name, jetty, namespace) in [
        (
            "javax",
            "ee8",
            "xmlns='http://xmlns.jcp.org/xml/ns/javaee' version='4.0'",
        ),
        (
            "jakarta",
            "ee10",
            "xmlns='https://jakarta.ee/xml/ns/jakartaee' version='6.0'",
        ),
    ] {
        let site = JavaSite::bare(name);
        let folder = site.server.folder().join("welcome");
        copy(&application(name), &folder);
        let files = ["q/hello", "file.txt", "none.jsp"]
            .map(|file| format!("<welcome-file>{file}</welcome-file>"))
            .concat();
        let descriptor = format!(
            "<web-app {namespace}><welcome-file-list>{files}</welcome-file-list></web-app>"
        );
        fs::write(folder.join("WEB-INF/web.xml"), descriptor).unwrap();
        fs::create_dir(folder.join("empty")).unwrap();
        site.configure(&json!({"webapp": folder}));
        for (target, text) in [
            ("/", "hello"),
            ("/files/", "a file\n"),
            ("/q/hello", "hello"),
        ] {
            let reply = site.get(target);
            assert_eq!(reply.text(), text, "{name} {target}: {}", site.server.log());
            assert_eq!(reply.field("X-Filtered"), Some("yes"), "{name} {target}");
        }
        // A page that is not there is none.
        assert_eq!(site.get("/empty/").status, 403);
        // Issue 33: an application with a context path of its own had no welcome files that are servlets.
        let context = format!(
            "<!DOCTYPE Configure PUBLIC '-//Jetty//Configure//EN' 'https://jetty.org/configure_10_0.dtd'>\n\
            <Configure class='org.eclipse.jetty.{jetty}.webapp.WebAppContext'><Set name='contextPath'>/shop</Set></Configure>"
        );
        fs::write(folder.join("WEB-INF/jetty-web.xml"), context).unwrap();
        site.configure(&json!({"webapp": folder, "options": ["-Dplace=shop"]}));
        assert_eq!(site.text("/shop/"), "hello", "{}", site.server.log());
        assert_eq!(site.text("/shop/files/"), "a file\n");
        assert_eq!(site.get("/").status, 404);
    }
}

fn pages_and_files(site: &JavaSite) {
    let reply = site.get("/page.jsp?word=said");
    assert_eq!(reply.text().trim(), "1 2 3 said", "{}", site.server.log());
    assert_eq!(site.text("/files/file.txt"), "a file\n");
    assert_eq!(site.get("/files/").status, 403, "folders are not listed");
    for target in [
        "/WEB-INF/classes/Life.class",
        "/web-inf/classes/Life.class",
        "/none",
    ] {
        assert_eq!(site.get(target).status, 404, "{target}");
    }
}

#[test]
fn bodies_of_every_kind_are_read() {
    for (name, buffering) in [("jakarta", true), ("jakarta", false), ("javax", false)] {
        let site = JavaSite::start(name, &json!({"request_buffering": buffering}));
        for length in [0, 1, 4000, 2_000_000] {
            let body: Vec<u8> = (0..length)
                .map(|index: u32| b'a' + (index % 23) as u8)
                .collect();
            let fields = "Transfer-Encoding: chunked\r\n";
            let target = "/q/digest HTTP/1.1\r\nHost: test\r\nConnection: close\r\n";
            let head = format!("POST {target}{fields}\r\n");
            let bytes = [head.as_bytes(), &client::chunked(&body, 7000)].concat();
            let by_chunks = client::request(site.server.address(), &bytes).unwrap();
            let whole = site.post("/q/digest", &body).text();
            assert_eq!(by_chunks.text(), whole);
            assert!(whole.starts_with(&format!("{length} ")), "{whole}");
            let back = site.post("/q/listener", &body);
            assert!(back.body == body, "{} of {length}", back.body.len());
        }
        let mut upload = b"--b\r\nContent-Disposition: form-data; name=\"word\"\r\n\r\ntune\r\n--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n".to_vec();
        upload.resize(upload.len() + 100_000, b'x');
        upload.extend_from_slice(b"\r\n--b--\r\n");
        let fields = "Content-Type: multipart/form-data; boundary=b\r\n";
        let reply = site.send("POST", "/q/form", fields, &upload);
        assert_eq!(reply.text(), "tune 100000", "{}", site.server.log());
        let fields = "Content-Type: application/x-www-form-urlencoded\r\n";
        assert_eq!(
            site.send("POST", "/q/form", fields, b"word=t%2F").text(),
            "t/ "
        );
        if !buffering {
            reads_while_it_writes(&site);
        }
    }
}

fn reads_while_it_writes(site: &JavaSite) {
    let mut stream = site.connect();
    stream
        .write_all(b"POST /q/echo HTTP/1.1\r\nHost: test\r\nContent-Length: 10\r\n\r\none\n")
        .unwrap();
    read_until(&mut stream, "<one>");
    stream.write_all(b"two\nx\n").unwrap();
    read_until(&mut stream, "<x>");
}

#[test]
fn answers_are_streamed_and_go_on_without_a_thread() {
    // One thread: what waits without it must not keep it.
    let site = site(&json!({}));
    let mut waits = site.open("/q/async");
    site.wait_for_note("async", "begun");
    assert_eq!(site.text("/q/hello"), "hello");
    assert_eq!(site.text("/q/dispatched"), "dispatched");
    assert_eq!(
        site.get("/q/timeout").status,
        500,
        "by the servlet API's own rule"
    );

    let mut abandoned = site.open("/q/abandoned");
    read_until(&mut abandoned, "waiting");
    drop(abandoned);
    site.wait_for_note("abandoned", "error");

    let mut endless = site.open("/q/endless");
    read_until(&mut endless, "xxxx");
    drop(endless);
    site.wait_for_note("endless", "gone");

    let mut slow = site.open("/q/slow");
    let got = read_until(&mut slow, "first");
    assert!(!got.contains("second"));
    fs::write(site.work().join("go"), "").unwrap();
    read_until(&mut slow, "second");
    read_until(&mut waits, "from another thread");
}

#[test]
fn failures_are_500_with_a_stack_in_the_log() {
    let site = site(&json!({}));
    let workers = site.workers();
    for (target, texts) in [
        (
            "/q/raises",
            [
                "IllegalStateException: no such thing",
                "Questions.raises(Questions.java:",
            ],
        ),
        (
            "/q/raises",
            [
                "Caused by: java.util.NoSuchElementException: inner",
                "[error]",
            ],
        ),
        ("/q/deep", ["StackOverflowError", "Questions.deep"]),
        ("/q/memory", ["OutOfMemoryError", "Questions.memory"]),
    ] {
        let reply = site.get(target);
        assert_eq!(reply.status, 500, "{target}: {}", reply.text());
        assert!(!reply.text().contains("Questions.java"), "{}", reply.text());
        for text in texts {
            site.wait_for_log(text);
        }
    }
    let mut stream = site.open("/q/late");
    read_until(&mut stream, "begun");
    fs::write(site.work().join("go"), "").unwrap();
    let mut rest = String::new();
    // It may be reset.
    let _ = stream.read_to_string(&mut rest);
    assert!(!rest.ends_with("0\r\n\r\n"), "{rest}");
    site.wait_for_log("in the middle");
    assert_eq!(site.text("/q/logs"), "logged");
    for text in [
        "to standard error",
        "to standard output",
        "to the context's log",
    ] {
        site.wait_for_log(text);
    }
    assert_eq!(site.workers(), workers, "none of it ends the process");
    for (target, told) in [
        ("/q/exits", "exited with code 3"),
        ("/q/halts", "exited with code 4"),
    ] {
        let workers = site.workers();
        assert_eq!(site.get(target).status, 502, "{target}");
        wait_until(told, || {
            site.server
                .log()
                .replace("status", "code")
                .contains(&told[7..])
        });
        wait_until("another process", || {
            let now = site.workers();
            now.len() == 1 && now != workers
        });
        assert_eq!(site.text("/q/hello"), "hello");
    }
}

// Threads, processes, limits.

#[test]
fn threads_serve_at_once_and_say_where_they_are() {
    const SIZE: usize = 13 << 20;
    let options = json!({
        "threads": 2, "thread_stack_size": SIZE, "limits": {"timeout": 60}, "options": ["-Xmx200m", "--add-modules", "java.sql"]
    });
    let site = site(&options);
    let mut one = site.open("/q/meet");
    let mut other = site.open("/q/meet");
    let worker = site.workers()[0];
    for stream in [&mut one, &mut other] {
        read_until(stream, &format!("true {worker}"));
    }
    wait_until("two stacks of that size", || {
        let maps = fs::read_to_string(format!("/proc/{worker}/maps")).unwrap();
        maps.lines().filter(|line| is_stack(line, SIZE)).count() == 2
    });
    site.server
        .put("/config/applications/java/limits/timeout", &json!(3));
    let late = site.get("/q/hangs");
    assert_eq!(late.status, 504, "{}", late.text());
    for text in [
        "is at Questions.java:",
        "in Questions.inner",
        "  called at Questions.java:",
        "in Questions.outer",
    ] {
        site.wait_for_log(text);
    }
    site.server
        .put("/config/applications/java/limits/timeout", &json!(60));
    assert_eq!(site.text("/q/hello"), "hello");
}

/// True for a mapping of this size; Java takes some pages of it for guards.
fn is_stack(line: &str, size: usize) -> bool {
    let number = |text: &str| usize::from_str_radix(text, 16).unwrap();
    let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
    (size - (1 << 18)..=size + (1 << 18)).contains(&(number(end) - number(start)))
}

#[test]
fn a_restart_lets_requests_end_and_stops_the_application() {
    let site = site(&json!({"threads": 2}));
    let first = site.workers();
    let mut waits = site.open("/q/async");
    site.wait_for_note("async", "begun");
    let load = site.load(4, "/q/hello", |body| body == b"hello");
    assert!(load.wait_for_answers(20, PATIENCE));
    site.server.restart("java");
    assert!(load.wait_for_answers(20, PATIENCE));
    let outcome = load.stop();
    assert_eq!(outcome.failures(), 0, "{outcome:?}");
    fs::write(site.work().join("go"), "").unwrap();
    read_until(&mut waits, "from another thread");
    site.wait_for_note("life", &format!("stopped {}", first[0]));
    assert_ne!(site.workers(), first);
}

// Applications that do not start.

/// The detail and the pointer of a configuration that is refused.
fn refusal(site: &JavaSite, extra: &Value) -> (String, String) {
    let refused = site.refused(extra);
    let pointer = refused["errors"][0]["pointer"].as_str().unwrap_or_default();
    (refused.to_string(), pointer.to_owned())
}

#[test]
fn what_does_not_start_is_reported_with_place_and_cure() {
    let site = site(&json!({}));
    let workers = site.workers();
    let folder = site.server.folder().to_path_buf();
    let path = |name: &str| folder.join(name);
    fs::write(path("text.war"), "text").unwrap();
    fs::create_dir(path("bare")).unwrap();
    fs::create_dir_all(path("boot/BOOT-INF")).unwrap();
    fs::write(path("boot/BOOT-INF/x"), "x").unwrap();
    pack(&path("boot"), &path("boot.jar"));
    for (extra, pointer, texts) in [
        (
            json!({"webapp": path("none.war")}),
            "webapp",
            ["No such file", "working_directory"],
        ),
        (
            json!({"webapp": path("text.war")}),
            "webapp",
            ["no archive", ".war"],
        ),
        (
            json!({"webapp": path("bare")}),
            "webapp",
            ["WEB-INF", ".war"],
        ),
        (
            json!({"webapp": path("boot.jar")}),
            "webapp",
            ["a server of its own", "external"],
        ),
        (
            json!({"java_home": path("bare")}),
            "java_home",
            ["libjvm.so", "bin/java"],
        ),
        (
            json!({"classpath": [path("none.jar")]}),
            "classpath/0",
            ["none.jar", "working_directory"],
        ),
        (
            json!({"options": ["-Xmx1g", "-jar"]}),
            "options/1",
            ["`-jar`", "external"],
        ),
        (
            json!({"options": ["-Xmx1x"]}),
            "",
            ["Invalid maximum heap size", "-Xmx1x"],
        ),
        (
            json!({"options": ["-XX:+NoSuchThing"]}),
            "options",
            ["JNI error", "which option"],
        ),
        (
            json!({"options": ["-Dfailure=no database"]}),
            "webapp",
            ["IllegalStateException: no database", "at Life.java:"],
        ),
        (
            json!({"options": ["-Dfailure=memory", "-Xmx32m"]}),
            "options",
            ["OutOfMemoryError", "-Xmx1g"],
        ),
        (
            json!({"servlet": "4.0"}),
            "servlet",
            ["jakarta.servlet", "leave the option out"],
        ),
    ] {
        let (detail, at) = refusal(&site, &extra);
        for text in texts {
            assert!(detail.contains(text), "{extra}: `{text}` in {detail}");
        }
        if !pointer.is_empty() {
            assert_eq!(at, format!("/applications/java/{pointer}"), "{detail}");
        }
    }
    site.wait_for_log("at Life.contextInitialized(Life.java:");
    assert_eq!(site.workers(), workers, "the old application serves on");
    assert_eq!(site.text("/q/hello"), "hello");
}

#[test]
fn a_packed_application_with_a_library_is_unpacked_and_cleared_away() {
    let site = site(&json!({}));
    assert_eq!(site.text("/q/library"), "there is no such library");
    let war = site.server.folder().join("app.war");
    pack(&application("jakarta"), &war);
    // Unit's option for its own jars has no effect.
    let options =
        json!({"webapp": war, "classpath": [application("library")], "unit_jars": "/none"});
    site.configure(&options);
    assert_eq!(site.text("/q/library"), "found");
    assert_eq!(site.text("/files/file.txt"), "a file\n");
}

/// A class of a newer Java than the one that runs names both.
#[test]
fn a_class_that_is_too_new_is_reported_with_both_versions() {
    let site = site(&json!({}));
    let classes = site.root().join("WEB-INF/classes");
    let source = site.server.write(
        "New.java",
        "@jakarta.servlet.annotation.WebListener public class New implements jakarta.servlet.ServletContextListener {}",
    );
    compile_to(&classes, &class_path("ee10"), &[source]);
    let compiled = classes.join("New.class");
    let mut bytes = fs::read(&compiled).unwrap();
    // Major version of the class file (JVMS 4.1): that of Java 26, and of Java 99.
    fs::write(site.root().join("WEB-INF/web.xml"), "<web-app xmlns='https://jakarta.ee/xml/ns/jakartaee' version='6.0'><listener><listener-class>New</listener-class></listener></web-app>").unwrap();
    let changed = json!({"environment": {"WORK": site.work(), "A": "b"}});
    for (version, told) in [
        (70u16, "`New` is compiled for Java 26, and this is Java "),
        (143, "New.class` is compiled for Java 99, and this is Java "),
    ] {
        bytes[6..8].copy_from_slice(&version.to_be_bytes());
        fs::write(&compiled, &bytes).unwrap();
        let (detail, pointer) = refusal(&site, &changed);
        assert!(detail.contains(told), "{detail}");
        assert_eq!(pointer, "/applications/java/java_home");
    }
}

// The guide.

#[test]
fn another_root_has_what_java_needs() {
    if !tutti_sys::credentials::is_root() {
        tutti_testkit::skip!("another root needs root, or a user namespace as in `isolation.rs`");
    }
    let site = site(&json!({}));
    // Where it is installed the jars are in a folder, not behind a link.
    let installed = site.server.folder().join("modules/java");
    let jars = installed.canonicalize().unwrap();
    fs::remove_file(&installed).unwrap();
    for part in ["core", "ee10"] {
        tutti_testkit::files::copy(&jars.join(part), &installed.join(part));
    }
    let jail = site.server.folder().join("jail");
    fs::create_dir_all(jail.join("work")).unwrap();
    fs::set_permissions(
        jail.join("work"),
        std::os::unix::fs::PermissionsExt::from_mode(0o1777),
    )
    .unwrap();
    tutti_testkit::files::copy(&application("jakarta"), &jail.join("site"));
    // The server of this test is installed below `/tmp`, and the new root has another.
    let isolation = json!({"rootfs": jail});
    let options = json!({
        "webapp": "/site", "working_directory": "/site", "isolation": isolation, "environment": {"WORK": "/work"}
    });
    site.configure(&options);
    assert_eq!(site.text("/q/hello"), "hello");
    assert_eq!(site.text("/page.jsp?word=x").trim(), "1 2 3 x");
    assert!(
        jail.join("work/life").is_file(),
        "it has noted its start in there"
    );
}
