//! The behaviour that a PHP application may rely on, through the C and the Rust half of the host, without a server around them.
#![allow(clippy::expect_used, clippy::panic, clippy::cast_possible_truncation)]

mod host;

use host::{Host, get, method, post, scripts};
use serde_json::{Value, json};

fn temporary() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

// $_SERVER and its kin.

#[test]
fn server_variables_are_those_of_fpm() {
    let mut php = Host::start();
    let request = get("/server.php/info/%C3%A9?a=1&b%5B%5D=2")
        .field("User-Agent", "test")
        .field("X-Twice", "1")
        .field("x-twice", "2")
        .field("Cookie", "a=1")
        .field("Cookie", "b=2")
        .field("Proxy", "http://evil.test");
    let answer = php.send(&request).json();
    let root = scripts();
    let root = root.to_str().expect("text");
    let server = &answer["server"];
    for (name, expected) in [
        ("SCRIPT_NAME", "/server.php".to_owned()),
        ("SCRIPT_FILENAME", format!("{root}/server.php")),
        ("PHP_SELF", "/server.php/info/é".to_owned()),
        ("PATH_INFO", "/info/é".to_owned()),
        ("PATH_TRANSLATED", format!("{root}/info/é")),
        ("DOCUMENT_URI", "/server.php/info/é".to_owned()),
        ("DOCUMENT_ROOT", root.to_owned()),
        (
            "REQUEST_URI",
            "/server.php/info/%C3%A9?a=1&b%5B%5D=2".to_owned(),
        ),
        ("QUERY_STRING", "a=1&b%5B%5D=2".to_owned()),
        ("REQUEST_METHOD", "GET".to_owned()),
        ("SERVER_PROTOCOL", "HTTP/1.1".to_owned()),
        ("REQUEST_SCHEME", "http".to_owned()),
        (
            "SERVER_SOFTWARE",
            concat!("Tutti/", env!("CARGO_PKG_VERSION")).to_owned(),
        ),
        ("SERVER_NAME", "example.test".to_owned()),
        ("SERVER_PORT", "8080".to_owned()),
        ("SERVER_ADDR", "127.0.0.1".to_owned()),
        ("REMOTE_ADDR", "192.0.2.7".to_owned()),
        ("REMOTE_PORT", "40404".to_owned()),
        ("GATEWAY_INTERFACE", "CGI/1.1".to_owned()),
        ("REDIRECT_STATUS", "200".to_owned()),
        ("CONTENT_TYPE", String::new()),
        ("CONTENT_LENGTH", String::new()),
        ("HTTP_HOST", "example.test:8080".to_owned()),
        ("HTTP_USER_AGENT", "test".to_owned()),
        ("HTTP_X_TWICE", "1, 2".to_owned()),
        ("HTTP_COOKIE", "a=1; b=2".to_owned()),
    ] {
        assert_eq!(server[name], expected, "{name}");
    }
    for absent in ["HTTPS", "HTTP_PROXY", "PHP_AUTH_USER"] {
        assert_eq!(server[absent], Value::Null, "{absent}");
    }
    assert!(server["REQUEST_TIME"].is_i64() && server["REQUEST_TIME_FLOAT"].is_f64());
    assert_eq!(answer["cookie"], json!({"a": "1", "b": "2"}));
    assert_eq!(answer["get"], json!({"a": "1", "b": ["2"]}));
    assert_eq!(answer["cwd"], root);
    assert_eq!(answer["sapi"], "fpm-fcgi");
    assert_eq!(answer["included"], json!([answer["file"]]));
}

#[test]
fn the_user_is_the_servers() {
    let mut php = Host::start();
    let claimed = |target: &str| {
        get(target)
            .field("Remote-User", "root")
            .field("Authorization", "Basic dXNlcjpwYTpzcw==")
    };
    let known = claimed("/server.php").with("user", "anna".into());
    assert_eq!(php.send(&known).json()["server"]["REMOTE_USER"], "anna");
    let server = &php.send(&claimed("/server.php")).json()["server"];
    assert_eq!(server["REMOTE_USER"], Value::Null);
    assert_eq!(server["HTTP_REMOTE_USER"], "root");
}

