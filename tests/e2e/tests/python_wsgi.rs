//! A WSGI application may rely on this, through the whole server: each case plain and with `wsgiref.validate` around it.

use std::fs;
use std::io::Read;

use serde_json::{Value, json};
use tutti_e2e::python::PythonSite;
use tutti_e2e::read_until;
use tutti_testkit::wait_until;

/// Runs a case on the application as it is, and under the validator of the standard library.
fn both(case: impl Fn(&PythonSite)) {
    for callable in ["application", "validated"] {
        let site = PythonSite::start(&json!({"callable": callable, "processes": 1}));
        case(&site);
    }
}

#[test]
fn the_environ_is_complete() {
    both(|site| {
        let reply = site.send(
            "GET",
            "/environ?a=1&b=%20",
            "User-Agent: test\r\nCookie: a=1\r\nCookie: b=2\r\nX-Twice: 1\r\nx-twice: 2\r\nProxy: http://evil\r\nX-Latin: \u{e9}\r\n",
            b"",
        );
        let environ = reply.json();
        let port = site.server.port().to_string();
        for (name, expected) in [
            ("REQUEST_METHOD", json!("GET")),
            ("SCRIPT_NAME", json!("")),
            ("PATH_INFO", json!("/environ")),
            ("QUERY_STRING", json!("a=1&b=%20")),
            ("REQUEST_URI", json!("/environ?a=1&b=%20")),
            ("SERVER_PROTOCOL", json!("HTTP/1.1")),
            ("SERVER_NAME", json!("test")),
            ("SERVER_PORT", json!(port)),
            ("SERVER_ADDR", json!("127.0.0.1")),
            ("REMOTE_ADDR", json!("127.0.0.1")),
            ("wsgi.url_scheme", json!("http")),
            ("wsgi.version", json!([1, 0])),
            ("wsgi.multithread", json!(false)),
            ("wsgi.multiprocess", json!(false)),
            ("wsgi.run_once", json!(false)),
            ("HTTP_HOST", json!("test")),
            ("HTTP_USER_AGENT", json!("test")),
            ("HTTP_COOKIE", json!("a=1; b=2")),
            ("HTTP_X_TWICE", json!("1, 2")),
            // The two bytes of the UTF-8 of é, as two characters.
            ("HTTP_X_LATIN", json!("\u{c3}\u{a9}")),
        ] {
            assert_eq!(environ[name], expected, "{name} in {environ}");
        }
        for absent in [
            "HTTP_PROXY",
            "CONTENT_TYPE",
            "CONTENT_LENGTH",
            "HTTP_CONTENT_LENGTH",
        ] {
            assert_eq!(environ[absent], Value::Null, "{absent}");
        }
        let again = site.get("/environ").json();
        for absent in ["HTTP_COOKIE", "HTTP_X_TWICE", "HTTP_USER_AGENT"] {
            assert_eq!(again[absent], Value::Null, "{absent} of the request before");
        }
        let posted = site
            .send("POST", "/environ", "content-type: text/x\r\n", b"abc")
            .json();
        assert_eq!(posted["CONTENT_TYPE"], "text/x");
        assert_eq!(posted["CONTENT_LENGTH"], "3");
        assert_eq!(posted["REQUEST_METHOD"], "POST");
        let encoded = site.get("/%C3%A9%2Fx").text();
        assert_eq!(encoded, "Hello from Python\n");
    });
}

#[test]
fn more_field_names_than_are_kept_come_through() {
    let site = PythonSite::start(&json!({}));
    for round in 0..12 {
        let fields: Vec<_> = (0..60)
            .map(|n| format!("X-R{round}-N{n}: {n}\r\n"))
            .collect();
        let twice = format!("X-R{round}-N7: again\r\n");
        let environ = site
            .send("GET", "/environ", &(fields.concat() + &twice), b"")
            .json();
        assert_eq!(environ[format!("HTTP_X_R{round}_N59")], "59");
        assert_eq!(environ[format!("HTTP_X_R{round}_N7")], "7, again");
    }
}

