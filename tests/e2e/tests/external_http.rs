//! Programs that speak HTTP and know nothing of the server: started, awaited, relayed to, replaced.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tutti_sys::signal;
use tutti_testkit::client::Reply;
use tutti_testkit::{Load, LoadOptions, PATIENCE, Server, ServerOptions, client, wait_until};

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/external")
        .join(name)
}

/// Puts a source of ours where the application's user can read it.
fn install(server: &Server, name: &str) -> PathBuf {
    server.write(name, std::fs::read(source(name)).unwrap())
}

fn node() -> String {
    program("node")
}

fn python() -> String {
    // The system's own: a wrapper in somebody's home could not be executed by the application's user.
    program("/usr/bin/python3")
}

fn program(name: &str) -> String {
    std::env::var_os("PATH")
        .iter()
        .flat_map(std::env::split_paths)
        .map(|folder| folder.join(name))
        .find(|path| path.exists())
        .unwrap_or_else(|| panic!("`{name}` is not installed"))
        .to_string_lossy()
        .into_owned()
}

fn configuration(server: &Server, application: &Value) -> Value {
    let mut whole = json!({"type": "external", "protocol": "http", "processes": 1});
    let object = whole.as_object_mut().unwrap();
    object.extend(application.as_object().unwrap().clone());
    json!({
        "listeners": {format!("127.0.0.1:{}", server.port()): {"pass": "applications/app"}},
        "settings": {"http": {"max_body_size": 33_554_432}},
        "applications": {"app": whole},
    })
}

/// A server with `app.js` as its application.
fn start(application: &Value) -> Server {
    let server = Server::start(&ServerOptions::default());
    let script = install(&server, "app.js");
    let mut whole = json!({"executable": node(), "arguments": [script]});
    let object = whole.as_object_mut().unwrap();
    object.extend(application.as_object().unwrap().clone());
    server.put("/config", &configuration(&server, &whole));
    server
}

