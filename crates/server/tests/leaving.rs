//! Clients that leave before they have their answer: each request has its line in the access log, with the status that nginx gives it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use support::Site;
use support::app::App;
use support::backend::Backend;
use support::frames::{
    DATA, END_HEADERS, END_STREAM, Frames, HEADERS, RST_STREAM, block, frame, get,
};
use tutti_pool::Limits;
use tutti_testkit::client::Client;
use tutti_testkit::wait_until;

/// CANCEL (RFC 9113 §7).
const CANCEL: [u8; 4] = 8_u32.to_be_bytes();

/// A server that takes requests and never answers.
fn silent() -> Backend {
    Backend::new(|peer| {
        peer.request_head();
        peer.wait_closed();
    })
}

fn proxy(backend: &Backend, options: &str) -> Site {
    let (address, options) = (backend.address, options.to_owned());
    Site::new(1, move |folder| {
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}},
                 "access_log": {{"path": "{folder}/access.log", "format": "$request_line $status $body_bytes_sent"}},
                 "routes": [{{"match": {{"uri": "/files/*"}}, "action": {{"share": "{folder}$uri"}}}},
                            {{"action": {{"proxy": "http://{address}", "proxy_options": {{{options}}}}}}}]}}"#
        )
    })
}

/// Waits for the next line of the access log, and empties it.
fn line(site: &Site) -> String {
    let path = site.path().join("access.log");
    let read = || std::fs::read_to_string(&path).unwrap_or_default();
    wait_until("a line", || read().ends_with('\n'));
    let line = read().trim_end().to_owned();
    std::fs::File::create(&path).unwrap();
    line
}

fn post(path: &str) -> Vec<u8> {
    block(&[
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "test"),
        (":path", path),
        ("content-length", "10"),
    ])
}

/// Issue 10: a client that disconnected while a server worked was in no log.
#[test]
fn a_client_that_does_not_wait_for_a_server_is_logged() {
    let backend = silent();
    let site = proxy(&backend, "");
    let mut asked = 0;
    let mut is_asked = || {
        asked += 1;
        wait_until("the server is asked", || backend.requests().len() == asked);
    };
    let mut client = site.connect();
    client.send("GET /one HTTP/1.1\r\nHost: a\r\n\r\n");
    is_asked();
    client.reset();
    assert_eq!(line(&site), "GET /one HTTP/1.1 499 0");
    // A stream that is reset, and all streams of a connection that ends.
    let mut frames = Frames::to(site.address(), &[]);
    for stream in [1, 3] {
        frames.send(&frame(
            HEADERS,
            END_HEADERS | END_STREAM,
            stream,
            &get("/two"),
        ));
        is_asked();
    }
    frames.send(&frame(RST_STREAM, 0, 1, &CANCEL));
    let reset = line(&site);
    assert!(
        reset.starts_with("GET /two HTTP/2") && reset.ends_with(" 499 0"),
        "{reset}"
    );
    drop(frames);
    assert_eq!(line(&site), reset);
}

/// Issue 10: nor was a client that disconnected while an application worked.
#[test]
fn a_client_that_does_not_wait_for_an_application_is_logged() {
    let app = App::new(2);
    let mut client = app.site.connect();
    client.send("GET /hang HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("it is there", || app.active() == 1);
    client.reset();
    assert_eq!(line(&app.site), "GET /hang HTTP/1.1 499 0");
    let mut frames = Frames::to(app.site.address(), &[]);
    let busy = app.active();
    frames.send(&frame(
        HEADERS,
        END_HEADERS | END_STREAM,
        1,
        &get("/hang?again"),
    ));
    wait_until("it is there", || app.active() == busy + 1);
    frames.send(&frame(RST_STREAM, 0, 1, &CANCEL));
    let reset = line(&app.site);
    assert!(
        reset.starts_with("GET /hang?again HTTP/2") && reset.ends_with(" 499 0"),
        "{reset}"
    );
}

/// Issue 10: nor a client that disconnected within a streamed body.
#[test]
fn a_client_that_disconnects_within_its_body_is_logged() {
    let partial = "POST /hang HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc";
    let left = |mut client: Client, is_there: &dyn Fn() -> bool| {
        client.send(partial);
        wait_until("it is there", is_there);
    };
    let app = App::streaming(1, Limits::default(), "{}");
    left(app.site.connect(), &|| app.active() == 1);
    assert_eq!(line(&app.site), "POST /hang HTTP/1.1 400 0");
    for options in ["", r#""request_buffering": false"#] {
        let backend = silent();
        let site = proxy(&backend, options);
        let is_there = || match options {
            "" => site.server.totals().active == 1,
            _ => backend.requests().len() == 1,
        };
        left(site.connect(), &is_there);
        assert_eq!(line(&site), "POST /hang HTTP/1.1 400 0", "{options}");
        let mut frames = Frames::to(site.address(), &[]);
        frames.send(&frame(HEADERS, END_HEADERS, 1, &post("/two")));
        frames.send(&frame(DATA, 0, 1, b"abc"));
        frames.send(&frame(RST_STREAM, 0, 1, &CANCEL));
        let reset = line(&site);
        assert!(
            reset.starts_with("POST /two HTTP/2") && reset.ends_with(" 400 0"),
            "{options}: {reset}"
        );
    }
}

/// Issue 10: nor a client that received only a part of a file.
#[test]
fn a_client_that_receives_part_of_a_file_is_logged_with_the_sent_bytes() {
    const LENGTH: u64 = 64 << 20;
    let backend = silent();
    let site = proxy(&backend, "");
    std::fs::create_dir(site.path().join("files")).unwrap();
    let file = std::fs::File::create(site.path().join("files/large")).unwrap();
    file.set_len(LENGTH).unwrap();
    let mut client = site.connect();
    client.send("GET /files/large HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.head().status, 200);
    drop(client);
    let line = line(&site);
    let sent = line.strip_prefix("GET /files/large HTTP/1.1 200 ").unwrap();
    assert!(sent.parse::<u64>().unwrap() < LENGTH, "{line}");
}

/// Issue 28, 2.2: a client that had ended its sending side got no response.
#[test]
fn a_client_that_has_ended_its_sending_side_gets_the_response_of_a_server() {
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let backend = Backend::new(move |peer| {
        peer.request();
        wait.lock().unwrap().recv().unwrap();
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nbeg");
        wait.lock().unwrap().recv().unwrap();
        peer.send(b"inning");
    });
    let site = proxy(&backend, "");
    let mut client = site.connect();
    client.send("GET /one HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("the server is asked", || backend.requests().len() == 1);
    client.finish();
    go.send(()).unwrap();
    client.read_until("beg");
    go.send(()).unwrap();
    assert_eq!(client.read_to_end(), "innin");
    assert_eq!(line(&site), "GET /one HTTP/1.1 200 8");
}
