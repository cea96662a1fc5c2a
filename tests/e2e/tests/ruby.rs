//! A Rack application and its operator may rely on this, through the whole server. All but what it knows nothing of runs under
//! `Rack::Lint`.

use std::fs;
use std::io::{Read, Write};

use serde_json::{Value, json};
use tutti_e2e::ruby::RubySite;
use tutti_e2e::{read_until, wait_for_place};
use tutti_sys::signal;
use tutti_testkit::{client, wait_until};

fn site() -> RubySite {
    RubySite::start("config.ru", &json!({}))
}

fn single() -> RubySite {
    RubySite::start("config.ru", &json!({"processes": 1}))
}

// The environment.

#[test]
fn the_environment_is_complete() {
    let site = site();
    let fields = "X-Field: one\r\nx-field: two\r\nCookie: a=1\r\nCookie: b=2\r\nProxy: evil\r\nVersion: evil\r\nContent-Type: text/x\r\nContent-Length: 4\r\n";
    let env = site
        .send("POST /a%2Fb//c/env?x=%20y", fields, b"body")
        .json();
    let expected = json!({
        "REQUEST_METHOD": "POST", "SCRIPT_NAME": "", "PATH_INFO": "/a%2Fb/c/env", "REQUEST_URI": "/a%2Fb/c/env?x=%20y",
        "QUERY_STRING": "x=%20y", "SERVER_NAME": "test", "SERVER_PORT": site.server.port().to_string(),
        "SERVER_PROTOCOL": "HTTP/1.1", "HTTP_VERSION": "HTTP/1.1", "REMOTE_ADDR": "127.0.0.1", "CONTENT_TYPE": "text/x",
        "CONTENT_LENGTH": "4", "HTTP_HOST": "test", "HTTP_X_FIELD": "one, two", "HTTP_COOKIE": "a=1; b=2",
        "rack.version": [1, 6], "rack.url_scheme": "http", "rack.multithread": false, "rack.multiprocess": true,
        "rack.run_once": false, "rack.response_finished": [],
        "rack.hijack?": true
    });
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&env[name], value, "{name}");
    }
    assert_ne!(env["REMOTE_PORT"], "0");
    for name in [
        "HTTP_PROXY",
        "HTTP_CONTENT_TYPE",
        "HTTP_CONTENT_LENGTH",
        "rack.protocol",
    ] {
        assert_eq!(env[name], Value::Null, "{name}");
    }
    assert_eq!(site.get("/keys").text(), "true true false");
}

#[test]
fn an_application_sees_the_path_that_was_routed() {
    let site = site();
    for (target, path) in [
        ("/a/../env", "/env"),
        ("//a///env", "/a/env"),
        ("/a%2fb/env", "/a%2fb/env"),
    ] {
        let env = site.get(target).json();
        assert_eq!(env["PATH_INFO"], path, "{target}");
        assert_eq!(env["REQUEST_URI"], path);
    }
    // Issue 12: it was decoded, and Rack's own Files, Rails and Sinatra decoded it again.
    let env = site.get("/%c3%bc%2520%41/env").json();
    assert_eq!(env["PATH_INFO"], "/%c3%bc%2520A/env");
    assert_eq!(
        site.get("/raw/script_name").text(),
        "/raw /script_name",
        "as Rack's own `map` divides it"
    );
}

#[test]
fn http_1_0_without_host_has_a_server_name() {
    let site = site();
    let reply = client::request(
        site.server.address(),
        b"GET /raw/script_name HTTP/1.0\r\n\r\n",
    );
    assert_eq!(reply.unwrap().status, 200);
    let one = single();
    let reply = client::request(
        one.server.address(),
        b"GET /env HTTP/1.0\r\nHost: a\r\n\r\n",
    );
    let env = reply.unwrap().json();
    assert_eq!(env["SERVER_PROTOCOL"], "HTTP/1.0");
    assert_eq!(env["rack.multiprocess"], false);
}

