//! Requests to an application: real worker processes of the sample host, a real server, raw bytes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "clippy's `allow-unwrap-in-tests` does not see functions beside the tests"
)]

mod support;

use std::time::Duration;

use support::Site;
use support::app::App;
use support::backend::Backend;
use tutti_options::OptionalLimit;
use tutti_options::processes::Queue;
use tutti_pool::{Abandoned, Limits};
use tutti_sys::signal;
use tutti_testkit::{Gate, client::Client, wait_until};

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: test\r\n\r\n")
}

/// The body of the sample's `/big?n=`.
fn big(bytes: usize) -> Vec<u8> {
    let mut all: Vec<u8> = (0..bytes.div_ceil(64))
        .flat_map(|line| format!("{line:063}\n").into_bytes())
        .collect();
    all.truncate(bytes);
    all
}

const SIGCONT: i32 = 18;
const SIGSTOP: i32 = 19;

#[test]
fn requests_are_answered_by_workers_on_a_connection_that_stays() {
    let app = App::new(2);
    let mut client = app.site.connect();
    for _ in 0..50 {
        client.send(get("/hello"));
        let response = client.response("GET");
        assert_eq!(
            (response.status, response.text().as_str()),
            (200, "Hello from a worker\n")
        );
        assert_eq!(response.field("Content-Length"), Some("20"));
        assert!(response.field("Server").is_some() && response.field("Date").is_some());
    }
    client.send(get("/status?code=404"));
    assert_eq!(client.response("GET").status, 404);
    client.send("HEAD /hello HTTP/1.1\r\nHost: test\r\n\r\n");
    let head = client.head();
    assert_eq!(
        (head.status, head.field("Content-Length")),
        (200, Some("20"))
    );
    client.send("HEAD /big?n=5000000 HTTP/1.1\r\nHost: test\r\n\r\n");
    assert_eq!(client.head().status, 200);
    client.send(get("/status?code=204"));
    assert_eq!(client.response("GET").status, 204);
    client.send(get("/hello"));
    assert_eq!(client.response("GET").text(), "Hello from a worker\n");
}

/// Issue 10: a request was counted as active for a moment after its client had the whole response.
#[test]
fn a_request_that_has_been_answered_is_not_active() {
    let app = App::new(1);
    for method in ["GET", "HEAD"] {
        // The worker continues for a while, and the client stays.
        let mut client = app.site.connect();
        client.send(format!(
            "{method} /linger?ms=100 HTTP/1.1\r\nHost: test\r\n\r\n"
        ));
        assert_eq!(client.response(method).status, 200);
        assert_eq!(app.active(), 0, "{method}");
    }
}

#[test]
fn a_worker_sees_the_request_as_it_came() {
    let app = App::new(1);
    let response = app
        .site
        .request("GET", "/he%61d?a=b%20c", "X-One: 1\r\nx-two:  2 \r\n");
    let text = response.text();
    let address = app.site.address();
    for line in [
        "method: GET",
        "target: /head?a=b%20c",
        "path: /head",
        "query: a=b%20c",
        "version: 1",
        "scheme: http",
        "remote: 127.0.0.1",
        "local: 127.0.0.1",
        &format!("local_port: {}", address.port()),
        "server_name: test",
        "content_length: None",
        "field Host: test",
        "field X-One: 1",
        "field x-two: 2",
    ] {
        assert!(text.lines().any(|seen| seen == line), "{line} in {text}");
    }
    let rewritten = app.site.get("/rewrite?q").text();
    assert!(
        rewritten.contains("path: /head\n") && rewritten.contains("target: /rewrite?q\n"),
        "{rewritten}"
    );
}