#[test]
fn the_whole_environment_has_the_variables_of_the_request() {
    let mut php = Host::start();
    for query in ["a=1", "b=2"] {
        let environment = php.get(&format!("/environment.php?{query}")).json();
        assert_eq!(environment["QUERY_STRING"], query);
        assert_eq!(environment["REQUEST_METHOD"], "GET");
    }
}

#[test]
fn getenv_and_filter_input_see_the_request() {
    let mut php = Host::start();
    let answer = php.get("/server.php?name=REQUEST_METHOD").json();
    assert_eq!(
        (&answer["getenv"], &answer["filter"]),
        (&json!("GET"), &json!("GET"))
    );
    assert_eq!(
        php.get("/server.php?name=NO_SUCH_THING").json()["getenv"],
        false
    );
}

#[test]
fn filter_input_works_with_and_without_a_default_filter() {
    for (filter, shown) in [("unsafe_raw", "a<b>"), ("special_chars", "a&#60;b&#62;")] {
        let mut php = Host::with(
            &json!({"root": scripts(), "options": {"admin": {"filter.default": filter}}}),
        );
        for _ in 0..2 {
            let answer = php.send(&get("/filter.php").field("X-Text", "a<b>")).json();
            assert_eq!(
                answer,
                json!({"server": shown, "input": "a<b>", "has": true, "array": "GET"}),
                "{filter}"
            );
        }
    }
}

#[test]
fn tls_and_http10_show() {
    let mut php = Host::start();
    let answer = php
        .send(
            &get("/server.php")
                .with("tls", true.into())
                .with("http10", true.into()),
        )
        .json();
    assert_eq!(answer["server"]["HTTPS"], "on");
    assert_eq!(answer["server"]["REQUEST_SCHEME"], "https");
    assert_eq!(answer["server"]["SERVER_PROTOCOL"], "HTTP/1.0");
}

#[test]
fn request_headers_have_their_usual_case() {
    let mut php = Host::start();
    let request = post("/server.php", "text/plain", b"abc")
        .field("x-lower-case", "1")
        .field("AUTHORIZATION", "Bearer t");
    let answer = php.send(&request).json();
    let expected = json!({"Content-Type": "text/plain", "Content-Length": "3", "Host": "example.test:8080", "X-Lower-Case": "1", "Authorization": "Bearer t"});
    assert_eq!(answer["headers"], expected);
    assert_eq!(answer["apache"], expected);
}

#[test]
fn authentication_is_taken_apart() {
    let mut php = Host::start();
    let basic = php
        .send(&get("/server.php").field("Authorization", "Basic dXNlcjpwYTpzcw=="))
        .json();
    assert_eq!(
        (
            &basic["server"]["PHP_AUTH_USER"],
            &basic["server"]["PHP_AUTH_PW"]
        ),
        (&json!("user"), &json!("pa:ss"))
    );
    let digest = php
        .send(&get("/server.php").field("Authorization", "Digest username=\"u\""))
        .json();
    assert_eq!(digest["server"]["PHP_AUTH_DIGEST"], "username=\"u\"");
    assert_eq!(digest["server"]["PHP_AUTH_USER"], Value::Null);
}

#[test]
fn the_configured_environment_is_in_server_and_getenv() {
    let config = json!({"root": scripts(), "environment": {"COLOUR": "blue"}, "options": {"user": {"variables_order": "EGPCS"}}});
    let mut php = Host::with_environment(&config, &[("COLOUR", "blue")]);
    let answer = php.get("/server.php?name=COLOUR").json();
    assert_eq!(
        (
            &answer["server"]["COLOUR"],
            &answer["getenv"],
            &answer["env"]["COLOUR"]
        ),
        (&json!("blue"), &json!("blue"), &json!("blue"))
    );
}

// Which script answers.