#[test]
fn an_application_that_keeps_a_request_does_not_see_the_next() {
    let site = single();
    assert_eq!(site.post("/keep?first", b"a body").text(), "kept");
    assert_eq!(
        site.post("/kept?second", b"another").text(),
        "first / the request has ended / another"
    );
}

// The request's body.

/// Rack 3 does not ask for it of a body that comes as the client sends it: there is no `rewind` then, which Rails looks for.
fn can_be_read_again(site: &RubySite, buffering: bool) -> bool {
    buffering || site.get("/release").text().starts_with('2')
}

#[test]
fn input_reads_lines_pieces_and_all_again() {
    let body = b"0123456789\nsecond line\nthird\nend";
    let read = json!([
        "0123",
        "",
        "456789\n",
        "second line\n",
        "third\n|end",
        "",
        "nil",
        "nil",
        "012",
        "012"
    ]);
    for buffering in [true, false] {
        let site = RubySite::start("config.ru", &json!({"request_buffering": buffering}));
        let mut read = read.clone();
        if !can_be_read_again(&site, buffering) {
            read.as_array_mut().unwrap().truncate(8);
        }
        for _ in 0..2 {
            assert_eq!(site.post("/raw/body", body).json(), read);
            let fields = "Transfer-Encoding: chunked\r\n";
            let reply = site.send("POST /raw/body", fields, &client::chunked(body, 7));
            assert_eq!(reply.json(), read);
        }
        assert_eq!(
            site.post("/in_a_thread", b"of another").text(),
            "of another"
        );
    }
}

#[test]
fn large_bodies_are_read_in_pieces_and_whole() {
    let body: Vec<u8> = (0..2_000_000_u32).map(|i| b'a' + (i % 23) as u8).collect();
    for buffering in [true, false] {
        let site = RubySite::start("config.ru", &json!({"request_buffering": buffering}));
        let found = site.post("/raw/digest", &body).json();
        if !can_be_read_again(&site, buffering) {
            assert_eq!(found.as_array().map(Vec::len), Some(1));
            continue;
        }
        assert_eq!(found[0], found[1]);
        assert_eq!(found[2], body.len());
        assert_eq!(found[3], "ASCII-8BIT");
    }
    let site = single();
    let lengths = [10, 70_000, 1, 65_536, 131_072, 5];
    let mut body = Vec::new();
    for length in lengths {
        body.resize(body.len() + length - 1, b'x');
        body.push(b'\n');
    }
    assert_eq!(site.post("/lengths", &body).json(), json!(lengths));
}

/// Each piece of a line was looked for in the whole line: this body would have taken minutes.
#[test]
fn a_line_costs_as_much_as_it_is_long() {
    let site = single();
    // The separator is in two of the pieces in which the body is taken.
    let length = 244 * 8192;
    let mut body = vec![b'-'; length - 1];
    body.extend_from_slice(b"_-rest");
    let found = site.post("/raw/ended?_-", &body).json();
    assert_eq!(found, json!([[length + 1, true], [4, false]]));
}

/// There was none: the empty separator ended every line.
#[test]
fn paragraphs_of_a_body_are_read_as_from_a_file() {
    let site = single();
    let found = site.post("/raw/ended", b"\n\na\nb\n\n\n\nc\n").json();
    assert_eq!(found, json!([[5, true], [2, true]]));
}

#[test]
fn forms_and_uploads_are_parsed_by_rack() {
    for buffering in [true, false] {
        let site = RubySite::start("config.ru", &json!({"request_buffering": buffering}));
        let mut body = b"--b\r\nContent-Disposition: form-data; name=\"word\"\r\n\r\ntune\r\n--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\nContent-Type: image/png\r\n\r\n".to_vec();
        body.resize(body.len() + 100_000, b'x');
        body.extend_from_slice(b"\r\n--b--\r\n");
        let fields = format!(
            "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: {}\r\n",
            body.len()
        );
        let reply = site.send("POST /form", &fields, &body);
        assert_eq!(reply.text(), "tune 100000");
        let fields = "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 9\r\n";
        assert_eq!(site.send("POST /form", fields, b"word=t%2F").text(), "t/ ");
    }
}