#[test]
fn bodies_of_all_sizes_and_framings_reach_the_worker_whole() {
    let app = App::with(2, Limits::default(), r#"{"max_body_size": 8000000}"#);
    for size in [0, 1, 100, 16_384, 16_385, 40_000, 1_000_000, 5_000_000] {
        let body = big(size);
        assert!(
            app.post("/echo", &body).body == body,
            "{size} bytes with a length"
        );
        let mut client = app.site.connect();
        client.send("POST /echo HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n");
        for piece in body.chunks(30_000) {
            client.send(format!("{:x}\r\n", piece.len()));
            client.send(piece);
            client.send("\r\n");
        }
        client.send("0\r\n\r\n");
        client.send(get("/hello"));
        assert!(
            client.response("POST").body == body,
            "{size} bytes in chunks"
        );
        assert_eq!(client.response("GET").text(), "Hello from a worker\n");
    }
}

/// Without a limit for one body, the first one took the whole file for large bodies.
#[test]
fn large_bodies_without_a_limit_are_stored_at_once() {
    let backend = Backend::new(|peer| {
        while let Some(asked) = peer.request() {
            peer.answer(&asked.body);
        }
    });
    let app = App::with(
        1,
        Limits::default(),
        r#"{"max_body_size": 1125899906842624}"#,
    );
    let proxying = Site::new(1, |_| {
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}},
                 "settings": {{"http": {{"max_body_size": 1125899906842624}}}},
                 "routes": [{{"action": {{"proxy": "http://{}"}}}}]}}"#,
            backend.address
        )
    });
    let body = big(1 << 20);
    let (most, last) = body.split_at(body.len() - 1);
    for site in [&app.site, &proxying] {
        let mut chunked = site.connect();
        chunked.send("POST /echo HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n");
        chunked.send(format!("{:x}\r\n", body.len()));
        chunked.send(most);
        let mut sized = site.connect();
        sized.send(format!(
            "POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: {}\r\n\r\n",
            body.len()
        ));
        sized.send(most);
        wait_until("both are received", || site.server.totals().active == 2);
        sized.send(last);
        let answer = sized.response("POST");
        assert_eq!((answer.status, answer.body == body), (200, true));
        chunked.send(last);
        chunked.send("\r\n0\r\n\r\n");
        let answer = chunked.response("POST");
        assert_eq!((answer.status, answer.body == body), (200, true));
    }
}

#[test]
fn a_response_of_unknown_length_is_chunked_or_ends_with_the_connection() {
    let app = App::new(1);
    let mut client = app.site.connect();
    for size in [0, 64, 100_000, 3_000_000] {
        client.send(get(&format!("/big?n={size}")));
        let response = client.response("GET");
        assert!(response.body == big(size), "{size}");
    }
    let answer = app
        .site
        .exchange("GET /big?n=3000000 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(
        head.contains("Connection: close") && !head.contains("chunked"),
        "{head}"
    );
    assert!(body.as_bytes() == big(3_000_000));
}

#[test]
fn flushed_data_arrives_before_the_rest() {
    let app = App::new(1);
    let mut client = app.site.connect();
    let gate = Gate::new();
    client.send(get(&format!("/flush?file={}", gate.file().display())));
    assert_eq!(client.head().field("Transfer-Encoding"), Some("chunked"));
    assert_eq!(client.chunk().unwrap(), b"first\n");
    // The second piece is not even produced yet.
    gate.open();
    assert_eq!(client.chunk().unwrap(), b"second\n");
    assert_eq!(client.chunk(), None);
}

#[test]
fn a_slow_reader_does_not_hold_the_worker() {
    let app = App::new(1);
    let mut slow = app.site.connect();
    // More than the socket and the slot hold, less than the buffer beyond them.
    slow.send(get("/big?n=400000"));
    let mut other = app.site.connect();
    other.send(get("/hello"));
    assert_eq!(other.response("GET").status, 200);
    assert!(slow.response("GET").body == big(400_000));
    // A response that is larger than all of that makes the worker wait, and arrives whole nevertheless.
    let mut slow = app.site.connect();
    slow.send(get("/big?n=30000000"));
    wait_until("the worker is at it", || app.active() == 1);
    assert!(slow.response("GET").body == big(30_000_000));
}

#[test]
fn a_slow_sender_does_not_hold_the_worker() {
    let app = App::new(1);
    let mut slow = app.site.connect();
    slow.send("POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 10\r\n\r\n01234");
    wait_until("the request has begun", || {
        app.site.server.totals().requests == 1
    });
    assert_eq!(app.site.get("/hello").status, 200);
    assert_eq!(app.active(), 0);
    slow.send("56789");
    assert_eq!(slow.response("POST").text(), "0123456789");
}

#[test]
fn a_worker_that_dies_costs_its_request_only() {
    let app = App::new(1);
    let mut client = app.site.connect();
    client.send(get("/crash"));
    let response = client.response("GET");
    assert_eq!(response.status, 502);
    assert_eq!(response.field("Content-Type"), Some("text/html"));
    client.send(get("/hello"));
    assert_eq!(client.response("GET").status, 200);
}