#[test]
fn the_body_can_be_read_in_every_way() {
    both(|site| {
        let lines: &[u8] = b"first\nsecond\n\nlast";
        let piped = "first\n|second\n|\n|last";
        for (how, expected) in [
            ("how=read", "first\nsecond\n\nlast"),
            ("how=read&size=7", "first\ns"),
            ("how=pieces&size=4", "first\nsecond\n\nlast"),
            ("how=readline", piped),
            ("how=readline_size&size=4", "firs|t\n|seco|nd\n|\n|last"),
            ("how=readlines", piped),
            ("how=iterate", piped),
            ("how=mixed&size=100", "first\n|sec|ond\n|\nlast"),
            ("how=none", ""),
        ] {
            let reply = site.send("POST", &format!("/echo?{how}"), "", lines);
            assert_eq!(reply.text(), expected, "{how}");
        }
        assert_eq!(site.get("/echo?how=read").text(), "");
    });
}

#[test]
fn a_body_beyond_memory_is_whole() {
    let site = PythonSite::start(&json!({}));
    let body: Vec<u8> = (0..200_000u32)
        .flat_map(|n| format!("{n:09}\n").into_bytes())
        .collect();
    for how in ["read", "pieces&size=70000", "readline_size&size=1000000"] {
        let reply = site.send("POST", &format!("/echo?how={how}"), "", &body);
        let got: Vec<u8> = reply
            .body
            .into_iter()
            .filter(|byte| *byte != b'|')
            .collect();
        assert!(got == body, "{how}: {} bytes of {}", got.len(), body.len());
    }
}

#[test]
fn responses_of_every_kind_are_sent_whole() {
    both(|site| {
        for kind in ["list", "tuple", "generator"] {
            let reply = site.get(&format!("/chunks?kind={kind}"));
            assert_eq!(reply.text(), "one two three", "{kind}");
        }
        assert_eq!(site.get("/write").text(), "pushed twice and returned");
        for kind in ["list", "generator"] {
            let body = site.get(&format!("/large?size=1000000&kind={kind}")).text();
            let lines: Vec<_> = body.lines().collect();
            assert_eq!(lines.len(), 15625, "{kind}");
            assert!(
                lines
                    .iter()
                    .enumerate()
                    .all(|(n, line)| line.parse() == Ok(n)),
                "{kind}"
            );
        }
        let reply = site.get("/repeated");
        assert_eq!(
            reply.head.matches("Set-Cookie: ").count(),
            2,
            "{}",
            reply.head
        );
    });
}

#[test]
fn a_response_that_is_there_at_once_has_a_length() {
    let site = PythonSite::start(&json!({}));
    let reply = site.get("/chunks?kind=list");
    assert_eq!(reply.field("Content-Length"), Some("13"));
}

#[test]
fn close_is_always_called() {
    for how in ["whole", "broken", "fails"] {
        let site = PythonSite::start(&json!({}));
        let target = format!("/closing?folder={}&how={how}", site.work().display());
        let answer = site.raw(&target);
        assert_eq!(site.wait_for_note("closed", "\n"), "closed\n", "{how}");
        // A response that breaks off has no end.
        let is_whole = ["\r\n\r\nwhole", "0\r\n\r\n"]
            .iter()
            .any(|end| answer.ends_with(end));
        assert_eq!(is_whole, how == "whole", "{how}: {answer:?}");
        assert_eq!(site.get("/").status, 200, "{how}");
    }
}

#[test]
fn a_client_that_goes_ends_the_iteration() {
    let site = PythonSite::start(&json!({"processes": 1}));
    let mut stream = site.open(&format!(
        "/closing?folder={}&how=endless",
        site.work().display()
    ));
    read_until(&mut stream, "xxxx");
    drop(stream);
    site.wait_for_file("closed");
    assert_eq!(site.get("/").status, 200);
}

#[test]
fn a_complete_response_does_not_wait_for_the_application() {
    let site = PythonSite::start(&json!({}));
    let reply = site.get(&format!("/afterwards?folder={}", site.work().display()));
    assert_eq!(reply.text(), "whole");
    assert!(!site.work().join("done").exists());
    site.touch("go");
    site.wait_for_file("done");
}