#[test]
fn errors_go_to_the_log_line_by_line() {
    let site = site();
    assert_eq!(site.get("/errors").text(), "logged");
    site.wait_for_log("from warn\n");
    let log = site.server.log();
    for text in ["first line", "second line", "in two pieces"] {
        let line = log.lines().find(|line| line.ends_with(text));
        assert!(line.is_some_and(|line| line.contains("[error]")), "{log}");
    }
}

// Answers.

#[test]
fn arrays_are_joined_and_measured() {
    let site = site();
    let reply = site.get("/raw/pieces");
    assert_eq!(
        (reply.text().as_str(), reply.field("Content-Length")),
        ("one two 3", Some("9"))
    );
    let reply = site.get("/empty");
    assert_eq!((reply.status, reply.field("Content-Length")), (204, None));
    assert_eq!(site.get("/unchanged").status, 304);
    let reply = site.send("HEAD /raw/pieces", "", b"");
    assert_eq!(
        (reply.body.len(), reply.field("Content-Length")),
        (0, Some("9"))
    );
    assert_eq!(site.get("/raw/ary").text(), "allatonce");
    site.wait_for_note("closed", "ary");
}

#[test]
fn fields_are_those_of_rack_2_and_3() {
    let site = site();
    for target in ["/lines_of_a_header", "/raw/array_of_values"] {
        let reply = site.get(target);
        let text = reply.head.to_ascii_lowercase();
        for line in ["set-cookie: a=1\r\n", "set-cookie: b=2\r\n"] {
            assert!(text.contains(line), "{target}: {text}");
        }
        assert!(!text.contains("rack."), "{text}");
    }
    assert_eq!(
        site.get("/raw/array_of_values").field("X-Number"),
        Some("7")
    );
    assert_eq!(site.get("/raw/pairs").field("X-Pair"), Some("yes"));
}

#[test]
fn a_head_is_sent_as_it_was_when_ruby_moves_its_strings() {
    let reply = site().get("/raw/moved");
    for number in 0..200 {
        assert_eq!(
            reply.field(&format!("X-Field-{number}")),
            Some(format!("value {number}").as_str()),
            "{}",
            reply.head
        );
    }
}

#[test]
fn a_body_that_the_application_frames_is_framed_once() {
    let site = site();
    let reply = site.get("/raw/framed");
    assert_eq!(reply.text(), "hello!\r\n", "{}", reply.head);
    assert_eq!(site.get("/raw/framed_wrongly").status, 500);
    site.wait_for_log("is not framed as `Transfer-Encoding: chunked` says");
}

#[test]
fn bodies_are_iterated_and_closed() {
    let site = site();
    assert_eq!(site.get("/each_body").body.len(), 100_002);
    site.wait_for_note("closed", "each");
    let mut stream = site.open("/each_slow");
    let got = read_until(&mut stream, "first");
    assert!(!got.contains("second"));
    fs::write(site.work().join("go"), "").unwrap();
    read_until(&mut stream, "second");
    site.wait_for_note("closed", "slow");
}

#[test]
fn files_are_sent_whole() {
    let site = site();
    let large: Vec<u8> = (0..3_000_000_u32).map(|i| (i % 251) as u8).collect();
    fs::write(site.work().join("file"), &large).unwrap();
    let reply = site.get("/raw/file");
    assert_eq!(reply.body, large);
    assert_eq!(reply.field("Content-Length"), Some("3000000"));
    site.wait_for_note("closed", "file");
    let reply = site.send("HEAD /raw/file", "", b"");
    assert_eq!(reply.body.len(), 0);
    assert_eq!(site.get("/raw/no_file").text(), "read all the same");
}

#[test]
fn streams_go_out_as_they_are_written() {
    let site = site();
    let mut stream = site.connect();
    stream
        .write_all(b"POST /raw/streamed HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbody")
        .unwrap();
    let got = read_until(&mut stream, "first");
    assert!(!got.contains("second"));
    fs::write(site.work().join("go"), "").unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    // Each write may be a chunk of its own.
    assert!(rest.contains("second ") && rest.contains("body"), "{rest}");
    site.wait_for_note("late", "closed stream");
    assert_eq!(site.get("/raw/streamed_by_thread").text(), "from a thread");
}