fn send(server: &Server, start: &str, fields: &str, body: &[u8]) -> Reply {
    let mut bytes = format!(
        "{start} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{fields}Content-Length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    bytes.extend_from_slice(body);
    client::request(server.address(), &bytes).unwrap()
}

#[test]
fn the_request_arrives_as_it_was_sent() {
    let server = start(&json!({"environment": {"MINE": "yes"}}));
    let fields = "X-Own: a, b\r\nX-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Proto: https\r\nTE: trailers\r\nX-Hop: 1\r\nConnection: x-hop\r\n";
    let reply = send(&server, "POST /echo?a=%20b", fields, b"some body").json();
    assert_eq!(reply["method"], "POST");
    assert_eq!(reply["url"], "/echo?a=%20b");
    assert_eq!(reply["length"], 9);
    assert_eq!(reply["environment"]["MINE"], "yes");
    assert_eq!(reply["environment"]["HOST"], "127.0.0.1");
    let headers = &reply["headers"];
    assert_eq!(headers["host"], "test");
    assert_eq!(headers["x-own"], "a, b");
    assert_eq!(headers["content-length"], "9");
    // A client is not believed where it comes from.
    assert_eq!(headers["x-forwarded-for"], "127.0.0.1");
    assert_eq!(headers["x-forwarded-proto"], "http");
    assert_eq!(headers["x-forwarded-host"], "test");
    for absent in ["te", "x-hop", "transfer-encoding"] {
        assert_eq!(headers[absent], Value::Null, "{absent}");
    }
}

#[test]
fn answers_arrive_as_they_were_given() {
    let server = start(&json!({}));
    for size in [0, 1, 65_536, 200_000, 9_000_000] {
        let reply = server.get(&format!("/big?n={size}"));
        assert_eq!(
            (reply.status, reply.body.len()),
            (200, size),
            "{size} bytes"
        );
    }
    let chunks: String = (0..1000).map(|i| format!("{i}\n")).collect();
    assert_eq!(server.get("/chunks").text(), chunks);
    let reply = server.get("/status?code=418");
    assert_eq!(reply.status, 418);
    assert_eq!(reply.field("X-Own"), Some("a"));
    let cookies = reply
        .head
        .lines()
        .filter(|line| line.starts_with("Set-Cookie:"));
    assert_eq!(cookies.count(), 2);
    for code in [204, 304] {
        assert_eq!(server.get(&format!("/status?code={code}")).status, code);
    }
    assert_eq!(
        server.get("/hints").text(),
        "hinted",
        "after an interim answer"
    );
    let request = b"HEAD /status?code=200 HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n";
    let head = client::raw(server.address(), request).unwrap();
    let head = String::from_utf8(head).unwrap();
    assert!(
        head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"),
        "{head}"
    );
}

/// They cost the response that they are around.
#[test]
fn a_response_is_sent_without_hints_and_trailer_fields_that_are_too_large() {
    let server = start(&json!({}));
    assert_eq!(server.get("/overflow").text(), "whole");
    let said = "GET /overflow: ";
    server.wait_for_log(said);
    assert_eq!(server.log().matches(said).count(), 1);
}

#[test]
fn an_answer_that_breaks_off_does_not_look_whole() {
    let server = start(&json!({}));
    let bytes = client::raw(
        server.address(),
        b"GET /cut HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n",
    )
    .unwrap();
    let text = String::from_utf8_lossy(&bytes);
    // Either nothing of it had been passed on, or the promised length is not there.
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(
        head.starts_with("HTTP/1.1 502")
            || (head.contains("Content-Length: 1000") && "only this".starts_with(body)),
        "{text}"
    );
    assert_eq!(server.get("/silent").status, 502);
    wait_until("the reason in the log", || {
        server
            .log()
            .contains("GET /silent: the program closed the connection")
    });
    // No other request is harmed.
    assert_eq!(server.get("/").text(), "hello true");
}

#[test]
fn a_connection_that_the_program_closes_is_not_used_again() {
    let server = start(&json!({}));
    for _ in 0..5 {
        assert_eq!(server.get("/close").text(), "closing");
        assert_eq!(server.get("/").status, 200);
    }
    assert!(!server.log().contains("closed the connection before"));
}

#[test]
fn an_answer_before_the_body_is_read_is_passed_on() {
    let server = start(&json!({}));
    let reply = send(&server, "POST /early", "", &vec![b'x'; 8_000_000]);
    assert_eq!((reply.status, reply.text().as_str()), (413, "too much"));
}

#[test]
fn each_way_to_listen_works() {
    for listen in ["port", "unix", "inherit"] {
        let mut application = json!({"listen": listen});
        if listen != "inherit" {
            application["probe"] = json!("/");
        }
        let server = start(&application);
        assert_eq!(server.get("/").text(), "hello true", "{listen}");
        let port = server.get("/echo").json()["environment"]["PORT"].clone();
        match listen {
            "port" => assert!(port.as_str().unwrap().parse::<u16>().is_ok()),
            // A number or nothing (issue 10): many programs read it as one.
            _ => assert_eq!(port, Value::Null),
        }
    }
}

#[test]
fn a_program_of_the_standard_library_needs_no_change() {
    let server = Server::start(&ServerOptions::default());
    let file = server.write("page.txt", "a page\n");
    let application = json!({
        "executable": python(),
        "arguments": ["-m", "http.server", "--bind", "127.0.0.1", "$PORT"],
        "working_directory": file.parent().unwrap(),
        "processes": 2,
    });
    server.put("/config", &configuration(&server, &application));
    assert_eq!(server.get("/page.txt").text(), "a page\n");
    assert_eq!(server.get("/none").status, 404);
}

#[test]
fn a_stranger_on_the_chosen_port_gets_no_request() {
    let server = Server::start(&ServerOptions::default());
    // A process that belongs to no program: its parent ends at once, and it does not know the port.
    let stranger = server.write(
        "stranger.py",
        "import os, signal, socket, sys\n\
         signal.alarm(20)\n\
         s = socket.socket()\n\
         s.bind(('127.0.0.1', int(sys.argv[1])))\n\
         s.listen()\n\
         while True:\n    \
             c, _ = s.accept()\n    \
             c.send(b'HTTP/1.1 200 OK\\r\\nContent-Length: 8\\r\\n\\r\\nstranger')\n",
    );
    // Beside what is written by the test, the application's user may write in a folder for everybody.
    let mark = format!("/tmp/tutti-stranger-{}", server.port());
    let _ = std::fs::remove_dir(&mark);
    let script = server.write(
        "program.sh",
        format!(
            "if mkdir {mark} 2>/dev/null; then\n  (setsid env -i {python} {} \"$PORT\" &)\n  exec sleep 60\nfi\n\
             exec {node} {}\n",
            stranger.display(),
            install(&server, "app.js").display(),
            python = python(),
            node = node(),
        ),
    );
    let application = json!({"executable": "/bin/sh", "arguments": [script]});
    server.put("/config", &configuration(&server, &application));
    assert!(Path::new(&mark).exists(), "it has been there");
    for _ in 0..4 {
        assert_eq!(server.get("/").text(), "hello true");
    }
    std::fs::remove_dir(mark).unwrap();
}

#[test]
fn what_does_not_start_is_reported_with_its_cause() {
    let server = Server::start(&ServerOptions::default());
    let deaf = server.write("deaf.py", "import sys\nsys.exit('no license found')\n");
    let application = json!({"executable": python(), "arguments": [deaf]});
    let reply = server.call("PUT", "/config", &configuration(&server, &application));
    assert_ne!(reply.status, 200, "{}", reply.text());
    let text = reply.text();
    for part in ["exited with code 1", "no license found", "PORT"] {
        assert!(text.contains(part), "`{part}` in {text}");
    }
    // Issue 28, 5.5: a program that goes into the background.
    let gone = json!({"executable": "/bin/sh", "arguments": ["-c", "exit 0"]});
    let reply = server.call("PUT", "/config", &configuration(&server, &gone));
    let text = reply.text();
    for part in ["exited with code 0", "must stay in the foreground"] {
        assert!(text.contains(part), "`{part}` in {text}");
    }
    let orphan = json!({"executable": python(), "listen": "unix"});
    let mut whole = configuration(&server, &orphan);
    whole["applications"]["app"]
        .as_object_mut()
        .unwrap()
        .remove("protocol");
    let text = server.call("PUT", "/config", &whole).text();
    assert!(text.contains("/applications/app/listen"), "{text}");
}

#[test]
fn a_program_that_never_listens_is_given_up_after_its_time() {
    let server = start(&json!({}));
    let before = server.get("/echo").json()["pid"].clone();
    // The answer to a start that is given up; its limit, in seconds, grows until the program has come to say its `word`.
    let given_up = |options: &Value, protocol: &str, word: &str| {
        for limit in [1, 5, 25] {
            let mut whole = configuration(&server, options);
            let application = &mut whole["applications"]["app"];
            application["limits"] = json!({"start_timeout": limit});
            if protocol.is_empty() {
                application.as_object_mut().unwrap().remove("protocol");
            }
            let reply = server.call("PUT", "/config", &whole);
            assert_eq!(reply.status, 500, "{}", reply.text());
            if reply.text().contains(word) {
                return (reply.text(), limit);
            }
        }
        panic!("no `{word}` within 25 s");
    };
    let mute = server.write(
        "mute.py",
        "import sys, time\nprint('still looking for the database', file=sys.stderr, flush=True)\ntime.sleep(600)\n",
    );
    let options = json!({"executable": python(), "arguments": [mute]});
    let (text, limit) = given_up(&options, "http", "still looking for the database");
    for part in [
        "waiting until the program listens on 127.0.0.1:",
        &format!("it took no connection, for {limit} s (`limits.start_timeout`)"),
        "the environment variable PORT",
    ] {
        assert!(text.contains(part), "`{part}` in {text}");
    }
    // It listens, but what is asked for is never answered.
    let deaf = server.write(
        "deaf.py",
        "import os, socket, sys, time\ns = socket.create_server(('127.0.0.1', int(os.environ['PORT'])))\n\
         s.accept()\nprint('asked', file=sys.stderr, flush=True)\ntime.sleep(600)\n",
    );
    let options = json!({"executable": python(), "arguments": [deaf], "probe": "/health"});
    let (text, _) = given_up(&options, "http", "asked");
    for part in ["it does not answer GET /health", "start_timeout"] {
        assert!(text.contains(part), "`{part}` in {text}");
    }
    assert_eq!(
        server.get("/echo").json()["pid"],
        before,
        "what served goes on"
    );
    let is_running = |name: &str| {
        let mut all = server.processes().into_iter();
        all.any(|process| process.title.contains(name))
    };
    wait_until("the programs to be gone", || {
        !is_running("mute.py") && !is_running("deaf.py")
    });
    // One that speaks the wire, and does not say that it is ready.
    let options = json!({"executable": python(), "arguments": [mute]});
    let (text, limit) = given_up(&options, "", "still looking for the database");
    let late = format!("not ready after {limit} s");
    let cure = r#"needs \"protocol\": \"http\""#;
    for part in [late.as_str(), "`limits.start_timeout`", cure] {
        assert!(text.contains(part), "`{part}` in {text}");
    }
}

#[test]
fn the_program_learns_that_its_client_has_gone() {
    let server = start(&json!({}));
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream
        .write_all(b"GET /hang HTTP/1.1\r\nHost: t\r\n\r\n")
        .unwrap();
    server.wait_for_log("/hang is there");
    client::reset(stream);
    server.wait_for_log("the client of /hang has gone");
}

#[test]
fn nothing_is_left_behind_and_nothing_lost_in_a_restart() {
    let server = start(&json!({"processes": 2}));
    let program = |server: &Server| -> Vec<i32> {
        server
            .processes()
            .into_iter()
            .filter(|process| process.title.contains("app.js"))
            .map(|process| process.pid)
            .collect()
    };
    let mut before = Vec::new();
    wait_until("two programs", || {
        before = program(&server);
        before.len() == 2
    });
    let load = Load::start(&LoadOptions::get(server.address(), "/", 8));
    assert!(load.wait_for_answers(200, PATIENCE));
    server.restart("app");
    assert!(load.wait_for_answers(200, PATIENCE));
    let outcome = load.stop();
    assert_eq!(outcome.failures(), 0, "{outcome:?}\n{}", server.log());
    wait_until("the old programs to end", || {
        before.iter().all(|&pid| !signal::exists(pid))
    });
    let now = program(&server);
    drop(server);
    wait_until("all programs to end", || {
        now.iter().all(|&pid| !signal::exists(pid))
    });
}

#[test]
fn a_killed_worker_takes_its_program_with_it() {
    let server = start(&json!({}));
    let pid = server.get("/echo").json()["pid"].as_i64().unwrap() as i32;
    let worker = server.wait_for_workers("app", 1)[0];
    signal::send(worker, libc::SIGKILL).unwrap();
    wait_until("the program to end", || !signal::exists(pid));
    wait_until("another", || server.get("/").status == 200);
}

// WebSockets.

fn frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mask = [1, 2, 3, 4];
    let mut bytes = vec![0x80 | opcode];
    match payload.len() {
        short @ 0..=125 => bytes.push(0x80 | short as u8),
        medium @ 126..=0xffff => {
            bytes.push(0x80 | 126);
            bytes.extend_from_slice(&(medium as u16).to_be_bytes());
        }
        long => {
            bytes.push(0x80 | 127);
            bytes.extend_from_slice(&(long as u64).to_be_bytes());
        }
    }
    bytes.extend_from_slice(&mask);
    bytes.extend(payload.iter().zip(mask.iter().cycle()).map(|(a, b)| a ^ b));
    bytes
}