/// The client has received nothing of the response yet, so it gets an error and not a truncated response.
#[test]
fn an_answer_that_was_not_handed_over_when_its_worker_died_is_a_502() {
    let app = App::new(1);
    let mut client = app.site.connect();
    client.send(get("/half?ms=50"));
    assert_eq!(client.response("GET").status, 502);
    client.send(get("/hello"));
    assert_eq!(client.response("GET").status, 200);
}

#[test]
fn a_response_cut_short_is_not_given_out_as_whole() {
    let app = App::new(1);
    let mut client = app.site.connect();
    client.send(get("/big?n=2000000000"));
    client.head();
    for _ in 0..20 {
        client.chunk().unwrap();
    }
    let pid: i32 = {
        // The only worker is busy: its number is found by its title.
        let children = std::fs::read_dir("/proc").unwrap().flatten();
        let prototype = *app.launcher.pids.lock().unwrap().iter().next().unwrap();
        children
            .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
            .find(|pid| {
                std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
                    stat.rsplit(')').next().unwrap().split_whitespace().nth(1)
                        == Some(&prototype.to_string())
                })
            })
            .unwrap()
    };
    signal::send(pid, 9).unwrap();
    let rest = client.read_to_end();
    assert!(
        !rest.ends_with("0\r\n\r\n"),
        "the end of a response that has none"
    );
    app.site.log.wait_for(
        "was killed by signal 9 while serving `GET /big?n=2000000000`; its response was cut short",
    );
    assert_eq!(app.site.get("/hello").status, 200);
}

#[test]
fn the_time_of_an_upload_does_not_count() {
    let limits = Limits {
        timeout: OptionalLimit(Some(Duration::from_secs(3))),
        ..Limits::default()
    };
    let app = App::with(2, limits, "{}");
    let mut upload = app.site.connect();
    upload.send(
        "POST /sleep?ms=500 HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n",
    );
    assert_eq!(upload.head().status, 100);
    // When this one is late, that one would be, too.
    let mut late = app.site.connect();
    late.send(get("/hang"));
    assert_eq!(late.response("GET").status, 504);
    upload.send("hello");
    assert_eq!(upload.response("POST").status, 200);
}

#[test]
fn a_request_over_its_time_is_answered_504_and_one_still_queued_503() {
    let limits = Limits {
        timeout: OptionalLimit(Some(Duration::from_secs(2))),
        ..Limits::default()
    };
    let app = App::with(1, limits, "{}");
    // Otherwise another worker would take the second request as soon as the first is late.
    let prototype = *app.launcher.pids.lock().unwrap().iter().next().unwrap();
    signal::send(prototype, SIGSTOP).unwrap();
    let mut first = app.site.connect();
    first.send(get("/hang"));
    wait_until("the worker is at it", || app.active() == 1);
    let mut second = app.site.connect();
    second.send(get("/hello"));
    assert_eq!(first.response("GET").status, 504);
    assert_eq!(second.response("GET").status, 503);
    signal::send(prototype, SIGCONT).unwrap();
    wait_until("the worker is back", || {
        app.site.get("/hello").status == 200
    });
}

#[test]
fn a_full_queue_is_answered_503_with_retry_after() {
    let limits = Limits {
        queue: Queue {
            length: 0,
            ..Queue::default()
        },
        ..Limits::default()
    };
    let app = App::with(1, limits, "{}");
    // Slots are filled first, so that only the excess reaches the queue.
    let mut clients: Vec<Client> = (0..400).map(|_| app.site.connect()).collect();
    for client in &mut clients {
        client.send(get("/sleep?ms=20"));
    }
    let responses: Vec<_> = clients
        .iter_mut()
        .map(|client| client.response("GET"))
        .collect();
    let (refused, served): (Vec<_>, Vec<_>) = responses
        .iter()
        .partition(|response| response.status == 503);
    assert!(
        !refused.is_empty() && !served.is_empty(),
        "{} refused, {} served",
        refused.len(),
        served.len()
    );
    assert!(
        refused
            .iter()
            .all(|response| response.field("Retry-After").is_some())
    );
    assert!(served.iter().all(|response| response.status == 200));
}

