//! WebSocket through the whole router: handshakes, messages, both closing handshakes, silence, slow sides, ends of every kind. The cases of
//! the protocol itself are in `tests/conformance/websocket`, and run here against the sample host.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "clippy's `allow-unwrap-in-tests` does not see functions beside the tests"
)]

mod support;

use std::io::Read;
use std::sync::Mutex;
use std::time::Duration;

use support::app::App;
use tutti_options::OptionalLimit;
use tutti_pool::Limits;
use tutti_testkit::{Gate, wait_until};
use tutti_websocket_cases::{Frame, Heard, WebSocketClient, build};

fn text(text: &str) -> Heard {
    Heard::Message(1, text.as_bytes().to_vec())
}

fn close(code: u16, reason: &str) -> Vec<u8> {
    let mut payload = code.to_be_bytes().to_vec();
    payload.extend_from_slice(reason.as_bytes());
    payload
}

/// Held by the tests that need much memory, and by the one that measures it: tests share their process.
static MEMORY: Mutex<()> = Mutex::new(());

trait Talk {
    fn says(&mut self, frame: Frame);
    fn orders(&mut self, text: &str);
    fn hears(&mut self, expected: Heard);
    fn closes(&mut self);
}

impl Talk for WebSocketClient {
    fn says(&mut self, frame: Frame) {
        self.send(&build(&[frame])).unwrap();
    }
    fn orders(&mut self, text: &str) {
        self.says(Frame::new(1, text));
    }
    fn hears(&mut self, expected: Heard) {
        let heard = self.hear().unwrap();
        assert_eq!(heard.describe(), expected.describe());
        assert!(heard == expected);
    }
    fn closes(&mut self) {
        self.says(Frame::new(8, close(1000, "")));
        self.hears(Heard::Close(close(1000, "")));
        self.hears(Heard::End);
    }
}

fn open(app: &App, target: &str) -> WebSocketClient {
    WebSocketClient::open(app.site.address(), target, "")
        .unwrap()
        .0
}

fn websocket(app: &App) -> WebSocketClient {
    open(app, "/websocket/orders")
}

fn is_logged(app: &App, line: &str) -> bool {
    let log = app.site.log.lines();
    log.iter().any(|logged| logged.contains(line))
}