#[test]
fn a_stream_reads_while_it_writes() {
    let site = RubySite::start("config.ru", &json!({"request_buffering": false}));
    let mut stream = site.connect();
    stream
        .write_all(b"POST /raw/echo HTTP/1.1\r\nHost: test\r\nContent-Length: 10\r\n\r\none\n")
        .unwrap();
    read_until(&mut stream, "<one>");
    stream.write_all(b"two\nx\n").unwrap();
    read_until(&mut stream, "<x>");
}

#[test]
fn handlers_run_when_the_answer_is_out() {
    let site = site();
    assert_eq!(site.get("/raw/finished").text(), "answered");
    let noted = site.wait_for_note("finished", "true 200");
    assert!(noted.starts_with("last one first\n"), "{noted}");
    assert!(noted.contains("true 200 text/plain NilClass"), "{noted}");
    assert_eq!(site.get("/raw/finished?raise").status, 500);
    site.wait_for_note("finished", "RuntimeError");
}

#[test]
fn a_client_that_goes_ends_its_request_alone() {
    let site = single();
    for target in ["/endless", "/raw/streamed_endless"] {
        let mut stream = site.open(target);
        read_until(&mut stream, "xxxx");
        drop(stream);
    }
    site.wait_for_note("closed", "endless");
    site.wait_for_note("gone", "Errno::EPIPE");
    assert_eq!(site.get("/hello").text(), "hello");
    assert!(
        !site.server.log().contains("[error]"),
        "{}",
        site.server.log()
    );
}

// Faults of the application.

#[test]
fn exceptions_are_500_with_a_backtrace_in_the_log() {
    let site = single();
    for (target, texts) in [
        ("/raises", ["no such thing (ArgumentError)", "in `raises'"]),
        ("/cause", ["outer (ArgumentError)", "inner (KeyError)"]),
        ("/throws", ["uncaught throw :nothing", "in `throws'"]),
        ("/deep", ["SystemStackError", "in `deep'"]),
        ("/nobody", ["NoMethodError", "nobody"]),
        ("/raw/bad_name", ["bad name", "a name is a token"]),
        ("/raw/bad_value", ["x-bad", "no line break"]),
        ("/raw/bad_status", ["from 200 to 599", "99"]),
        ("/raw/string_body", ["String does not", "into an array"]),
        ("/raw/no_response", ["must return an array", "NilClass"]),
        (
            "/raw/number_in_body",
            ["must consist of strings", "Integer"],
        ),
    ] {
        let worker = site.workers();
        let reply = site.get(target);
        assert_eq!(reply.status, 500, "{target}: {}", site.server.log());
        assert!(!reply.text().contains("such"), "{}", reply.text());
        for text in texts {
            let quoted = text.replace('`', "'");
            wait_until(&format!("{target}: {text}"), || {
                let log = site.server.log();
                log.contains(text)
                    || log
                        .replace('`', "'")
                        .replace("Answers.", "")
                        .contains(&quoted)
            });
        }
        assert_eq!(site.workers(), worker, "{target}");
    }
    let mut stream = site.open("/each_fails");
    read_until(&mut stream, "begun");
    fs::write(site.work().join("go"), "").unwrap();
    let mut rest = String::new();
    // It may be reset.
    let _ = stream.read_to_string(&mut rest);
    assert!(!rest.ends_with("0\r\n\r\n"), "{rest}");
    site.wait_for_log("in the middle");
    site.wait_for_note("closed", "fails");
}