#[test]
fn a_client_that_has_disconnected_is_not_served() {
    let app = App::new(1);
    let mut busy = app.site.connect();
    let gate = Gate::new();
    busy.send(get(&gate.target()));
    wait_until("the worker is at it", || app.active() == 1);
    let mut leaving = app.site.connect();
    leaving.send(get("/hello"));
    wait_until("the second waits", || app.active() == 2);
    leaving.reset();
    wait_until("the second is withdrawn", || app.active() == 1);
    gate.open();
    assert_eq!(busy.response("GET").status, 200);
    // The worker has served `/wait` and this one, and nothing in between.
    assert_eq!(app.site.get("/count").text(), "2\n");
}

/// Posts to an application whose only worker is busy, leaves by `leave`, and returns what the worker has served by the end.
fn left_while_waiting(abandoned: Option<Abandoned>, method: &str, leave: fn(Client)) -> String {
    let limits = Limits {
        queue: Queue {
            abandoned,
            ..Queue::default()
        },
        ..Limits::default()
    };
    let app = App::with(1, limits, "{}");
    let mut busy = app.site.connect();
    let gate = Gate::new();
    busy.send(get(&gate.target()));
    wait_until("the worker is at it", || app.active() == 1);
    let mut leaving = app.site.connect();
    leaving.send(format!(
        "{method} /big?n=3000000 HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\n\r\nbody"
    ));
    wait_until("the second waits", || app.active() == 2);
    leave(leaving);
    // The server notices the end of the connection before the worker is free.
    let log = || std::fs::read_to_string(app.site.path().join("access.log")).unwrap_or_default();
    let is_dropped = match (abandoned, method) {
        (Some(abandoned), _) => abandoned == Abandoned::Drop,
        (None, method) => method == "GET",
    };
    if is_dropped {
        wait_until("the second is withdrawn", || app.active() == 1);
    }
    gate.open();
    assert_eq!(busy.response("GET").status, 200);
    wait_until("both have ended", || app.active() == 0);
    wait_until("both are logged", || log().lines().count() == 2);
    app.site.get("/count").text()
}

/// Issue 28, 2.2: such requests were lost while all workers were busy. The response is larger than the segment holds.
#[test]
fn a_request_that_waits_is_run_without_its_client_unless_its_method_is_safe() {
    for (abandoned, method, served) in [
        (None, "POST", "3\n"),
        (None, "GET", "2\n"),
        (Some(Abandoned::Run), "GET", "3\n"),
        (Some(Abandoned::Drop), "POST", "2\n"),
    ] {
        let count = left_while_waiting(abandoned, method, Client::reset);
        assert_eq!(count, served, "{abandoned:?} {method}");
    }
    // With `drop`, the end of the sending side suffices.
    assert_eq!(
        left_while_waiting(Some(Abandoned::Drop), "POST", drop),
        "2\n"
    );
    assert_eq!(left_while_waiting(None, "POST", drop), "3\n");
}

/// Issue 28, 2.2: a client that had ended its sending side got no response.
#[test]
fn a_client_that_has_ended_its_sending_side_gets_its_response() {
    let app = App::new(1);
    let gate = Gate::new();
    let mut busy = app.site.connect();
    busy.send(get(&gate.target()));
    busy.finish();
    wait_until("the worker is at it", || app.active() == 1);
    let mut waiting = app.site.connect();
    waiting.send(get("/big?n=3000000"));
    waiting.finish();
    wait_until("the second waits", || app.active() == 2);
    gate.open();
    assert_eq!(busy.response("GET").status, 200);
    let all = waiting.read_to_end();
    assert!(all.starts_with("HTTP/1.1 200 "), "{}", &all[..100]);
    assert!(all.len() > 3_000_000, "{}", all.len());
    // Everything that a client sent before it ended its side is answered.
    let mut client = app.site.connect();
    client.send([get("/hello"), get("/hello")].concat());
    client.finish();
    assert_eq!(client.read_to_end().matches("HTTP/1.1 200 ").count(), 2);
}

#[test]
fn pipelined_requests_to_files_and_workers_keep_their_order() {
    let app = App::new(2);
    app.site.write("www/file.txt", "a file");
    let mut client = app.site.connect();
    client.send(
        [
            get("/sleep?ms=50"),
            get("/file.txt"),
            get("/hello"),
            get("/big?n=100000"),
            get("/file.txt"),
        ]
        .concat(),
    );
    let texts: Vec<String> = (0..5).map(|_| client.response("GET").text()).collect();
    assert_eq!(texts[..3], ["slept\n", "a file", "Hello from a worker\n"]);
    assert_eq!((texts[3].len(), texts[4].as_str()), (100_000, "a file"));
}

