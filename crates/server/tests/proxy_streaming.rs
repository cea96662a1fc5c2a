//! Streamed request bodies (`request_buffering: false` of a proxy), byte by byte.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod support;

use support::Site;
use support::backend::{Backend, Peer};
use tutti_testkit::{PATIENCE, client::Client, wait_until};

/// A site that streams everything to one of these servers.
fn streaming(servers: &[&Backend], options: &str, http: &str) -> Site {
    let addresses: Vec<String> = servers
        .iter()
        .map(|backend| format!("\"{}\": {{}}", backend.address))
        .collect();
    streaming_to(&addresses.join(", "), options, http)
}

fn streaming_to(servers: &str, options: &str, http: &str) -> Site {
    let config = format!(
        r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "upstreams/u"}}}}, "settings": {{"http": {http}}},
             "upstreams": {{"u": {{"servers": {{{servers}}}, "request_buffering": false{options}}}}}}}"#
    );
    Site::new(1, move |_| config.clone())
}

fn post(fields: &str) -> String {
    format!("POST /it HTTP/1.1\r\nHost: test\r\n{fields}\r\n")
}

const CHUNKED: &str = "Transfer-Encoding: chunked\r\n";
const EXPECTING: &str = "Expect: 100-continue\r\nContent-Length: 4\r\n";

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

/// Returns every byte of the body at once in a chunk of its own.
fn echo(peer: &mut Peer) {
    while let Some(head) = peer.request_head() {
        peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        let field = head
            .lines()
            .find_map(|line| line.strip_prefix("Content-Length: "));
        match field {
            Some(length) => {
                for _ in 0..length.parse::<usize>().unwrap() {
                    let Some(byte) = peer.bytes(1) else { return };
                    peer.send([b"1\r\n", &*byte, b"\r\n"].concat());
                }
            }
            None => loop {
                let length = usize::from_str_radix(&peer.line().unwrap(), 16).unwrap();
                let data = peer.bytes(length).unwrap();
                assert_eq!(peer.line().unwrap(), "");
                if length == 0 {
                    break;
                }
                for byte in data {
                    peer.send([b"1\r\n", &[byte][..], b"\r\n"].concat());
                }
            },
        }
        peer.send("0\r\n\r\n");
    }
}

/// Expects these bytes, in chunks of any size.
fn expect_bytes(client: &mut Client, text: &str) {
    let mut come = Vec::new();
    while come.len() < text.len() {
        come.extend(client.chunk().expect("more of the body"));
    }
    assert_eq!(String::from_utf8_lossy(&come), text);
}

#[test]
fn a_server_gets_the_body_and_answers_while_it_comes() {
    let backend = Backend::new(echo);
    let site = streaming(&[&backend], "", "{}");
    let mut client = site.connect();
    for _ in 0..3 {
        client.send(post("Content-Length: 9\r\n") + "one");
        assert_eq!(client.head().status, 200);
        expect_bytes(&mut client, "one");
        client.send("two");
        expect_bytes(&mut client, "two");
        client.send("end");
        expect_bytes(&mut client, "end");
        assert_eq!(client.chunk(), None);
        client.send(post(CHUNKED) + &chunk("first"));
        assert_eq!(client.head().status, 200);
        expect_bytes(&mut client, "first");
        client.send(chunk("second") + &chunk("third"));
        expect_bytes(&mut client, "secondthird");
        client.send("0\r\n\r\n");
        assert_eq!(client.chunk(), None);
    }
    assert_eq!(backend.connections(), 1, "it is kept");
    // The bytes after the body are the next request.
    client.send(post("Content-Length: 1\r\n") + "a" + &post(CHUNKED) + "1\r\nb\r\n0\r\n\r\n");
    assert_eq!(client.response("POST").text(), "a");
    assert_eq!(client.response("POST").text(), "b");
}