#[test]
fn an_application_that_exits_answers_and_is_replaced() {
    let site = single();
    for (target, status, told) in [
        (
            "/exits",
            500,
            "called exit(3) instead of answering `GET /exits`",
        ),
        ("/ends_thread", 500, "ended the thread that served"),
        ("/exits_at_once", 502, "4"),
        ("/aborts", 502, "signal 6"),
    ] {
        let workers = site.workers();
        assert_eq!(site.get(target).status, status, "{target}");
        site.wait_for_log(told);
        wait_until("another process", || {
            let now = site.workers();
            now.len() == 1 && now != workers
        });
        assert_eq!(site.get("/hello").text(), "hello");
    }
}

#[test]
fn children_do_not_answer() {
    let site = single();
    let workers = site.workers();
    assert_eq!(site.get("/forks").text(), "child ended with 0");
    site.wait_for_note("child", "ends");
    let text = site.get("/fork_returns").text();
    assert_eq!(text, "parent of a child that ended with 0");
    assert_eq!(site.get("/command").text(), "from a command7");
    assert_eq!(site.workers(), workers);
}

#[test]
fn signals_reach_the_application_on_its_main_thread() {
    let site = single();
    assert_eq!(site.get("/signal").text(), "trapped");
    site.wait_for_note("trapped", "true");
}

#[test]
fn a_worker_says_where_it_is() {
    let options = json!({"processes": 1, "threads": 2});
    let site = RubySite::start("config.ru", &options);
    let _waits = site.open("/loops");
    let worker = site.wait_for_note("looping", "\n");
    let worker = worker.trim().parse().unwrap();
    let place = wait_for_place(&site, worker, "inner");
    assert!(place[0].contains("config.ru:"), "{place:?}");
    assert!(
        place[1].contains("  called at ") && place[1].ends_with("outer"),
        "{place:?}"
    );
    assert!(place[2].ends_with("loops"), "{place:?}");
    signal::send(worker, libc::SIGKILL).unwrap();
}

// Threads, hooks, preload.

#[test]
fn threads_serve_at_once_in_one_process() {
    const SIZE: usize = 77 << 20;
    let options = json!({"processes": 1, "threads": 2, "thread_stack_size": SIZE});
    let site = RubySite::start("config.ru", &options);
    let mut one = site.open("/meet");
    let mut other = site.open("/meet");
    let worker = site.workers()[0].to_string();
    for stream in [&mut one, &mut other] {
        read_until(stream, &worker);
    }
    assert!(site.get("/threads").text().starts_with("true "));
    wait_until("two stacks of that size", || {
        let maps = fs::read_to_string(format!("/proc/{worker}/maps")).unwrap();
        maps.lines().filter(|line| is_stack(line, SIZE)).count() == 2
    });
}

/// True for a mapping of this size; ruby adds a little to it for its own stack.
fn is_stack(line: &str, size: usize) -> bool {
    let number = |text: &str| usize::from_str_radix(text, 16).unwrap();
    let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
    (size..size + (2 << 20)).contains(&(number(end) - number(start)))
}

#[test]
fn hooks_run_in_each_process_and_thread() {
    let of = |name: &str| tutti_e2e::ruby::scripts().join(name);
    // Methods, and blocks (issue 28).
    for (hooks, preload) in [
        (of("hooks.rb"), false),
        (of("hooks.rb"), true),
        (of("hook_blocks.rb"), false),
        (of("hook_blocks.rb"), true),
    ] {
        let options = json!({
            "processes": 1, "threads": 2, "hooks": hooks, "preload": preload
        });
        let site = RubySite::start("config.ru", &options);
        let told = site.get("/hooks").text();
        assert_eq!(told, format!("worker {} thread", site.workers()[0]));
        site.server.restart("ruby");
        let noted = site.wait_for_note("hooks", "worker shutdown");
        let mut first: Vec<_> = noted.lines().collect();
        first.retain(|line| !line.ends_with("boot"));
        assert_eq!(
            first,
            ["thread shutdown", "thread shutdown", "worker shutdown"]
        );
        assert!(
            noted.starts_with("worker boot\nthread boot\nthread boot\n"),
            "{noted}"
        );
    }
}