#[test]
fn paths_lead_to_scripts() {
    let mut php = Host::start();
    for (target, status, body) in [
        ("/folder/", 200, "hello\n"),
        ("/hello.php", 200, "hello\n"),
        (
            "/method.php/a/b.php/c?q",
            200,
            "GET /a/b.php/c /method.php/a/b.php/c",
        ),
        ("/method.php?x=/y.php/z", 200, "GET - /method.php"),
    ] {
        let answer = php.get(target);
        assert_eq!(
            (answer.status, answer.text().as_str()),
            (status, body),
            "{target}"
        );
    }
    for (target, status) in [
        ("/none.php", 404),
        ("/none", 404),
        ("/folder/none/", 404),
        ("/folder/note.txt", 403),
        ("/targets/", 404),
        ("/%00", 404),
    ] {
        let answer = php.get(target);
        assert_eq!(answer.status, status, "{target}");
        assert_eq!(answer.events, ["start", "write", "finish"], "{target}");
    }
}

#[test]
fn a_folder_without_slash_redirects_and_keeps_the_query() {
    let mut php = Host::start();
    let answer = php.get("/folder?a=%20b");
    assert_eq!(
        (answer.status, answer.all("Location")),
        (301, vec!["/folder/?a=%20b"])
    );
    assert_eq!(php.get("//folder").all("Location"), ["/folder/"]);
}

#[test]
fn index_names_another_file() {
    let mut php = Host::with(&json!({"root": scripts().join("folder"), "index": "home.php"}));
    assert_eq!(php.get("/").text(), "home");
    assert_eq!(php.get("/sub/").text(), "sub");
}

#[test]
fn script_answers_every_path() {
    let mut php = Host::with(&json!({"root": scripts(), "script": "method.php"}));
    for (target, body) in [
        ("/", "GET - /method.php"),
        ("/blog/2024/?p=1", "GET - /method.php"),
        ("/hello.php", "GET - /method.php"),
        ("/method.php/info", "GET /info /method.php/info"),
    ] {
        assert_eq!(php.get(target).text(), body, "{target}");
    }
}

#[test]
fn targets_have_their_own_roots_and_scripts() {
    let config = json!({"targets": {"front": {"root": scripts().join("targets"), "script": "front.php"}, "all": {"root": scripts()}}});
    let mut php = Host::with(&config);
    let front = php.send(&get("/anything").with("target_name", "front".into()));
    assert_eq!(
        front.text(),
        format!("front /front.php {}", scripts().join("targets").display())
    );
    assert_eq!(
        php.send(&get("/hello.php").with("target_name", "all".into()))
            .text(),
        "hello\n"
    );
    assert_eq!(
        php.send(&get("/hello.php").with("target_name", "none".into()))
            .status,
        404
    );
}

#[test]
fn what_cannot_start_says_why() {
    for (config, expected) in [
        (json!({"root": "/no/such/root"}), "/no/such/root"),
        (json!({"root": scripts(), "script": "none.php"}), "none.php"),
        (json!({}), "`root` is missing"),
    ] {
        let mut php = Host::with(&config);
        let status = php.try_send(&get("/")).expect_err("it did not start");
        assert_eq!(status.code(), Some(3), "{config}");
        assert!(
            php.errors().contains(expected),
            "{config}: {}",
            php.errors()
        );
    }
}

#[test]
fn a_script_that_changes_is_seen_and_one_that_goes_is_404() {
    let folder = temporary();
    let file = folder.path().join("changing.php");
    // opcache compares whole seconds.
    let write = |text: &str, seconds: u64| {
        std::fs::write(&file, text).expect("written");
        let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        std::fs::File::options()
            .write(true)
            .open(&file)
            .and_then(|opened| opened.set_modified(time))
            .expect("dated");
    };
    write("<?php echo 1;", 1_000_000_000);
    let mut php = Host::with(
        &json!({"root": folder.path(), "options": {"user": {"opcache.revalidate_freq": "0", "opcache.file_update_protection": "0"}}}),
    );
    assert_eq!(php.get("/changing.php").text(), "1");
    write("<?php echo 'two';", 1_000_000_001);
    assert_eq!(php.get("/changing.php").text(), "two");
    std::fs::remove_file(&file).expect("removed");
    assert_eq!(php.get("/changing.php").status, 404);
}