#[test]
fn the_servers_time_does_not_run_while_the_client_pauses() {
    let backend = Backend::new(echo);
    let times = r#", "read_timeout": 3, "send_timeout": 3"#;
    let site = streaming(&[&backend], times, "{}");
    let mut client = site.connect();
    client.send(post("Content-Length: 6\r\n") + "one");
    assert_eq!(client.head().status, 200);
    expect_bytes(&mut client, "one");
    // The same timeout applies to a server that does not respond to a later request.
    let silent = Backend::new(|peer| {
        peer.request();
        peer.wait_closed();
    });
    assert_eq!(streaming(&[&silent], times, "{}").get("/").status, 504);
    assert!(!client.has_news());
    client.send("two");
    expect_bytes(&mut client, "two");
    assert_eq!(client.chunk(), None);
}

#[test]
fn large_bodies_and_answers_pass_each_other() {
    let backend = Backend::new(|peer| {
        peer.request_head();
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 20000000\r\n\r\n");
        // Neither side reads before it has sent all of this.
        for _ in 0..10 {
            peer.send(vec![b'a'; 2_000_000]);
            assert_eq!(
                peer.bytes(2_000_000).map(|bytes| bytes.len()),
                Some(2_000_000)
            );
        }
    });
    let site = streaming(&[&backend], "", r#"{"max_body_size": 30000000}"#);
    let mut client = site.connect();
    client.send(post("Content-Length: 20000000\r\n"));
    let mut writer = Client::of(client.stream.try_clone().unwrap());
    let sending = std::thread::spawn(move || writer.send(vec![b'x'; 20_000_000]));
    assert_eq!(client.response("POST").body.len(), 20_000_000);
    sending.join().unwrap();
}

#[test]
fn an_answer_before_the_body_ends_it() {
    let backend = Backend::new(|peer| {
        while peer.request_head().is_some() {
            peer.answer(b"enough");
        }
    });
    let site = streaming(&[&backend], "", "{}");
    let mut client = site.connect();
    client.send(post("Content-Length: 100000\r\n") + "some");
    assert_eq!(client.response("POST").text(), "enough");
    // A small rest is read to its end, and the connection is kept.
    client.send("x".repeat(100_000 - 4));
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response("GET").text(), "enough");
    // A large rest is not.
    client.send(post("Content-Length: 1000000\r\n") + "some");
    assert_eq!(client.response("POST").text(), "enough");
    assert!(client.is_closed());
}

#[test]
fn a_client_that_waits_for_100_gets_it_from_the_server_or_after_a_while() {
    let backend = Backend::new(|peer| {
        while let Some(head) = peer.request_head() {
            let expects = head.contains("Expect: 100-continue\r\n");
            match head.contains("X-Says: nothing") {
                true => {}
                false if expects => peer.send("HTTP/1.1 100 Continue\r\n\r\n"),
                false => unreachable!("{head}"),
            }
            let body = peer.bytes(4).unwrap();
            peer.answer(&body);
        }
    });
    let site = streaming(&[&backend], "", "{}");
    let mut client = site.connect();
    for says in ["", "X-Says: nothing\r\n"] {
        client.send(post(&format!("{says}{EXPECTING}")));
        assert_eq!(client.head().status, 100);
        client.send("body");
        assert_eq!(client.response("POST").text(), "body");
    }
    // A client that does not wait gets no 100.
    client.send(post(&format!("X-Says: nothing\r\n{EXPECTING}")) + "more");
    assert_eq!(client.response("POST").text(), "more");
}

#[test]
fn a_refusal_spares_the_body() {
    let backend = Backend::new(|peer| {
        peer.request_head();
        peer.send("HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno");
        assert_eq!(peer.bytes(1), None, "nothing of the body");
    });
    let site = streaming(&[&backend], "", "{}");
    let mut client = site.connect();
    client.send(post(EXPECTING));
    let answer = client.response("POST");
    assert_eq!((answer.status, answer.text().as_str()), (401, "no"));
    assert_eq!(answer.field("Connection"), Some("close"));
    assert!(client.is_closed());
}