fn with_options(workers: u32, websocket: &str) -> App {
    App::with(
        workers,
        Limits::default(),
        &format!(r#"{{"websocket": {websocket}}}"#),
    )
}

#[test]
fn the_cases_of_the_protocol() {
    let _alone = MEMORY.lock();
    let app = with_options(2, r#"{"max_frame_size": 16777216}"#);
    let report = tutti_websocket_cases::run(app.site.address(), "/websocket", &[]);
    report.check();
    assert!(report.outcomes.len() > 250, "{}", report.outcomes.len());
}

#[test]
fn a_handshake_is_the_applications_to_accept() {
    let app = App::new(1);
    let (mut client, head) = WebSocketClient::open(
        app.site.address(),
        "/websocket?protocol=chat.v2",
        "Sec-WebSocket-Protocol: chat.v1, chat.v2\r\nSec-WebSocket-Extensions: permessage-deflate\r\n",
    )
    .unwrap();
    assert!(
        head.contains("\r\nSec-WebSocket-Protocol: chat.v2\r\n"),
        "{head}"
    );
    // The server sets the fields of the handshake, without extensions.
    assert_eq!(head.matches("Sec-WebSocket-Accept").count(), 1);
    assert_eq!(head.matches("Upgrade: ").count(), 1);
    assert!(!head.contains("Extensions"), "{head}");
    client.says(Frame::new(1, "hello"));
    client.hears(text("hello"));
    client.closes();
    // An application that reads the request's body, as PHP does at its end, gets none and does not wait.
    let read = WebSocketClient::open(app.site.address(), "/echo", "");
    assert!(read.err().unwrap().contains("HTTP/1.1 200"));
    // Any other response refuses the handshake.
    let refused = WebSocketClient::open(app.site.address(), "/status?code=403", "");
    assert!(refused.err().unwrap().contains("HTTP/1.1 403"));
}

#[test]
fn a_handshake_that_is_wrong_never_reaches_the_application() {
    let app = App::new(1);
    let upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\n";
    let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let response = app.site.request(
        "GET",
        "/websocket",
        &format!("{upgrade}{key}Sec-WebSocket-Version: 8\r\n"),
    );
    assert_eq!(response.status, 426);
    assert_eq!(response.field("Sec-WebSocket-Version"), Some("13"));
    assert_eq!(response.field("Upgrade"), Some("websocket"));
    let version = "Sec-WebSocket-Version: 13\r\n";
    // Issue 10: that was left to the application, which failed.
    let old = app.site.exchange(format!(
        "GET /websocket HTTP/1.0\r\n{upgrade}{version}{key}\r\n"
    ));
    assert!(old.starts_with("HTTP/1.1 400 "), "{old}");
    for (method, fields) in [
        ("GET", format!("{upgrade}{version}")),
        (
            "GET",
            format!("{upgrade}{version}Sec-WebSocket-Key: short\r\n"),
        ),
        (
            "POST",
            format!("{upgrade}{version}{key}Content-Length: 0\r\n"),
        ),
        (
            "GET",
            format!("{upgrade}{version}{key}Content-Length: 5\r\n"),
        ),
    ] {
        let response = app.site.request(method, "/websocket", &fields);
        assert_eq!(response.status, 400, "{method} {fields}");
    }
    // Without `Connection: upgrade` it is an ordinary request.
    let plain = app.site.request(
        "GET",
        "/websocket",
        &format!("Upgrade: websocket\r\n{key}{version}"),
    );
    assert_eq!(plain.text(), "this is a WebSocket\n");
    // A static file is served.
    app.site.write("www/file", "content");
    let file = app
        .site
        .request("GET", "/file", &format!("{upgrade}{key}{version}"));
    assert_eq!(file.text(), "content");
}

#[test]
fn an_application_closes_with_its_code() {
    let app = App::new(1);
    for (order, payload) in [
        ("close 4001 enough", close(4001, "enough")),
        ("close 1000", close(1000, "")),
        ("return", close(1000, "")),
        ("close 1005", close(1011, "invalid close code")),
        ("abort", close(1011, "")),
    ] {
        let mut client = websocket(&app);
        client.orders(order);
        client.hears(Heard::Close(payload.clone()));
        client.says(Frame::new(8, payload.get(..2).unwrap()));
        client.hears(Heard::End);
    }
    // A message without its last frame must not look complete.
    let mut client = websocket(&app);
    client.orders("half");
    client.hears(Heard::Close(close(1011, "")));
}

#[test]
fn a_process_that_dies_closes_its_connections() {
    let app = App::new(1);
    let mut client = websocket(&app);
    client.orders("crash");
    client.hears(Heard::Close(close(1011, "")));
    wait_until("another process serves", || {
        app.site.get("/hello").status == 200
    });
}

#[test]
fn the_application_hears_how_the_client_closed() {
    let app = App::new(1);
    let mut client = websocket(&app);
    client.says(Frame::new(8, close(4999, "so long")));
    client.hears(Heard::Close(close(4999, "so long")));
    wait_until("the reason", || {
        is_logged(&app, "websocket ended: close 4999 so long")
    });
    // An error has a code too, and a closed connection is 1006.
    let mut client = websocket(&app);
    client.says(Frame::new(3, ""));
    assert!(matches!(client.hear().unwrap(), Heard::Close(_)));
    wait_until("the fault", || {
        is_logged(&app, "websocket ended: close 1002 unknown opcode")
    });
    drop(websocket(&app));
    wait_until("no connection is left", || {
        is_logged(&app, "websocket ended: close 1006")
    });
    wait_until("nothing is left", || app.active() == 0);
}

#[test]
fn an_application_pings() {
    let app = App::new(1);
    let mut client = websocket(&app);
    client.orders("ping are you there");
    client.hears(Heard::Ping(b"are you there".to_vec()));
    client.says(Frame::new(10, "here"));
    client.hears(text("pong here"));
    client.closes();
}

#[test]
fn silence_is_pinged_and_a_silent_client_is_left() {
    let app = with_options(1, r#"{"keepalive_interval": 1, "read_timeout": 6}"#);
    let mut client = websocket(&app);
    for _ in 0..7 {
        // Seven seconds; without pongs it would end after six.
        client.hears(Heard::Ping(Vec::new()));
        client.says(Frame::new(10, ""));
    }
    client.hears(Heard::Ping(Vec::new()));
    loop {
        match client.hear().unwrap() {
            Heard::Ping(_) => {}
            heard => {
                assert!(
                    heard.describe().starts_with("close 1001"),
                    "{}",
                    heard.describe()
                );
                break;
            }
        }
    }
    let line = "Warn: 1001: the WebSocket is closed: nothing received for `read_timeout` of `http.websocket`, client 127.0.0.1";
    wait_until("the limit is logged", || is_logged(&app, line));
    wait_until("the application knows", || {
        is_logged(&app, "websocket ended: close 1006")
    });
}

#[test]
fn messages_are_limited() {
    let app = with_options(1, r#"{"max_frame_size": 1000}"#);
    let mut client = open(&app, "/websocket");
    client.says(Frame::new(2, vec![7; 1000]));
    client.hears(Heard::Message(2, vec![7; 1000]));
    client.says(Frame::new(2, vec![7; 600]).open());
    client.says(Frame::new(0, vec![7; 401]));
    assert!(client.hear().unwrap().describe().starts_with("close 1009"));
    // Issue 10: the log had no line.
    app.site
        .log
        .wait_for("Warn: 1009: the WebSocket is closed: ");
}

#[test]
fn messages_are_limited_by_the_action() {
    let app = with_options(1, r#"{"max_frame_size": 1000}"#);
    app.site
        .configure(
            r#"{"listeners": {"127.0.0.1:1": {"pass": "routes"}},
                "settings": {"http": {"websocket": {"max_frame_size": 100}}},
                "routes": [{"action": {"pass": "applications/app", "http": {"websocket": {"max_frame_size": 200}}}}],
                "applications": {"app": {"type": "php", "root": "/"}}}"#,
        )
        .unwrap();
    let mut client = open(&app, "/websocket");
    client.says(Frame::new(2, vec![7; 200]));
    client.hears(Heard::Message(2, vec![7; 200]));
    client.says(Frame::new(2, vec![7; 201]));
    assert!(client.hear().unwrap().describe().starts_with("close 1009"));
}

/// Sends until the buffers are full. Returns the number of bytes.
fn fill(client: &WebSocketClient, message: &[u8]) -> usize {
    use std::io::Write;
    let mut stream = client.stream();
    let mut sent = 0;
    let mut last = std::time::Instant::now();
    while last.elapsed() < Duration::from_millis(300) {
        let at = sent % message.len();
        match stream.write(&message[at..]) {
            Ok(count) => {
                sent += count;
                last = std::time::Instant::now();
            }
            Err(_) => std::thread::yield_now(),
        }
    }
    sent
}

#[test]
fn an_application_that_does_not_read_stops_its_client() {
    let _alone = MEMORY.lock();
    let app = App::new(1);
    let mut client = websocket(&app);
    let gate = Gate::new();
    client.orders(&format!("wait {}", gate.file().display()));
    let message = build(&[Frame::new(2, vec![1; 50_000])]);
    let sent = fill(&client, &message);
    // The buffers of the kernel, and a ring; not everything that the client would send.
    assert!(sent < 16 << 20, "{sent} bytes were taken");
    gate.open();
    let rest = sent % message.len();
    if rest > 0 {
        client.send(&message[rest..]).unwrap();
    }
    for _ in 0..sent.div_ceil(message.len()) {
        client.hears(Heard::Message(2, vec![1; 50_000]));
    }
    client.closes();
}

#[test]
fn a_client_that_does_not_read_stops_its_application() {
    let _alone = MEMORY.lock();
    let app = App::new(2);
    let mut client = websocket(&app);
    client.orders("big 50000000");
    let before = resident_bytes();
    // It is sending, and reads only when it has to wait.
    wait_until("the first bytes", || {
        client.stream().peek(&mut [0; 1]).is_ok()
    });
    // Another client receives as much meanwhile, so this one could have received it.
    let mut other = app.site.connect();
    other.send("GET /big?n=50000000 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let mut piece = vec![0; 1 << 16];
    while other.stream.read(&mut piece).unwrap() > 0 {}
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 20 << 20, "{grown} bytes more");
    client.hears(Heard::Message(2, vec![b'x'; 50_000_000]));
    client.closes();
}

/// Resident memory of this process, which the server is in.
fn resident_bytes() -> u64 {
    let mut text = String::new();
    std::fs::File::open("/proc/self/statm")
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[test]
fn a_server_that_ends_says_goodbye() {
    let app = App::new(1);
    let mut client = websocket(&app);
    client.orders("echo");
    client.hears(text("echo"));
    app.site.server.drain();
    assert!(client.hear().unwrap().describe().starts_with("close 1001"));
    client.says(Frame::new(8, close(1001, "")));
    client.hears(Heard::End);
    wait_until("the application knows", || {
        is_logged(&app, "websocket ended: close 1001")
    });
}

#[test]
fn a_listener_that_is_removed_says_goodbye() {
    let app = App::new(1);
    let mut client = websocket(&app);
    client.orders("echo");
    client.hears(text("echo"));
    app.site
        .configure(r#"{"listeners": {"127.0.0.1:2": {"pass": "routes"}}, "routes": []}"#)
        .unwrap();
    assert!(client.hear().unwrap().describe().starts_with("close 1001"));
}

#[test]
fn a_change_of_the_configuration_keeps_connections() {
    let app = App::new(1);
    let mut client = websocket(&app);
    client.orders("echo");
    client.hears(text("echo"));
    app.site
        .configure(r#"{"listeners": {"127.0.0.1:1": {"pass": "routes"}}, "routes": [{"action": {"return": 200}}]}"#)
        .unwrap();
    assert_eq!(app.site.get("/websocket").status, 200);
    client.orders("echo");
    client.hears(text("echo"));
    client.closes();
}

#[test]
fn limits_timeout_is_for_the_handshake() {
    let limits = Limits {
        timeout: OptionalLimit(Some(Duration::from_secs(2))),
        ..Limits::default()
    };
    let app = App::with(2, limits, "{}");
    let mut client = websocket(&app);
    let gate = Gate::new();
    client.orders(&format!("wait {}", gate.file().display()));
    client.orders("still here");
    // A request that begins now times out before this.
    assert_eq!(app.site.get("/hang").status, 504);
    gate.open();
    client.hears(text("still here"));
    client.closes();
}

#[test]
fn a_connection_is_one_line_of_the_access_log() {
    let app = App::new(1);
    let mut client = open(&app, "/websocket");
    client.orders("hello");
    client.hears(text("hello"));
    client.closes();
    // 7 bytes of text, 4 of the close.
    let line = "GET /websocket HTTP/1.1 101 11\n";
    wait_until("the line", || {
        std::fs::read_to_string(app.site.path().join("access.log")).is_ok_and(|log| log == line)
    });
}

#[test]
fn many_connections_at_once() {
    let app = App::new(4);
    let mut clients: Vec<WebSocketClient> = (0..4).map(|_| websocket(&app)).collect();
    for round in 0..50 {
        for (number, client) in clients.iter_mut().enumerate() {
            client.orders(&format!("{number} {round}"));
        }
        for (number, client) in clients.iter_mut().enumerate() {
            client.hears(text(&format!("{number} {round}")));
        }
    }
    clients.iter_mut().for_each(Talk::closes);
}

/// Issue 28: a client that closes its sending side after its close frame got no answer.
#[test]
fn a_client_that_sends_nothing_behind_its_close_hears_the_answer() {
    let app = App::new(1);
    let mut client = websocket(&app);
    client.orders("echo");
    client.hears(text("echo"));
    client.says(Frame::new(8, close(4000, "done")));
    client.stream().shutdown(std::net::Shutdown::Write).unwrap();
    client.hears(Heard::Close(close(4000, "done")));
    client.hears(Heard::End);
    wait_until("the application knows", || {
        is_logged(&app, "websocket ended: close 4000 done")
    });
}

/// Issue 28: on an upgrade, the old process closed the connection without a close frame.
#[test]
fn an_upgrade_whose_time_is_over_says_that_the_server_restarts() {
    let app = App::new(1);
    let mut client = websocket(&app);
    app.site.server.drain_gently();
    client.orders("echo");
    client.hears(text("echo"));
    app.site.server.cut();
    client.hears(Heard::Close(close(1012, "the server restarts")));
    wait_until("the application knows", || {
        is_logged(&app, "websocket ended: close 1012")
    });
}

/// Issue 28: the process could end before its threads had sent anything.
#[test]
fn close_frames_are_sent_when_the_server_says_so() {
    let app = App::new(2);
    let mut clients: Vec<WebSocketClient> = (0..2).map(|_| websocket(&app)).collect();
    for client in &mut clients {
        client.orders("echo");
        client.hears(text("echo"));
    }
    app.site.server.drain();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(app.site.server.farewells_said());
    for client in &mut clients {
        // Over loopback, sent data has arrived.
        let mut head = [0; 2];
        client.stream().set_nonblocking(true).unwrap();
        assert_eq!(client.stream().peek(&mut head).unwrap(), 2);
        assert_eq!(head[0], 0x88, "a close frame");
    }
}