#[test]
fn a_script_runs_in_the_folder_that_has_taken_the_place_of_another() {
    let folder = temporary();
    let release = |name: &str| {
        let root = folder.path().join(name);
        std::fs::create_dir(&root).expect("a folder");
        let script = "<?php echo getcwd(), ' ', file_get_contents('release.txt');";
        std::fs::write(root.join("where.php"), script).expect("written");
        std::fs::write(root.join("release.txt"), name).expect("written");
        root
    };
    let (site, next) = (release("site"), release("next"));
    for script in [json!(null), json!("where.php")] {
        let mut config =
            json!({"root": site, "options": {"user": {"opcache.revalidate_freq": "0"}}});
        if !script.is_null() {
            config["script"] = script;
        }
        let mut php = Host::with(&config);
        let before = std::fs::read_to_string(site.join("release.txt")).expect("read");
        let expected = |release: &str| format!("{} {release}", site.display());
        assert_eq!(php.get("/where.php").text(), expected(&before));
        let old = folder.path().join("old");
        std::fs::rename(&site, &old).expect("moved");
        std::fs::rename(&next, &site).expect("moved");
        std::fs::rename(&old, &next).expect("moved");
        let after = std::fs::read_to_string(site.join("release.txt")).expect("read");
        assert_ne!(before, after);
        assert_eq!(php.get("/where.php").text(), expected(&after));
    }
}

// Response heads.

#[test]
fn headers_keep_their_order_and_spelling() {
    let mut php = Host::start();
    let answer = php.get("/headers.php?case=order");
    let fields: Vec<_> = answer
        .fields
        .iter()
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    assert_eq!(
        fields,
        [
            "X-One: 1",
            "X-Two: 2",
            "X-One: 3",
            "X-Three: 3",
            "Content-Type: text/plain;charset=UTF-8"
        ]
    );
    assert_eq!(php.get("/headers.php?case=replace").all("x-one"), ["2"]);
    assert!(php.get("/headers.php?case=remove").all("X-One").is_empty());
    assert_eq!(
        php.get("/headers.php?case=cookies").all("Set-Cookie"),
        ["a=1", "b=2; HttpOnly"]
    );
    assert_eq!(
        php.get("/headers.php?case=callback").all("X-Callback"),
        ["1"]
    );
    assert_eq!(
        php.get("/headers.php?case=length").all("Content-Length"),
        ["5"]
    );
    assert_eq!(php.get("/headers.php?case=many").fields.len(), 201);
    assert_eq!(
        php.get("/headers.php").all("Content-Type"),
        ["text/html; charset=UTF-8"]
    );
    assert!(php.get("/headers.php?case=no-type").fields.is_empty());
    assert!(php.get("/headers.php?case=split").all("X-B").is_empty());
    assert_eq!(php.get("/headers.php?case=response").json()["X-One"], "1");
}

#[test]
fn the_status_may_be_set_in_any_way() {
    let mut php = Host::start();
    for (case, status) in [
        ("line", 404),
        ("code", 418),
        ("third", 202),
        ("status", 404),
        ("status-line", 410),
        ("location", 302),
        ("location-201", 201),
        ("interim", 200),
        ("nonsense", 500),
        ("no-content", 204),
        ("empty", 200),
    ] {
        let answer = php.get(&format!("/headers.php?case={case}"));
        assert_eq!(answer.status, status, "{case}");
        assert!(answer.all("Status").is_empty(), "{case}");
        assert_eq!(
            answer.events.last().map(String::as_str),
            Some("finish"),
            "{case}"
        );
    }
    assert_eq!(php.get("/headers.php?case=status").all("X-After"), ["1"]);
}

#[test]
fn headers_after_output_are_refused_as_usual() {
    let mut php = Host::start();
    let answer = php.get("/headers.php?case=late");
    assert_eq!(answer.text(), "xsent");
    assert!(answer.all("X-Late").is_empty());
    assert!(
        php.errors().contains("headers already sent"),
        "{}",
        php.errors()
    );
}

// Bodies.

#[test]
fn forms_and_raw_bodies_arrive() {
    let mut php = Host::start();
    let form = php
        .send(&post(
            "/body.php",
            "application/x-www-form-urlencoded",
            b"a=1&b[]=2&b[]=3",
        ))
        .json();
    assert_eq!(
        (&form["post"], &form["length"]),
        (&json!({"a": "1", "b": ["2", "3"]}), &json!(15))
    );
    let raw: Vec<u8> = (0..300_000_u32).map(|n| (n % 251) as u8).collect();
    let answer = php
        .send(&post("/body.php", "application/octet-stream", &raw))
        .json();
    assert_eq!(
        (&answer["length"], &answer["same"]),
        (&json!(300_000), &json!(true))
    );
    let put = php
        .send(&method("PUT", "/body.php").with("body", b"no length".as_slice().into()))
        .json();
    assert_eq!(put["length"], 9);
    assert_eq!(
        php.send(&post("/unread.php", "text/plain", b"12345"))
            .text(),
        "5"
    );
    assert_eq!(php.get("/body.php").json()["length"], 0);
}