#[test]
fn files_are_sent_through_the_wrapper() {
    both(|site| {
        let content: Vec<u8> = (0..100_000u32)
            .flat_map(|n| format!("{n:09}\n").into_bytes())
            .collect();
        let path = site.server.write("work/large", &content);
        let path = path.display();
        for query in [
            "kind=rb",
            "kind=memory",
            "kind=rb&skip=12345",
            "kind=rb&length=5000",
            "kind=rb&block=7000",
        ] {
            let reply = site.get(&format!("/file?path={path}&{query}"));
            let skip = if query.contains("skip") { 12345 } else { 0 };
            let end = if query.contains("length") {
                5000
            } else {
                content.len()
            };
            assert!(
                reply.body == content[skip..end],
                "{query}: {} bytes",
                reply.body.len()
            );
        }
    });
}

#[test]
fn failures_have_a_status_and_a_traceback() {
    let site = PythonSite::start(&json!({"processes": 1}));
    for (at, traceback) in [
        ("start", "RuntimeError: fails before the start"),
        ("head", "RuntimeError: fails after the head"),
        ("silent", "did not call `start_response`"),
        ("text", "must be made of `bytes`"),
        ("twice", "a second time"),
    ] {
        let reply = site.get(&format!("/fails?at={at}"));
        assert_eq!(reply.status, 500, "{at}");
        site.wait_for_log(traceback);
    }
    let log = site.server.log();
    assert!(
        log.contains("Traceback (most recent call last)") && log.contains("application.py\", line"),
        "{log}"
    );
    // Issue 10, 1.25: all but the first line of a traceback were notices.
    let mut last = log
        .lines()
        .filter(|line| line.contains("RuntimeError: fails"));
    assert!(last.all(|line| line.contains("[error]")), "{log}");
    assert_eq!(site.get("/number").status, 500);
    site.wait_for_log("the application returned not an iterable object, but `<class 'int'>`");
    let broken = site.raw("/fails?at=middle");
    assert!(!broken.ends_with("0\r\n\r\n"), "{broken:?}");
    site.wait_for_log("fails in the middle");
}

/// Issue 28: the second exception was lost.
#[test]
fn an_exception_of_close_is_logged_beside_that_of_the_iteration() {
    let site = PythonSite::start(&json!({"processes": 1}));
    let folder = site.work();
    site.raw(&format!(
        "/closing?folder={}&how=broken%20twice",
        folder.display()
    ));
    site.wait_for_log("RuntimeError: iteration breaks off");
    site.wait_for_log("exception in `close()` of the response");
    site.wait_for_log("RuntimeError: close fails");
}

#[test]
fn leaving_ends_the_process_and_nothing_else() {
    let site = PythonSite::start(&json!({"processes": 1}));
    let before = site.get("/pid").text();
    assert_eq!(site.get("/fails?at=exit").status, 500);
    assert_ne!(site.get("/pid").text(), before);
}

#[test]
fn a_response_can_be_replaced_until_it_has_begun() {
    both(|site| {
        let replaced = site.get("/replaced");
        assert_eq!(
            (replaced.status, replaced.field("X-Replaced")),
            (503, Some("1"))
        );
        let late = site.raw("/replaced?late=1");
        assert!(
            !late.contains("503") && !late.contains("replaced"),
            "{late}"
        );
        assert!(!late.ends_with("0\r\n\r\n"), "{late:?}");
        site.wait_for_log("ValueError: the reason");
    });
}

#[test]
fn lengths_are_kept() {
    let site = PythonSite::start(&json!({"processes": 1}));
    assert_eq!(site.get("/head?length=4").text(), "body");
    assert_eq!(site.get("/head?length=2").text(), "bo");
    site.wait_for_log("more than its Content-Length");
    let short = site.raw("/head?length=9");
    assert!(
        short.contains("Content-Length: 9") && short.ends_with("body"),
        "{short}"
    );
    site.wait_for_log("less than its Content-Length");
    let head = site.send("HEAD", "/head?length=4", "", b"");
    assert_eq!(
        (head.status, head.field("Content-Length")),
        (200, Some("4"))
    );
    assert_eq!(site.send("HEAD", "/large", "", b"").status, 200);
    let bare = site.get("/bare?status=304%20Not%20Modified");
    assert_eq!(
        (bare.status, bare.body.len(), bare.field("ETag")),
        (304, 0, Some("\"1\""))
    );
    assert_eq!(site.get("/bare?status=204%20No%20Content").status, 204);
}