struct Socket(TcpStream);

impl Socket {
    fn open(server: &Server, target: &str) -> (Socket, String) {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let request = format!(
            "GET {target} HTTP/1.1\r\nHost: t\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: chat\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        (Socket(stream), String::from_utf8(head).unwrap())
    }

    fn send(&mut self, opcode: u8, payload: &[u8]) {
        self.0.write_all(&frame(opcode, payload)).unwrap();
    }

    /// A whole message, whatever its frames.
    fn receive(&mut self) -> (u8, Vec<u8>) {
        let mut kind = 0;
        let mut message = Vec::new();
        loop {
            let mut head = [0; 2];
            self.0.read_exact(&mut head).unwrap();
            let mut length = u64::from(head[1]);
            if length == 126 {
                let mut bytes = [0; 2];
                self.0.read_exact(&mut bytes).unwrap();
                length = u16::from_be_bytes(bytes).into();
            } else if length == 127 {
                let mut bytes = [0; 8];
                self.0.read_exact(&mut bytes).unwrap();
                length = u64::from_be_bytes(bytes);
            }
            let start = message.len();
            message.resize(start + length as usize, 0);
            self.0.read_exact(&mut message[start..]).unwrap();
            kind = kind.max(head[0] & 15);
            if head[0] & 0x80 != 0 {
                return (kind, message);
            }
        }
    }
}

#[test]
fn websockets_reach_the_program() {
    let server = Server::start(&ServerOptions::default());
    let script = install(&server, "websocket.py");
    let application = json!({"executable": python(), "arguments": [script]});
    server.put("/config", &configuration(&server, &application));
    assert_eq!(server.get("/").text(), "plain");
    let (_, refused) = Socket::open(&server, "/no");
    assert!(refused.starts_with("HTTP/1.1 403"), "{refused}");
    let (mut socket, head) = Socket::open(&server, "/");
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    assert!(
        head.contains("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="),
        "{head}"
    );
    assert!(head.contains("Sec-WebSocket-Protocol: chat"), "{head}");
    for length in [0, 5, 125, 126, 65_535, 65_536, 200_000] {
        let payload = vec![b'x'; length];
        socket.send(1, &payload);
        assert_eq!(socket.receive(), (1, payload), "{length} bytes");
    }
    socket.send(2, &[0, 255, 1]);
    assert_eq!(socket.receive(), (2, vec![0, 255, 1]));
    socket.send(1, b"pieces");
    assert_eq!(socket.receive(), (1, b"pieces".to_vec()));
    // The program pings the client, and gets the client's answer: a client that has gone does not answer.
    socket.send(1, b"ping");
    socket.send(1, b"after");
    assert_eq!(socket.receive(), (9, b"are you there".to_vec()));
    assert_eq!(socket.receive(), (1, b"after".to_vec()));
    socket.send(10, b"are you there");
    assert_eq!(socket.receive(), (1, b"pong: are you there".to_vec()));
    // A sign of life, unasked for.
    socket.send(1, b"pong");
    assert_eq!(socket.receive(), (10, b"still here".to_vec()));
    socket.send(1, b"bye");
    let (kind, close) = socket.receive();
    assert_eq!((kind, close.as_slice()), (8, &b"\x0f\xa1as you wish"[..]));
    let (mut socket, _) = Socket::open(&server, "/");
    socket.send(8, b"\x03\xe8done");
    assert_eq!(socket.receive(), (8, b"\x03\xe8done".to_vec()));
}

/// A WebSocket server of the standard library that echoes, with room for the largest messages of the cases.
fn echo_server(extra: &Value) -> Server {
    let server = Server::start(&ServerOptions::default());
    let script = install(&server, "websocket.py");
    let mut application = json!({"executable": python(), "arguments": [script]});
    tutti_testkit::set_members(&mut application, extra);
    let mut whole = configuration(&server, &application);
    whole["settings"]["http"]["websocket"] = json!({"max_frame_size": 16 << 20});
    server.put("/config", &whole);
    server
}

#[test]
fn the_cases_of_the_protocol_pass_behind_the_relay() {
    let server = echo_server(&json!({}));
    tutti_websocket_cases::run(server.address(), "/", &[]).check();
}

/// Issue 28: the worker waited for them as long as they stayed, and requests for its successor.
#[test]
fn a_worker_at_its_limit_of_requests_leaves_websockets_their_drain_timeout() {
    let server = echo_server(&json!({"limits": {"requests": 3, "drain_timeout": 600}}));
    let set = |seconds: u64| {
        let path = "/config/applications/app/limits/drain_timeout";
        server.put(path, &json!(seconds));
    };
    for round in 0..3 {
        let mut sockets: Vec<Socket> = (0..3)
            .map(|_| {
                let (socket, head) = Socket::open(&server, "/");
                assert!(head.starts_with("HTTP/1.1 101"), "round {round}: {head}");
                socket
            })
            .collect();
        set(1);
        for socket in &mut sockets {
            assert_eq!(socket.receive(), (8, b"\x03\xf4".to_vec()), "1012");
        }
        set(600);
    }
}

/// The client reads nothing until the program, which waits for its echo to be taken, has taken nothing more of what the client
/// sends: then all of it must come back. A relay that waits with one direction for the other never gets there.
#[test]
fn both_directions_of_a_websocket_may_be_full() {
    const MESSAGES: usize = 400;
    let server = echo_server(&json!({}));
    let (socket, head) = Socket::open(&server, "/");
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    let payload = |index: usize| {
        let mut bytes = vec![b'a' + (index % 26) as u8; 100_000];
        bytes[..4].copy_from_slice(&(index as u32).to_be_bytes());
        bytes
    };
    let mut writing = socket.0.try_clone().unwrap();
    let sent = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counter = std::sync::Arc::clone(&sent);
    let writer = std::thread::spawn(move || {
        for index in 0..MESSAGES {
            writing.write_all(&frame(2, &payload(index))).unwrap();
            counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
        writing.write_all(&frame(8, b"\x03\xe8")).unwrap();
    });
    // Every buffer on the way is full once the writer rests.
    let mut seen = (usize::MAX, std::time::Instant::now());
    wait_until("the writer to be held up", || {
        let now = sent.load(std::sync::atomic::Ordering::Relaxed);
        if now != seen.0 {
            seen = (now, std::time::Instant::now());
        }
        now == MESSAGES || seen.1.elapsed() > std::time::Duration::from_secs(1)
    });
    assert_ne!(sent.load(std::sync::atomic::Ordering::Relaxed), MESSAGES);
    let mut socket = socket;
    for index in 0..MESSAGES {
        assert!(socket.receive() == (2, payload(index)), "message {index}");
    }
    assert_eq!(socket.receive(), (8, b"\x03\xe8".to_vec()));
    writer.join().unwrap();
}