#[test]
fn uploads_become_files() {
    let mut php = Host::start();
    let content = vec![b'z'; 70_000];
    let mut body = b"--XX\r\nContent-Disposition: form-data; name=\"field\"\r\n\r\nvalue\r\n--XX\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\nContent-Type: text/plain\r\n\r\n".to_vec();
    body.extend_from_slice(&content);
    body.extend_from_slice(b"\r\n--XX--\r\n");
    let answer = php
        .send(&post(
            "/body.php",
            "multipart/form-data; boundary=XX",
            &body,
        ))
        .json();
    assert_eq!(answer["post"], json!({"field": "value"}));
    let file = &answer["files"]["file"];
    assert_eq!(
        (&file["name"], &file["type"], &file["size"], &file["error"]),
        (
            &json!("a.txt"),
            &json!("text/plain"),
            &json!(70_000),
            &json!(0)
        )
    );
    assert!(file["md5"].is_string());
}

#[test]
fn a_body_over_post_max_size_is_refused_by_php() {
    let mut php =
        Host::with(&json!({"root": scripts(), "options": {"admin": {"post_max_size": "1K"}}}));
    let answer = php.send(&post(
        "/body.php",
        "application/x-www-form-urlencoded",
        &[b'a'; 5000],
    ));
    assert_eq!(answer.status, 200);
    assert!(
        php.errors().contains("exceeds the limit of 1024 bytes"),
        "{}",
        php.errors()
    );
}

// Output.

#[test]
fn flush_hands_over_each_part() {
    let mut php = Host::start();
    let answer = php.get("/stream.php");
    assert_eq!(answer.text(), "part 0\npart 1\npart 2\n");
    assert_eq!(
        answer.events,
        [
            "start", "write", "flush", "write", "flush", "write", "flush", "finish"
        ]
    );
}

#[test]
fn large_output_arrives_whole() {
    let mut php = Host::start();
    for target in [
        "/large.php?kilobytes=3000",
        "/large.php?kilobytes=3000&buffered",
    ] {
        assert_eq!(php.get(target).body.len(), 3000 * 1024, "{target}");
    }
}

#[test]
fn head_has_no_body() {
    let mut php = Host::start();
    let answer = php.send(&method("HEAD", "/method.php"));
    assert_eq!(
        (answer.status, answer.all("X-Method"), answer.body.len()),
        (200, vec!["HEAD"], 0)
    );
    assert_eq!(php.send(&method("HEAD", "/none.php")).body.len(), 0);
    assert_eq!(
        php.send(&method("PROPFIND", "/method.php")).text(),
        "PROPFIND - /method.php"
    );
}

#[test]
fn finish_request_ends_the_answer_and_not_the_script() {
    let mut php = Host::start();
    let folder = temporary();
    let file = folder.path().join("after.json");
    let target = format!("/finish.php?file={}", file.display());
    let answer = php.send(&get(&target).field("X-Late", "read late"));
    assert_eq!(
        (answer.text().as_str(), answer.all("X-Finish")),
        ("answer", vec!["1"])
    );
    assert_eq!(answer.events, ["start", "write", "finish"]);
    let after: Value =
        serde_json::from_slice(&std::fs::read(file).expect("the script went on")).expect("JSON");
    assert_eq!(after, json!([true, false, 0, "GET", "read late", target]));
}