#[test]
fn an_answer_that_begins_before_the_body_asks_for_it() {
    let backend = Backend::new(|peer| {
        peer.request_head();
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n");
        let body = peer.bytes(4).unwrap();
        peer.send(body);
    });
    let site = streaming(&[&backend], "", "{}");
    let mut client = site.connect();
    client.send(post(EXPECTING));
    assert_eq!(client.head().status, 100);
    client.send("body");
    assert_eq!(client.response("POST").text(), "body");
}

#[test]
fn a_client_that_goes_takes_its_request_along() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let sender = std::sync::Mutex::new(sender);
    let backend = Backend::new(move |peer| {
        peer.request_head();
        let body: Vec<u8> = std::iter::from_fn(|| peer.bytes(1)).flatten().collect();
        let body = String::from_utf8(body).unwrap();
        sender.lock().unwrap().send(body).unwrap();
    });
    let site = streaming(&[&backend], "", "{}");
    for (number, (begun, come)) in [
        (post("Content-Length: 10\r\n") + "1234", "1234"),
        // A chunk is passed on as far as it has arrived.
        (post(CHUNKED) + "a\r\n1234", "4\r\n1234\r\n"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut client = site.connect();
        client.send(begun);
        wait_until("it is asked", || backend.requests().len() == number + 1);
        drop(client);
        let body = receiver.recv_timeout(PATIENCE).unwrap();
        assert_eq!(body, come, "and no end");
    }
    let status = &site.server.upstreams()[0].1[0];
    assert_eq!(status.failures, 0, "it is not the server's fault");
}

#[test]
fn a_body_that_is_not_as_it_must_be_is_refused() {
    let backend = Backend::new(|peer| {
        peer.request_head();
        peer.wait_closed();
    });
    let http = r#"{"max_body_size": 1000, "body_read_timeout": 1}"#;
    let site = streaming(&[&backend], "", http);
    for (body, status) in [
        ("4\r\nabcdX".to_owned(), 400),
        (chunk("abc") + "zz\r\n", 400),
        (chunk(&"x".repeat(900)) + &chunk(&"x".repeat(200)), 413),
        (chunk("and then nothing"), 408),
    ] {
        let mut client = site.connect();
        client.send(post(CHUNKED) + &body);
        let answer = client.response("POST");
        assert_eq!(answer.status, status, "{body}");
        assert_eq!(answer.field("Connection"), Some("close"));
    }
    let before = backend.connections();
    let mut client = site.connect();
    client.send(post("Content-Length: 1001\r\n"));
    assert_eq!(client.response("POST").status, 413);
    assert_eq!(backend.connections(), before, "it is not asked");
    assert_eq!(site.server.upstreams()[0].1[0].failures, 0);
}

#[test]
fn a_bad_body_cuts_off_an_answer_that_has_begun() {
    let backend = Backend::new(|peer| {
        peer.request_head();
        peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n");
        peer.wait_closed();
    });
    let site = streaming(&[&backend], "", "{}");
    let mut client = site.connect();
    client.send(post(CHUNKED) + &chunk("good"));
    assert_eq!(client.head().status, 200);
    expect_bytes(&mut client, "some");
    client.send("x\r\n");
    assert!(client.is_closed());
}

#[test]
fn a_body_that_a_server_has_read_is_not_sent_to_another_server() {
    let dies = Backend::new(|peer| {
        peer.request_head();
        peer.bytes(4);
        peer.reset();
    });
    let lives = Backend::new(echo);
    for method in ["POST", "PUT"] {
        let site = streaming(&[&dies, &lives], "", "{}");
        let mut client = site.connect();
        client.send(format!(
            "{method} / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n1234"
        ));
        let answer = client.response(method);
        assert_eq!(answer.status, 502);
        assert_eq!(answer.field("Connection"), Some("close"));
        assert!(client.is_closed());
        site.log.wait_for("server");
    }
    assert_eq!(lives.connections(), 0);
}