#[test]
fn response_headers_and_the_access_log_apply_to_applications() {
    let app = App::new(1);
    let response = app.site.get("/headers");
    assert_eq!(
        (response.field("X-Added"), response.field("Content-Type")),
        (Some("/headers"), None)
    );
    let expected = "GET /headers HTTP/1.1 200 20\n";
    wait_until("the line is there", || {
        std::fs::read_to_string(app.site.path().join("access.log")).unwrap() == expected
    });
}

#[test]
fn expect_continue_is_answered_before_the_body_is_sent() {
    let app = App::new(1);
    let mut client = app.site.connect();
    client.send(
        "POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n",
    );
    assert_eq!(client.head().status, 100);
    client.send("body");
    assert_eq!(client.response("POST").text(), "body");
}

/// Issue 10: an answer to HEAD without a body said `Content-Length: 0` (RFC 9110 §8.6).
#[test]
fn head_has_the_content_length_of_get_or_none() {
    let app = App::new(1);
    let mut client = app.site.connect();
    for target in [
        "/hello",
        "/echo",
        "/flush",
        "/status?code=404",
        "/big?n=100",
    ] {
        client.send(get(target));
        let answer = client.response("GET");
        client.send(format!("HEAD {target} HTTP/1.1\r\nHost: test\r\n\r\n"));
        let head = client.head();
        assert_eq!(head.status, answer.status, "{target}");
        let length = head.field("Content-Length");
        assert!(
            length.is_none()
                || length.and_then(|length| length.parse().ok()) == Some(answer.body.len()),
            "{target}: {length:?}"
        );
        if target == "/echo" {
            // The response here has no body, so the length of the one to GET is unknown.
            assert_eq!(length, None);
        }
    }
}

/// Issue 10: the log did not say which request failed.
#[test]
fn a_request_that_is_given_up_is_in_the_log_with_its_client() {
    let app = App::new(1);
    assert_eq!(app.site.get("/status?code=99999").status, 502);
    app.site.log.wait_for("\"app\": the application process aborted the response; answered 502, client 127.0.0.1, request \"GET /status?code=99999 HTTP/1.1\"");
}

/// Issue 11: `response_headers` could remove the field that marks a response as chunked, so that the client took the framing for content.
#[test]
fn response_headers_do_not_change_how_an_answer_is_sent() {
    let app = App::new(1);
    app.site
        .configure(
            r#"{"listeners": {"127.0.0.1:1": {"pass": "routes"}},
                "applications": {"app": {"type": "php", "root": "/"}},
                "routes": [{"action": {"pass": "applications/app", "response_headers":
                  {"Transfer-Encoding": null, "Connection": "close", "X-Own": "1"}}}]}"#,
        )
        .unwrap();
    let mut client = app.site.connect();
    for _ in 0..2 {
        client.send("GET /big?n=5000000 HTTP/1.1\r\nHost: a\r\n\r\n");
        let reply = client.response("GET");
        assert_eq!((reply.status, reply.body.len()), (200, 5_000_000));
        assert_eq!(reply.field("Connection"), None);
        assert_eq!(reply.field("X-Own"), Some("1"));
    }
    app.site
        .log
        .wait_for("`response_headers`: `Transfer-Encoding` determines how a response is sent");
}

/// Issue 10: a chunked answer's framing could not be logged.
#[test]
fn the_access_log_sees_how_an_answer_is_framed() {
    let app = App::new(1);
    let log = app.site.path().join("access.log");
    app.site
        .configure(&format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "applications/app"}}}},
                "applications": {{"app": {{"type": "php", "root": "/"}}}},
                "access_log": {{"path": "{}", "format": "$response_header_transfer_encoding $response_header_content_length"}}}}"#,
            log.display()
        ))
        .unwrap();
    let mut expected = String::new();
    for (target, line) in [("/big?n=5000000", "chunked -\n"), ("/hello", "- 20\n")] {
        assert_eq!(app.site.get(target).status, 200);
        expected.push_str(line);
        wait_until("its line is there", || {
            std::fs::read_to_string(&log).is_ok_and(|log| log == expected)
        });
    }
}