#[test]
fn preload_loads_once_and_draws_different_numbers() {
    let site = RubySite::start("config.ru", &json!({"preload": true, "processes": 1}));
    let count = |site: &RubySite| {
        let text = site.get("/count").text();
        text.split(' ').map(str::to_owned).collect::<Vec<_>>()
    };
    let one = count(&site);
    let workers = site.workers();
    assert_eq!(site.get("/exits").status, 500);
    wait_until("another process", || {
        let now = site.workers();
        now.len() == 1 && now != workers
    });
    let other = count(&site);
    assert_ne!(one[1], other[1], "another worker");
    assert_eq!(one[2], other[2], "loaded by the prototype");
    assert_ne!(one[1], one[2]);
    assert_eq!(one[3], other[3], "drawn before the fork");
    assert_ne!(one[4], other[4], "drawn after it");
    let words = count(&single());
    assert_eq!(words[1], words[2], "loaded by the worker");
}

#[test]
fn a_thread_that_preload_would_lose_is_logged() {
    let site = site();
    let script = "Thread.new { sleep }.name = 'ticker'\nrun ->(_) { [200, {}, ['fine']] }\n";
    fs::write(site.root().join("thread.ru"), script).unwrap();
    let reply = site.configure("thread.ru", &json!({"preload": true}));
    assert_eq!(reply.status, 200, "{}", reply.text());
    site.wait_for_log("has started the thread `ticker` (");
    assert_eq!(site.get("/").text(), "fine");
}

// Applications that do not load.

#[test]
fn a_script_that_does_not_load_is_reported_with_its_place() {
    let site = site();
    let worker = site.workers();
    let bad = [
        (
            "syntax.ru",
            "run 1\nx = = 2\n",
            "syntax error",
            "syntax.ru:2",
        ),
        (
            "raises.ru",
            "raise 'no database'\n",
            "no database",
            "raises.ru:1",
        ),
        (
            "gem.ru",
            "require 'no_such/gem'\n",
            "no-such-gem",
            "gem install",
        ),
        ("no_app.ru", "x = 1\n", "missing run or map", "no_app.ru"),
        ("not_one.ru", "run 42\n", "respond to `call`", "not_one.ru"),
        ("exits.ru", "exit 4\n", "exit(4)", "exits.ru"),
        (
            "crashes.ru",
            "warn 'last words'\nProcess.kill('ABRT', Process.pid)\nsleep\n",
            "signal 6",
            "last words",
        ),
    ];
    for (name, script, what, place) in bad {
        fs::write(site.root().join(name), script).unwrap();
        for preload in [false, true] {
            let reply = site.configure(name, &json!({"preload": preload}));
            assert_eq!(reply.status, 500, "{name}: {}", reply.text());
            let detail = reply.json()["detail"].as_str().unwrap().to_owned();
            assert!(
                detail.contains(what) && detail.contains(place),
                "{name}: {detail}"
            );
        }
    }
    let reply = site.configure("not_there.ru", &json!({}));
    assert!(
        reply.text().contains("there is no such file"),
        "{}",
        reply.text()
    );
    assert_eq!(
        reply.json()["errors"][0]["pointer"],
        "/applications/ruby/script"
    );
    for (name, text, what) in [
        (
            "boot.rb",
            "def on_worker_boot\n  raise 'no cache'\nend\n",
            "no cache",
        ),
        (
            "thread.rb",
            "def on_thread_boot = raise('no pool')\n",
            "no pool",
        ),
        ("wrong.rb", "def (\n", "syntax error"),
        (
            "block.rb",
            "on_worker_boot\n",
            "`on_worker_boot` needs a block",
        ),
        (
            "boot_block.rb",
            "on_worker_boot { raise 'no queue' }\n",
            "no queue",
        ),
    ] {
        let hooks = site.root().join(name);
        fs::write(&hooks, text).unwrap();
        let reply = site.configure("config.ru", &json!({"hooks": hooks}));
        assert_eq!(reply.status, 500, "{}", reply.text());
        assert!(reply.text().contains(what), "{}", reply.text());
        let pointer = &reply.json()["errors"][0]["pointer"];
        assert_eq!(pointer, "/applications/ruby/hooks", "{}", reply.text());
    }
    assert_eq!(site.workers(), worker, "the old application serves on");
    assert_eq!(site.get("/hello").text(), "hello");
}