#[test]
fn heads_that_cannot_be_sent_are_refused() {
    let site = PythonSite::start(&json!({"processes": 1}));
    for (query, reason) in [
        ("status=abc", "`abc` is not a status"),
        ("status=2000%20OK", "is not a status"),
        ("status=101%20No", "is not a status"),
        ("name=a%20b", "cannot be sent"),
        ("value=a%0Db", "cannot be sent"),
        ("value=a%0AX-Evil:%201", "cannot be sent"),
        ("value=%E2%82%AC", "characters that cannot be sent"),
    ] {
        let reply = site.get(&format!("/head?{query}"));
        assert_eq!(reply.status, 500, "{query}: {}", reply.head);
        assert_eq!(reply.field("X-Evil"), None);
        site.wait_for_log(reason);
    }
    assert_eq!(site.get("/head?value=%C3%A9").status, 200);
}

#[test]
fn what_is_written_reaches_the_log() {
    both(|site| {
        assert_eq!(site.get("/errors").text(), "ok");
        for line in [
            "] ",
            "a complaint\n",
            "in two lines\n",
            "printed",
            "first of two\n",
            "second of two\n",
            "to stdout",
            "to stderr",
        ] {
            site.wait_for_log(line);
        }
        let log = site.server.log();
        // Issue 10, 1.25: the second line of one message was logged as a notice.
        for part in ["a complaint", "in two lines"] {
            let line = log.lines().find(|line| line.ends_with(part)).unwrap();
            assert!(line.contains("[error]"), "{line}");
        }
    });
}

#[test]
fn what_is_kept_of_a_request_is_of_no_use_later() {
    let site = PythonSite::start(&json!({"processes": 1}));
    assert_eq!(site.get("/keep").text(), "kept");
    assert_eq!(
        site.get("/keep").text(),
        "the request is over; the request is over"
    );
    assert_eq!(site.send("POST", "/echo", "", b"abc").text(), "abc");
    assert_eq!(site.get("/keep_write").text(), "kept");
    for _ in 0..2 {
        assert_eq!(site.get("/keep_write").text(), "the request is over");
    }
}

#[test]
fn a_child_that_a_request_forks_answers_nothing() {
    for threads in [1, 2] {
        let site = PythonSite::start(&json!({"processes": 1, "threads": threads}));
        let process = site.get("/pid").text();
        for (how, status) in [("return", 0), ("exit", 3), ("raise", 1), ("push", 0)] {
            let reply = site.get(&format!("/forks?how={how}"));
            assert_eq!(reply.text(), format!("parent {status}"), "{how}");
        }
        assert_eq!(site.get("/pid").text(), process);
        for line in ["child, push", "RuntimeError: the child's own"] {
            wait_until(line, || site.server.log().contains(line));
        }
    }
}

#[test]
fn threads_of_the_application_run_between_requests() {
    let site = PythonSite::start(&json!({"processes": 1}));
    site.get("/background");
    let mut last = 0;
    wait_until("ticks while nothing is asked", || {
        let now: u64 = site.get("/background").text().parse().unwrap();
        let grown = now > last + 3;
        last = now;
        grown
    });
}

#[test]
fn targets_factories_and_prefixes_lead_to_applications() {
    let site = PythonSite::start(&json!({"processes": 1, "targets": {
        "made": {"module": "made", "callable": "create_app", "factory": true, "prefix": "/shop"},
        "nested": {"module": "made", "callable": "Nested.app"},
        "inner": {"module": "package.inner", "callable": "thing"},
    }}));
    let ask = |target: &str, path: &str| {
        site.send("GET", path, &format!("Target: {target}\r\n"), b"")
            .text()
    };
    assert_eq!(ask("made", "/shop/cart"), "made: /shop /cart");
    assert_eq!(ask("made", "/shop"), "made: /shop ");
    assert_eq!(ask("made", "/shopping"), "made:  /shopping");
    assert_eq!(ask("nested", "/a"), "made:  /a");
    assert_eq!(ask("inner", "/b"), "made:  /b");
}

/// Applications take a body for unreadable that seems to have a framing (httpbin answers 501).
#[test]
fn a_body_in_chunks_comes_without_its_framing() {
    let site = PythonSite::start(&json!({"processes": 1}));
    let chunked = b"POST /environ HTTP/1.1\r\nHost: t\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let environ = tutti_testkit::client::request(site.server.address(), chunked)
        .unwrap()
        .json();
    assert_eq!(environ["CONTENT_LENGTH"], "3");
    assert_eq!(environ["HTTP_TRANSFER_ENCODING"], Value::Null);
}