#[test]
fn a_client_that_goes_ends_the_script_unless_it_objects() {
    let mut php = Host::start();
    let folder = temporary();
    for (option, expected) in [("", json!([1, 1, 5])), ("&ignore", json!([1, 1, 6]))] {
        let file = folder.path().join("aborted.json");
        php.send(
            &get(&format!("/aborted.php?file={}{option}", file.display()))
                .with("gone_after", 5000.into()),
        );
        let seen: Value =
            serde_json::from_slice(&std::fs::read(&file).expect("told")).expect("JSON");
        assert_eq!(
            (&seen[0], &seen[1]),
            (&expected[0], &expected[1]),
            "{option}"
        );
        assert!(
            seen[2].as_u64().is_some_and(|count| count < 10),
            "{option}: {seen}"
        );
    }
    assert_eq!(php.get("/hello.php").text(), "hello\n");
}

// Ends of scripts.

#[test]
fn every_end_is_an_answer_and_only_one_in_doubt_ends_the_worker() {
    let mut php = Host::start();
    for (how, status, body) in [
        ("exit", 200, "before"),
        ("exit&shutdown", 200, "beforeshutdown"),
        ("exit-message", 200, "message"),
        ("return", 200, "returned"),
        ("fatal", 500, ""),
        ("exception", 500, ""),
        ("exception&shutdown", 500, "shutdown"),
        ("exception-late", 200, "sent"),
        ("memory", 500, ""),
        ("stack", 500, ""),
        ("parse", 500, ""),
        ("die-in-shutdown", 200, "dead"),
        ("fatal-in-shutdown", 500, "ok"),
        ("destructor", 200, "destroyed"),
        ("output-callback-throws", 500, ""),
    ] {
        let answer = php.get(&format!("/ends.php?how={how}"));
        assert_eq!(
            (answer.status, answer.text().as_str()),
            (status, body),
            "{how}"
        );
        assert_eq!(
            answer.events.last().map(String::as_str),
            Some("finish"),
            "{how}"
        );
        // These leave PHP in the middle of things (issue 12).
        let is_in_doubt = [
            "memory",
            "stack",
            "fatal-in-shutdown",
            "output-callback-throws",
        ]
        .contains(&how);
        assert_eq!(answer.recycle, is_in_doubt, "{how}");
        assert_eq!(php.get("/hello.php").text(), "hello\n", "after {how}");
    }
    let log = php.errors();
    for line in [
        "Uncaught RuntimeException: no handler catches me",
        "Call to undefined function",
        "Allowed memory size of",
    ] {
        assert!(log.contains(line), "{line} is not in: {log}");
    }
}

#[test]
fn a_child_that_a_request_forks_answers_nothing() {
    let mut php = Host::start();
    for (how, status) in [("return", 0), ("exit", 3), ("fatal", 255)] {
        let answer = php.get(&format!("/forked.php?how={how}"));
        let expected = format!("before, parent {status}, shutdown");
        assert_eq!(answer.text(), expected, "{how}");
        assert!(!answer.recycle, "{how}");
    }
    assert_eq!(php.get("/hello.php").status, 200);
}

#[test]
fn errors_are_shown_when_php_ini_says_so() {
    let mut php =
        Host::with(&json!({"root": scripts(), "options": {"user": {"display_errors": "1"}}}));
    let answer = php.get("/ends.php?how=exception");
    assert!(answer.text().contains("no handler catches me"));
}

#[test]
fn the_time_limit_ends_a_script_and_not_the_worker() {
    let mut php = Host::start();
    // Twice: PHP leaves a timer and a handler of its own behind. Then after another has taken the signal.
    for (before, count) in [
        ("/hello.php", 1),
        ("/hello.php", 2),
        ("/ends.php?how=take-signal", 3),
    ] {
        php.get(before);
        assert_eq!(php.get("/ends.php?how=time").status, 500);
        let log = php.errors();
        assert_eq!(
            log.matches("Maximum execution time of 1 second exceeded")
                .count(),
            count,
            "{log}"
        );
        assert_eq!(php.get("/hello.php").text(), "hello\n");
    }
}

