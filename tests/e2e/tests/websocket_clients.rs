//! WebSocket as its clients speak it: the case table over TLS, over HTTP/2 (RFC 8441) and over HTTP/3 (RFC 9220), and libraries of Python, Node and Go with and
//! without TLS.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tutti_e2e::external::{build, source};
use tutti_e2e::http3_raw::{Field, Frame, Frames, frame, section};
use tutti_e2e::python::PythonSite;
use tutti_e2e::tls;
use tutti_http::websocket::handshake;

/// The application that echoes, and where its certificate is, if it has one.
fn start(is_tls: bool) -> (PythonSite, Option<PathBuf>) {
    let site = PythonSite::bare();
    let mut configuration = site.configuration(&json!({"module": "asynchronous", "processes": 1}));
    configuration["settings"]["http"]["websocket"] = json!({"max_frame_size": 17 << 20});
    let authority = is_tls.then(|| tls::certificate(&site.server));
    if is_tls {
        let listener = format!("127.0.0.1:{}", site.server.port());
        configuration["listeners"][listener]["tls"] = json!({"certificate": "site"});
    }
    site.server.put("/config", &configuration);
    (site, authority)
}

/// `tests/conformance/websocket/relay.py`; it ends with its input.
struct Relay {
    child: Child,
    address: SocketAddr,
}

impl Relay {
    fn start(mode: &str, site: &PythonSite, authority: Option<&Path>) -> Self {
        let mut child = Command::new("/usr/bin/python3")
            .arg(source("tests/conformance/websocket/relay.py"))
            .args([mode, &site.server.port().to_string()])
            .args(authority)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let port: u16 = line.trim().parse().expect("its port");
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        Self { child, address }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn cases_pass(mode: &str, is_tls: bool) {
    let (site, authority) = start(is_tls);
    let relay = Relay::start(mode, &site, authority.as_deref());
    let report = tutti_websocket_cases::run(relay.address, "/talk", &[]);
    report.check();
    assert!(report.outcomes.len() >= 300, "{}", report.outcomes.len());
    assert!(
        !site.server.log().contains("panicked"),
        "{}",
        site.server.log()
    );
}

#[test]
fn the_cases_pass_over_tls() {
    cases_pass("tls", true);
}

#[test]
fn the_cases_pass_over_http2() {
    cases_pass("http2", false);
}

#[test]
fn the_cases_pass_over_http2_and_tls() {
    cases_pass("https2", true);
}

/// Lets clients that know nothing but WebSocket over HTTP/1.1 reach a server over HTTP/3 (RFC 9220), each over a connection of its own.
fn relay_to_http3(server: SocketAddr, path: &'static str) -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let endpoint = tutti_e2e::http3::endpoint(false);
            while let Ok((stream, _)) = listener.accept().await {
                let connecting = endpoint.connect(server, "localhost").unwrap();
                tokio::spawn(async move {
                    // Either side ends it as it likes.
                    let _ = relay(stream, connecting, path).await;
                });
            }
        });
    });
    address
}

async fn relay(
    stream: tokio::net::TcpStream,
    connecting: quinn::Connecting,
    path: &str,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    stream.set_nodelay(true)?;
    let (mut from, mut to) = stream.into_split();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(from.read_u8().await?);
    }
    let head = String::from_utf8(head)?;
    let lines: Vec<(String, &str)> = head
        .lines()
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value))
        .collect();
    let given = |name: &str| lines.iter().find(|(known, _)| known == name).unwrap().1;
    let mut fields: Vec<Field<'_>> = vec![
        (b":method", b"CONNECT"),
        (b":protocol", b"websocket"),
        (b":scheme", b"https"),
        (b":authority", b"localhost"),
        (b":path", path.as_bytes()),
    ];
    let left_out = ["host", "upgrade", "connection", "sec-websocket-key"];
    let passed = lines
        .iter()
        .filter(|(name, _)| !left_out.contains(&name.as_str()));
    fields.extend(passed.map(|(name, value)| (name.as_bytes(), value.as_bytes())));
    let connection = connecting.await?;
    let (mut sending, mut receiving) = connection.open_bi().await?;
    sending.write_all(&frame(1, &section(&fields))).await?;
    let said = async {
        let mut room = vec![0; 65_536];
        loop {
            let count = from.read(&mut room).await.unwrap_or(0);
            if count == 0 {
                break sending.finish().ok();
            }
            if sending.write_all(&frame(0, &room[..count])).await.is_err() {
                break None;
            }
        }
    };
    let heard = async {
        let mut frames = Frames::default();
        while let Ok(Some(chunk)) = receiving.read_chunk(65_536, true).await {
            for found in frames.take(&chunk.bytes) {
                match found {
                    Frame::Data(data) => to.write_all(&data).await?,
                    Frame::Head(answer) => {
                        let accept = handshake::accept(given("sec-websocket-key").as_bytes());
                        let accept = String::from_utf8_lossy(&accept);
                        let mut text = match answer[":status"].as_str() {
                            "200" => format!(
                                "HTTP/1.1 101 -\r\nUpgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Accept: {accept}\r\n"
                            ),
                            status => format!("HTTP/1.1 {status} -\r\n"),
                        };
                        for (name, value) in
                            answer.iter().filter(|(name, _)| !name.starts_with(':'))
                        {
                            text += &format!("{name}: {value}\r\n");
                        }
                        to.write_all((text + "\r\n").as_bytes()).await?;
                    }
                }
            }
        }
        std::io::Result::Ok(())
    };
    // It goes when the server ends the stream, after what it has said.
    tokio::pin!(said, heard);
    tokio::select! {
        outcome = &mut heard => outcome?,
        _ = &mut said => heard.await?,
    }
    Ok(())
}