/// Issue 28: such a text was lost, or came with the next request's.
#[test]
fn errors_without_an_end_of_line_are_logged_when_the_request_ends() {
    let site = site();
    let script = "run ->(env) { env['rack.errors'].write('cut ', 'short'); [200, {}, ['sent']] }\n";
    fs::write(site.root().join("errors.ru"), script).unwrap();
    let reply = site.configure("errors.ru", &json!({}));
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(site.get("/").text(), "sent");
    site.wait_for_log("cut short");
}

/// Issue 28: the field had a text that did not come from the application.
#[test]
fn an_object_without_a_text_is_named() {
    let site = site();
    let script = "class Textless\n  def to_s = nil\nend\n\
        run ->(env) do\n  env['rack.errors'].puts(Textless.new) if env['PATH_INFO'] == '/errors'\n  [200, {'x-field' => Textless.new}, []]\nend\n";
    fs::write(site.root().join("textless.ru"), script).unwrap();
    let reply = site.configure("textless.ru", &json!({}));
    assert_eq!(reply.status, 200, "{}", reply.text());
    for target in ["/", "/errors"] {
        assert_eq!(site.get(target).status, 500);
        let told = "`to_s` of an object of Textless gives nil, which is no string";
        wait_until("the object is named", || {
            site.server.log().matches(told).count() == 1 + usize::from(target == "/errors")
        });
    }
}

#[test]
fn the_stack_of_threads_is_not_in_the_environment() {
    let site = site();
    let script = "run ->(_) { [200, {}, [ENV.key?('RUBY_THREAD_MACHINE_STACK_SIZE').to_s]] }\n";
    fs::write(site.root().join("stack.ru"), script).unwrap();
    let reply = site.configure("stack.ru", &json!({"thread_stack_size": 4 << 20}));
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(site.get("/").text(), "false");
}

#[test]
fn files_are_utf_8_without_a_locale() {
    let site = site();
    let script =
        "# \u{fc}mlaut\nrun ->(_) { [200, {}, [File.read(__FILE__).valid_encoding?.to_s]] }\n";
    fs::write(site.root().join("letters.ru"), script).unwrap();
    let options = json!({"environment": {"LC_ALL": "C"}});
    let reply = site.configure("letters.ru", &options);
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(site.get("/").text(), "true");
}

#[test]
fn the_bundle_of_an_application_is_used() {
    let site = site();
    let folder = site.root().join("bundled");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("Gemfile"), "gem 'rack'\n").unwrap();
    let script = "run ->(_) { [200, {}, [ENV['BUNDLE_GEMFILE'], ' ', defined?(Bundler).to_s]] }\n";
    fs::write(folder.join("config.ru"), script).unwrap();
    fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let reply = site.configure("bundled/config.ru", &json!({}));
    assert_eq!(reply.status, 200, "{}", reply.text());
    let expected = format!("{} expression", folder.join("Gemfile").display());
    assert!(
        site.get("/")
            .text()
            .starts_with(expected.strip_suffix(" expression").unwrap())
    );
    assert!(
        site.get("/").text().ends_with(" expression")
            || site.get("/").text().ends_with(" constant")
    );

    fs::write(
        folder.join("Gemfile"),
        "gem 'rack'\ngem 'no_such_gem_at_all'\n",
    )
    .unwrap();
    let reply = site.configure("bundled/config.ru", &json!({"environment": {"A": "b"}}));
    assert_eq!(reply.status, 500, "{}", reply.text());
    for part in ["no_such_gem_at_all", "bundle install"] {
        assert!(reply.text().contains(part), "{}", reply.text());
    }
    let options = json!({"environment": {"BUNDLE_GEMFILE": ""}});
    let reply = site.configure("bundled/config.ru", &options);
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(site.get("/").status, 200);
}