#[test]
fn the_configured_time_limit_counts_the_script_alone() {
    let mut php =
        Host::with(&json!({"root": scripts(), "options": {"user": {"max_execution_time": "1"}}}));
    // Each well below the limit, all together above it; and time asleep is not time used.
    for _ in 0..4 {
        assert_eq!(php.get("/ends.php?how=busy&ms=400").text(), "busy");
    }
    assert_eq!(php.get("/sleep.php?ms=1200").text(), "slept");
    // The limit is of CPU time: on a busy machine it takes much longer to come.
    assert_eq!(php.get("/ends.php?how=busy&ms=60000").status, 500);
    assert_eq!(php.get("/ends.php?how=unlimited&ms=1500").text(), "busy");
    // A limit of the administrator's is not the script's to lift.
    let mut php =
        Host::with(&json!({"root": scripts(), "options": {"admin": {"max_execution_time": "1"}}}));
    assert_eq!(php.get("/ends.php?how=unlimited&ms=60000").status, 500);
}

#[test]
fn the_hard_time_limit_ends_the_worker() {
    let mut php =
        Host::with(&json!({"root": scripts(), "options": {"admin": {"hard_timeout": "1"}}}));
    let status = php
        .try_send(&get("/ends.php?how=hard"))
        .expect_err("it ends the process");
    assert_eq!(status.code(), Some(124), "{}", php.errors());
}

// State.

#[test]
fn nothing_goes_from_one_request_to_the_next() {
    let mut php = Host::start();
    let clean = php.get("/state.php").json();
    php.send(
        &post(
            "/state.php?leave",
            "application/x-www-form-urlencoded",
            b"a=1",
        )
        .field("Authorization", "Basic dXNlcjpwYXNz"),
    );
    let after = php.get("/state.php").json();
    for name in [
        "cwd",
        "constant",
        "global",
        "precision",
        "handler",
        "post",
        "auth",
        "zone",
    ] {
        assert_eq!(after[name], clean[name], "{name}");
    }
    assert_eq!(
        php.get("/folder/chdir.php").text(),
        scripts().to_str().expect("text")
    );
    assert_eq!(
        php.get("/folder/chdir.php").text(),
        scripts().to_str().expect("text")
    );
}

#[test]
fn memory_does_not_grow() {
    let mut php = Host::start();
    let request = post(
        "/state.php?leave",
        "application/x-www-form-urlencoded",
        b"a=1&b=2",
    );
    let mut memory = || {
        php.send(&request).json()["memory"]
            .as_u64()
            .expect("a number")
    };
    memory();
    let first = memory();
    for _ in 0..200 {
        assert_eq!(memory(), first);
    }
}

#[test]
fn sessions_are_kept() {
    let mut php = Host::start();
    let folder = temporary();
    let target = format!("/session.php?path={}", folder.path().display());
    let first = php.get(&target);
    let cookie = first
        .all("Set-Cookie")
        .first()
        .and_then(|value| value.split(';').next())
        .map(str::to_owned)
        .expect("a cookie");
    assert_eq!(first.text(), "1");
    assert_eq!(php.send(&get(&target).field("Cookie", &cookie)).text(), "2");
    assert_eq!(php.get(&target).text(), "1");
}

#[test]
fn error_log_and_stderr_reach_the_log() {
    let mut php = Host::start();
    assert_eq!(php.get("/log.php").text(), "logged");
    let log = php.errors();
    let line = log
        .lines()
        .find(|line| line.ends_with("php message: a line of the script's own"))
        .unwrap_or_else(|| panic!("{log}"));
    assert!(line.contains(" [notice] ") && line.contains('#'), "{line}");
    assert!(
        log.contains("a warning in ") && log.contains("straight to stderr\n"),
        "{log}"
    );
}

/// Issue 10, 1.25: what ends a script was a notice like any other.
#[test]
fn fatal_errors_are_errors_in_the_log_and_warnings_warnings() {
    let mut php = Host::start();
    assert_eq!(php.get("/fatal.php").status, 500);
    let log = php.errors();
    let has = |level: &str, text: &str| {
        log.lines()
            .any(|line| line.contains(level) && line.contains(text))
    };
    assert!(has(" [warn] ", "careful"), "{log}");
    assert!(has(" [error] ", "undefined_function"), "{log}");
    // The last line of the same message.
    assert!(has(" [error] ", "  thrown in "), "{log}");
}

// php.ini.