/// The application at `/talk`, and behind a proxy at `/proxied`, over HTTP/3.
fn start_http3() -> PythonSite {
    let site = PythonSite::bare();
    let mut configuration = site.configuration(&json!({"module": "asynchronous", "processes": 1}));
    configuration["settings"]["http"]["websocket"] = json!({"max_frame_size": 17 << 20});
    tls::certificate(&site.server);
    let inner = tutti_testkit::free_port();
    configuration["listeners"] = json!({
        format!("127.0.0.1:{}", site.server.port()): {"pass": "routes", "tls": {"certificate": "site"}, "http3": true},
        format!("127.0.0.1:{inner}"): {"pass": "applications/app"}
    });
    configuration["routes"] = json!([
        {"match": {"uri": "/proxied"}, "action": {"rewrite": "/talk", "proxy": format!("http://127.0.0.1:{inner}")}},
        {"action": {"pass": "applications/app"}}
    ]);
    site.server.put("/config", &configuration);
    site
}

/// Frames of any size and in any pieces, control frames between, faults and ends: all of the cases with an application, and through a proxy those that
/// are not about sizes and many messages alone (Autobahn's group 9).
#[test]
fn the_cases_pass_over_http3() {
    let site = start_http3();
    let through_proxy = ["1", "2", "3", "4", "5", "6", "7", "9.1", "9.2", "10"];
    for (path, wanted, least) in [("/talk", &[][..], 300), ("/proxied", &through_proxy, 200)] {
        let relay = relay_to_http3(site.server.address(), path);
        let report = tutti_websocket_cases::run(relay, "/talk", wanted);
        report.check();
        assert!(report.outcomes.len() >= least, "{}", report.outcomes.len());
    }
    assert!(
        !site.server.log().contains("panicked"),
        "{}",
        site.server.log()
    );
}

/// A client goes through its cases, by `ws` and by `wss`.
fn client_is_content(program: &Path, arguments: &[PathBuf]) {
    for is_tls in [false, true] {
        let (site, authority) = start(is_tls);
        let scheme = if is_tls { "wss" } else { "ws" };
        let output = Command::new(program)
            .args(arguments)
            .arg(format!("{scheme}://127.0.0.1:{}/talk", site.server.port()))
            .args(authority)
            // Debian's modules, whosever Node this is.
            .env("NODE_PATH", "/usr/share/nodejs")
            .output()
            .unwrap_or_else(|error| {
                panic!("{program:?}: {error}; `packaging/install-deps test` installs it")
            });
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{scheme}: {text}{errors}");
        let count: u32 = text.split(' ').next().unwrap().parse().unwrap();
        assert!(count >= 60, "{text}");
        assert!(
            !site.server.log().contains("panicked"),
            "{}",
            site.server.log()
        );
    }
}

#[test]
fn websockets_for_python_is_content() {
    let script = source("tests/conformance/websocket/clients/client.py");
    client_is_content("/usr/bin/python3".as_ref(), &[script]);
}

#[test]
fn ws_for_node_is_content() {
    let script = source("tests/conformance/websocket/clients/client.js");
    client_is_content("node".as_ref(), &[script]);
}

#[test]
fn gorilla_for_go_is_content() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("client");
    build("tests/real/go/websocket-client", &program);
    client_is_content(&program, &[]);
}