/// Issue 10, 2.4: iterating over `bytes` gave numbers, and the request failed.
#[test]
fn a_body_that_is_one_bytes_object_is_sent_as_one_piece() {
    let site = PythonSite::start(&json!({"callable": "application", "processes": 1}));
    for size in [0, 1, 1000, 300_000] {
        let reply = site.get(&format!("/one_piece?size={size}"));
        assert_eq!(
            (reply.status, reply.body.len()),
            (200, size),
            "{}",
            site.server.log()
        );
    }
    let head = site.send("HEAD", "/one_piece?size=1000", "", b"");
    assert_eq!(head.status, 200);
}

#[test]
fn options_reach_the_interpreter() {
    let site = PythonSite::start(&json!({"processes": 2}));
    let second = site.work();
    site.configure(&json!({
        "path": [site.root(), second], "processes": 2, "working_directory": second, "environment": {"FLAVOUR": "mint"},
    }));
    let environ = site.get("/environ").json();
    let path = environ["sys.path"].as_array().unwrap();
    assert_eq!(path[..2], [json!(site.root()), json!(second)]);
    assert_eq!(environ["os.environ"]["FLAVOUR"], "mint");
    assert_eq!(environ["cwd"], json!(second));
    assert_eq!(environ["wsgi.multiprocess"], true);
}

/// Issue 28: with `spare` 0 it was taken without a word, and each request got 503.
#[test]
fn without_spare_processes_what_does_not_start_is_a_warning() {
    let site = PythonSite::bare();
    let state = || {
        let status = site.server.status("/applications/app");
        (
            status["started"].clone(),
            status["processes"]["running"].clone(),
        )
    };
    let on_demand = json!({"processes": {"max": 2, "spare": 0}, "module": "no_such"});
    let put = |configuration: &Value| site.server.call("PUT", "/config", configuration);
    let reply = put(&site.configuration(&on_demand));
    let warning = reply.json()["warnings"][0]["message"].clone();
    let warning = warning.as_str().unwrap_or_default();
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert!(
        warning.contains("no module named `no_such`")
            && warning.ends_with("get 503 until it starts"),
        "{}",
        reply.text()
    );
    assert_eq!(site.get("/").status, 503);
    assert_eq!(state(), (json!(false), json!(0)));
    // One that starts is tried as well, and nothing of it runs until it is asked for.
    let reply = put(&site.configuration(&json!({"processes": {"max": 2, "spare": 0}})));
    assert_eq!(reply.json()["warnings"], Value::Null, "{}", reply.text());
    assert_eq!(state(), (json!(true), json!(0)));
    assert_eq!(site.get("/").status, 200);
}

#[test]
fn an_application_that_does_not_start_says_why() {
    let site = PythonSite::bare();
    for (extra, texts) in [
        (
            json!({"module": "broken"}),
            &[
                "importing module `broken`",
                "RuntimeError: the reason why",
                "in inner",
            ][..],
        ),
        (
            json!({"module": "no_such"}),
            &["no module named `no_such` in ", "check `path` and `module`"],
        ),
        (
            json!({"module": "application.py"}),
            &["a module's name, not a file's: `application`"],
        ),
        (
            json!({"module": "made:app"}),
            &["set `module` to `made`, and `callable` to `app`"],
        ),
        (
            json!({"module": "needs"}),
            &[
                "No module named 'no_such_library'",
                "name a virtual environment that has it",
            ],
        ),
        (
            json!({"module": "made"}),
            &[
                "no attribute 'application'",
                "set `callable` to it, and `factory`",
            ],
        ),
        (
            json!({"module": "made", "callable": "number"}),
            &["it is no callable but <class 'int'>"],
        ),
        (
            json!({"path": "/no/such", "module": "x"}),
            &["`/no/such`: No such file"],
        ),
        (
            json!({"home": "/no/such/venv"}),
            &["`/no/such/venv`", "-m venv /no/such/venv"],
        ),
    ] {
        let answer = site.refused(&extra).to_string();
        for text in texts {
            let escaped = json!(text).to_string();
            assert!(
                answer.contains(escaped.trim_matches('"')),
                "{text} is not in {answer}"
            );
        }
    }
    site.wait_for_log("RuntimeError: the reason why");
    site.configure(&json!({}));
    assert_eq!(site.get("/").text(), "Hello from Python\n");
}