#[test]
fn admin_directives_are_locked_and_user_directives_are_not() {
    let config = json!({"root": scripts(), "options": {"admin": {"memory_limit": "77M"}, "user": {"precision": "7", "error_reporting": "E_ALL & ~E_NOTICE"}}});
    let mut php = Host::with(&config);
    let admin = php.get("/ini.php?name=memory_limit&value=99M").json();
    assert_eq!(
        (&admin["before"], &admin["set"], &admin["after"]),
        (&json!("77M"), &json!(false), &json!("77M"))
    );
    let user = php.get("/ini.php?name=precision&value=9").json();
    assert_eq!(
        (&user["before"], &user["set"], &user["after"]),
        (&json!("7"), &json!("7"), &json!("9"))
    );
    assert_eq!(php.get("/ini.php?name=precision").json()["before"], "7");
    // E_ALL is 32767, and without E_STRICT 30719 since PHP 8.4; E_NOTICE is 8.
    let level = &php.get("/ini.php?name=error_reporting").json()["before"];
    assert!(level == "32759" || level == "30711", "{level}");
}

#[test]
fn options_override_files_and_reach_php_ini_only_directives() {
    let folder = temporary();
    let file = folder.path().join("my.ini");
    std::fs::write(&file, "precision = 5\nserialize_precision = 6\n").expect("written");
    let config = json!({"root": scripts(), "options": {"file": file, "admin": {"disable_functions": "fastcgi_finish_request,exec", "opcache.memory_consumption": "16"}, "user": {"precision": "8"}}});
    let mut php = Host::with(&config);
    let answer = php.get("/ini.php?name=precision").json();
    assert_eq!(
        (&answer["before"], &answer["file"]),
        (&json!("8"), &json!(file))
    );
    assert!(
        answer["scanned"]
            .as_str()
            .is_some_and(|files| files.contains("opcache.ini"))
    );
    assert_eq!(
        php.get("/ini.php?name=serialize_precision").json()["before"],
        "6"
    );
    assert_eq!(
        php.get("/ini.php?name=opcache.memory_consumption").json()["before"],
        "16"
    );
    assert!(
        php.get("/finish.php?file=/dev/null")
            .text()
            .contains("undefined function fastcgi_finish_request()")
    );
}

#[test]
fn an_unknown_directive_is_reported() {
    let mut php =
        Host::with(&json!({"root": scripts(), "options": {"user": {"memory_limmit": "1M"}}}));
    assert_eq!(php.get("/hello.php").status, 200);
    assert!(php.errors().contains("`memory_limmit`"), "{}", php.errors());
}

#[test]
fn more_ini_files_come_through_the_environment() {
    let folder = temporary();
    std::fs::write(folder.path().join("more.ini"), "precision = 4\n").expect("written");
    let scan = format!(":{}", folder.path().display());
    let mut php =
        Host::with_environment(&json!({"root": scripts()}), &[("PHP_INI_SCAN_DIR", &scan)]);
    assert_eq!(php.get("/ini.php?name=precision").json()["before"], "4");
    assert!(php.get("/extensions.php").json()["mb"] == "Ä");
}

#[test]
fn debians_extensions_are_there() {
    let mut php = Host::start();
    let answer = php.get("/extensions.php").json();
    assert_eq!((&answer["row"], &answer["mb"]), (&json!(42), &json!("Ä")));
    let loaded = answer["loaded"].as_array().expect("a list");
    for name in [
        "Zend OPcache",
        "mbstring",
        "pdo_sqlite",
        "session",
        "openssl",
        "json",
    ] {
        assert!(loaded.contains(&json!(name)), "{name} is not in {loaded:?}");
    }
}

#[test]
fn opcache_works_with_preloading_and_jit() {
    let preload = scripts().join("preload/preload.php");
    let options = json!({"admin": {"opcache.preload": preload, "opcache.preload_user": "nobody", "opcache.jit": "tracing", "opcache.jit_buffer_size": "8M", "opcache.file_update_protection": "0"}});
    let mut php = Host::with(&json!({"root": scripts(), "options": options}));
    php.get("/opcache.php");
    let answer = php.get("/opcache.php").json();
    assert_eq!(
        (&answer["enabled"], &answer["preloaded"], &answer["jit"]),
        (&json!(true), &json!("from the prototype"), &json!(true))
    );
    let script = scripts().join("opcache.php");
    assert!(
        answer["scripts"]
            .as_array()
            .is_some_and(|all| all.contains(&json!(script))),
        "{answer}"
    );
}