#[test]
fn another_server_is_asked_while_nothing_of_the_body_was_taken() {
    // No server listens there: nothing was sent, so every method may be retried.
    let closed = tutti_testkit::refusing_address();
    let lives = Backend::new(echo);
    let servers = format!(
        r#""{}": {{}}, "{}": {{"backup": true}}"#,
        closed, lives.address
    );
    let site = streaming_to(&servers, "", "{}");
    let mut client = site.connect();
    client.send(post("Content-Length: 4\r\n") + "all ");
    assert_eq!(client.response("POST").text(), "all ");
    // Its head was sent, which is harmless with PUT if the configuration says so.
    let refuses = Backend::new(|peer| {
        peer.request_head();
    });
    let servers = format!(
        r#""{}": {{}}, "{}": {{"backup": true}}"#,
        refuses.address, lives.address
    );
    let options = r#", "fail_timeout": 0.1, "retry_methods": ["PUT"]"#;
    let site = streaming_to(&servers, options, "{}");
    let mut client = site.connect();
    client.send(post(EXPECTING).replace("POST", "PUT"));
    assert_eq!(client.head().status, 100);
    client.send("body");
    assert_eq!(client.response("PUT").text(), "body");
    let mut client = site.connect();
    wait_until("it has another chance", || {
        client.send(post(EXPECTING));
        let status = client.head().status;
        if status != 502 {
            client.send("body");
            assert_eq!(client.response("POST").text(), "body");
        }
        client = site.connect();
        status == 502
    });
}

#[test]
fn a_server_that_goes_in_the_middle_of_its_answer_cuts_it_off() {
    let backend = Backend::new(|peer| {
        peer.request_head();
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nsome");
        peer.bytes(4);
        peer.reset();
    });
    let site = streaming(&[&backend], "", "{}");
    let mut client = site.connect();
    client.send(post("Content-Length: 10\r\n"));
    assert_eq!(client.head().status, 200);
    client.send("1234");
    while client.fill().is_ok_and(|count| count > 0) {}
    site.log.wait_for("after");
}

#[test]
fn a_server_that_takes_nothing_is_given_up() {
    let backend = Backend::new(|peer| {
        peer.request_head();
        // Until the other side has given up: reading would make room.
        std::thread::park_timeout(PATIENCE);
    });
    let site = streaming(
        &[&backend],
        r#", "send_timeout": 0.3"#,
        r#"{"max_body_size": 100000000}"#,
    );
    let mut client = site.connect();
    client.send(post("Content-Length: 60000000\r\n"));
    let mut writer = client.stream.try_clone().unwrap();
    let sending = std::thread::spawn(move || {
        use std::io::Write;
        // It breaks off when the response has arrived.
        let _ = writer.write_all(&vec![b'x'; 60_000_000]);
    });
    assert_eq!(client.response("POST").status, 504);
    drop(client);
    sending.join().unwrap();
    site.log
        .wait_for("accepted no more of the request for 300ms");
}

#[test]
fn without_buffering_a_server_is_read_no_faster_than_the_client_takes() {
    let (sender, given) = std::sync::mpsc::channel();
    let sender = std::sync::Mutex::new(sender);
    let backend = Backend::new(move |peer| {
        peer.request();
        peer.answer(&vec![b'x'; 30_000_000]);
        sender.lock().unwrap().send(peer.number).unwrap();
    });
    let site = streaming(
        &[&backend],
        r#", "buffering": false, "buffer_size": "64M""#,
        "{}",
    );
    let mut client = site.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.head().status, 200);
    // Meanwhile a client that reads its response gets all of it.
    assert_eq!(site.get("/").body.len(), 30_000_000);
    assert_eq!(given.recv_timeout(PATIENCE), Ok(1));
    assert!(
        given.try_recv().is_err(),
        "it has not got rid of its answer"
    );
    let mut rest = 30_000_000 - client.buffered();
    while rest > 0 {
        rest -= client.fill().unwrap();
    }
    assert_eq!(given.recv_timeout(PATIENCE), Ok(0));
}