#[test]
fn a_virtual_environment_is_entered() {
    let site = PythonSite::bare();
    let home = site.server.folder().join("venv");
    site.configure(&json!({}));
    // The environment must be made by the Python that the host was built for.
    let prefix = site.get("/environ").json()["sys.prefix"].clone();
    let python = std::path::Path::new(prefix.as_str().unwrap()).join("bin/python3");
    let made = std::process::Command::new(python)
        .args(["-m", "venv", "--without-pip"])
        .arg(&home)
        .status();
    assert!(made.unwrap().success());
    let library = fs::read_dir(home.join("lib"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    fs::write(
        library.join("site-packages/only_here.py"),
        "from application import application\n",
    )
    .unwrap();
    assert!(
        site.refused(&json!({"module": "only_here"}))
            .to_string()
            .contains("no module named")
    );
    site.configure(&json!({"module": "only_here", "home": home}));
    assert_eq!(site.get("/environ").json()["sys.prefix"], json!(home));
}

#[test]
fn threads_of_a_process_serve_at_once() {
    let site =
        PythonSite::start(&json!({"processes": 1, "threads": 4, "thread_stack_size": 1 << 20}));
    assert_eq!(site.get("/environ").json()["wsgi.multithread"], true);
    let held: Vec<_> = (0..3)
        .map(|number| {
            site.open(&format!(
                "/thread?folder={}&wait=go{number}",
                site.work().display()
            ))
        })
        .collect();
    for number in 0..3 {
        site.wait_for_file(&format!("at-go{number}"));
    }
    // Three threads wait; the fourth answers.
    let free = site.get("/thread").text();
    for number in 0..3 {
        site.touch(&format!("go{number}"));
    }
    let mut seen = vec![free];
    for mut stream in held {
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (_, body) = text.split_once("\r\n\r\n").unwrap();
        seen.push(body.to_owned());
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 4, "{seen:?}");
    let pids: std::collections::BTreeSet<_> = seen
        .iter()
        .filter_map(|text| text.split(' ').next())
        .collect();
    assert_eq!(pids.len(), 1, "{seen:?}");
    // The interpreter is passed on among them under load.
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..50 {
                    assert_eq!(site.get("/large?size=100000").body.len(), 99_968);
                }
            });
        }
    });
}

#[test]
fn a_preloaded_application_is_imported_once() {
    let site = PythonSite::bare();
    // Each answer comes from a process of its own.
    site.configure(&json!({
        "module": "preloaded", "processes": 1, "preload": true, "limits": {"requests": 1},
    }));
    let first = site.get("/").json();
    let other = site.get("/").json();
    assert_ne!(first["pid"], other["pid"]);
    assert_eq!(first["imported"], other["imported"]);
    assert_ne!(first["imported"], first["pid"]);
    assert_eq!(first["hooks"], json!(["before", "child"]));
    assert_ne!(first["random"], other["random"]);
    let refused = site.refused(&json!({"module": "broken", "preload": true}));
    assert!(refused.to_string().contains("the reason why"), "{refused}");
}

#[test]
fn sitecustomize_runs_in_each_process_before_the_application() {
    let site = PythonSite::bare();
    let folder = site.root().join("customized");
    let mut members = json!({
        "module": "customized_application", "processes": 2, "environment": {"PYTHONPATH": folder},
    });
    site.configure(&members);
    assert_eq!(site.get("/").text(), "here");
    members["environment"]["CUSTOMIZED_FAILS"] = json!("1");
    site.configure(&members);
    assert_eq!(site.get("/").text(), "None");
    site.server.wait_for_log("no agent today");
    // A process that forks others must have one thread.
    members["environment"] = json!({"PYTHONPATH": folder});
    members["preload"] = json!(true);
    let refused = site.refused(&members).to_string();
    assert!(refused.contains("several threads"), "{refused}");
}

#[test]
fn what_is_registered_for_the_end_runs() {
    let site = PythonSite::start(&json!({"processes": 1}));
    assert_eq!(
        site.get(&format!("/farewell?folder={}", site.work().display()))
            .text(),
        "noted"
    );
    site.server.put("/config", &json!({}));
    site.wait_for_note("farewell", "good bye");
}
