//! HTTP/3 through the whole server: files, pages, servers and applications behind it, what the log and the numbers say; applications of all
//! languages; aioquic, quic-go and Chromium.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tutti_e2e::documents::chapter;
use tutti_e2e::http3::{Http3Client, PendingRequest, endpoint};
use tutti_e2e::http3_raw::{Field, Frame, Frames, Outcome, Raw, frame, head, section};
use tutti_e2e::http3_site::{bare, configuration as config, large, listeners, run, site, sum};
use tutti_e2e::java::JavaSite;
use tutti_e2e::lossy::{Passes, Way};
use tutti_e2e::python::environment;
use tutti_e2e::{echo, external, hundred_files, tls};
use tutti_sys::port_group::{Banks, bind_group, steer};
use tutti_testkit::{Server, wait_until};

async fn serves(server: &Server) {
    let page = Http3Client::connect(server.port()).await.get("/page").await;
    assert_eq!(page.unwrap().status, 200);
}

fn sha1(body: &[u8]) -> String {
    sum("sha1sum", body)
}

#[test]
fn requests_are_answered_like_those_of_other_versions() {
    let server = site(&json!(true));
    run(async {
        let mut client = Http3Client::connect(server.port()).await;
        let page = client.get("/page").await.unwrap();
        assert_eq!((page.status.as_u16(), page.body.len()), (200, 0));
        assert_eq!(
            page.fields["server"].to_str().unwrap().split('/').next(),
            Some("Tutti")
        );
        assert!(page.fields.get("alt-svc").is_none(), "it knows");
        let text = client.get("/text").await.unwrap();
        assert_eq!(text.text(), "/text over HTTP/3.0");
        assert_eq!(text.status.as_u16(), 404);
        assert_eq!(text.fields["content-length"], "19");
        let head = client.send("HEAD", "/text", &[], None).await.unwrap();
        assert_eq!(head.body.len(), 0);
        assert_eq!(head.fields["content-length"], "19");
        let small = client.get("/small.txt").await.unwrap();
        assert_eq!(
            (small.text(), &small.fields["content-length"]),
            ("small", &"5".parse().unwrap())
        );
        let head = client.send("HEAD", "/small.txt", &[], None).await.unwrap();
        assert_eq!((head.status.as_u16(), head.body.len()), (200, 0));
        assert_eq!(head.fields["content-length"], "5");
        let part = client
            .send(
                "GET",
                "/large.bin",
                &[("range", "bytes=100000-299999")],
                None,
            )
            .await
            .unwrap();
        assert!(part.status == 206 && part.body == large()[100_000..300_000]);
        assert!(client.get("/large.bin").await.unwrap().body == large());
        assert_eq!(client.get("/behind/x").await.unwrap().text(), "small");
        assert_eq!(client.get("/none").await.unwrap().status, 404);
        for size in [0, 1, 1_000, 100_000, 5_000_000] {
            let body: Vec<u8> = (0..size).map(|n: u32| (n * 7 + n / 251) as u8).collect();
            let pieces: Vec<Vec<u8>> = body.chunks(70_000).map(<[u8]>::to_vec).collect();
            let expected = format!("HTTP/3.0 https {size} {}", sha1(&body));
            let length = size.to_string();
            for fields in [&[("content-length", length.as_str())][..], &[]] {
                let answer = client
                    .send("POST", "/digest.php", fields, Some(&pieces))
                    .await
                    .unwrap();
                assert_eq!(answer.text(), expected);
            }
        }
        let cookies = [("cookie", "a=1"), ("cookie", "b=2")];
        assert_eq!(
            client
                .send("GET", "/page", &cookies, None)
                .await
                .unwrap()
                .status,
            200
        );
    });
    let log = server.folder().join("access.log");
    wait_until("the log is written", || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        text.contains("GET /page HTTP/3.0 200 0 TLSv1.3 TLS_AES_256_GCM_SHA384 localhost 127.0.0.1")
            || text.contains(
                "GET /page HTTP/3.0 200 0 TLSv1.3 TLS_AES_128_GCM_SHA256 localhost 127.0.0.1",
            )
    });
}

/// The host comes from `:authority`.
#[test]
fn maps_and_groups_have_their_values() {
    let server = bare();
    let configuration = json!({
        "listeners": listeners(&server, "routes", &json!(true)),
        "maps": {
            "site": {"hosts": {"localhost": "$map_kind of $protocol"}, "default": "none"},
            "kind": {"key": "$header_x_kind", "values": {"~^k-(?<kind>[a-z]+)$": "$match_kind"}, "default": "plain"},
            "from": {"addresses": {"127.0.0.0/8": "here"}}
        },
        "routes": [
            {"match": {"uri": "~^/x/(.*)$", "host": "~^(local)"}, "action": {"return": 200, "body": "$match_1 $host_match_1 $map_site $map_from",
                "response_headers": {"X-Group": "$match_1"}}}
        ]
    });
    server.put("/config", &configuration);
    run(async {
        let mut client = Http3Client::connect(server.port()).await;
        let fields = [("x-kind", "k-special")];
        let answer = client.send("GET", "/x/a%20b", &fields, None).await.unwrap();
        assert_eq!(answer.text(), "a b local special of HTTP/3.0 here");
        assert_eq!(answer.fields["x-group"], "a b");
        let answer = client.get("/x/").await.unwrap();
        assert_eq!(answer.text(), " local plain of HTTP/3.0 here");
        assert!(answer.fields.get("x-group").is_none());
    });
}

/// The chapter about HTTP/3 in `docs/http/http2-and-http3.md`: its configuration, and the output of its command.
#[test]
fn the_guide_does_what_it_says() {
    let page = chapter(
        include_str!("../../../docs/http/http2-and-http3.md"),
        "HTTP/3",
    );
    let block = |kind: &str| {
        let (_, rest) = page.split_once(&format!("```{kind}\n")).unwrap();
        rest.split_once("```").unwrap().0
    };
    let server = site(&json!(false));
    let port = server.port().to_string();
    let folder = server.folder().to_str().unwrap().to_owned();
    let configuration = block("json")
        .replace("*:443", &format!("127.0.0.1:{port}"))
        .replace("/srv/site", &folder);
    server.put("/config", &serde_json::from_str(&configuration).unwrap());
    let (command, said) = block("console").split_once('\n').unwrap();
    let command = command
        .trim_start_matches("$ ")
        .replace("localhost/", &format!("127.0.0.1:{port}/small.txt"));
    let output = Command::new("sh").args(["-c", &command]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).replace(&port, "443");
    assert_eq!(text.trim().to_ascii_lowercase(), said.trim());
    run(async {
        assert_eq!(
            Http3Client::connect(server.port())
                .await
                .get("/small.txt")
                .await
                .unwrap()
                .text(),
            "small"
        )
    });
}

#[test]
fn many_requests_at_once_do_not_wait_for_each_other() {
    let server = site(&json!({"max_concurrent_streams": 20}));
    run(async {
        let client = Http3Client::connect(server.port()).await;
        let tasks: Vec<_> = (0..200)
            .map(|number| {
                let mut client = client.another();
                tokio::spawn(async move {
                    let path = if number % 10 == 0 {
                        "/large.bin"
                    } else {
                        "/small.txt"
                    };
                    client.get(path).await.unwrap().body.len()
                })
            })
            .collect();
        for (number, task) in tasks.into_iter().enumerate() {
            let expected = if number % 10 == 0 { 3_000_000 } else { 5 };
            assert_eq!(task.await.unwrap(), expected);
        }
    });
}

#[test]
fn clients_learn_of_it_while_it_is_spoken() {
    let server = site(&json!(true));
    let told = || {
        let url = format!("https://127.0.0.1:{}/page", server.port());
        let output = Command::new("curl").args(["-sSki", &url]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).to_ascii_lowercase();
        let line = text.lines().find_map(|line| line.strip_prefix("alt-svc: "));
        line.map(|line| line.trim().to_owned())
    };
    assert_eq!(told(), Some(format!("h3=\":{}\"; ma=86400", server.port())));
    server.put("/config", &config(&server, &json!({"alt_svc_max_age": 0})));
    assert_eq!(told(), None);
    run(async {
        serves(&server).await;
    });
    server.put("/config", &config(&server, &json!(false)));
    assert_eq!(told(), None);
    // The port is free again.
    let place = ("127.0.0.1", server.port());
    wait_until("the UDP port is given back", || {
        std::net::UdpSocket::bind(place).is_ok()
    });
    server.put("/config", &config(&server, &json!(true)));
    assert_eq!(told(), Some(format!("h3=\":{}\"; ma=86400", server.port())));
    run(async {
        serves(&server).await;
    });
}

#[test]
fn a_port_that_is_taken_is_a_fault_of_the_option() {
    let server = site(&json!(false));
    let _taken = std::net::UdpSocket::bind(("127.0.0.1", server.port())).unwrap();
    let wanted = config(&server, &json!(true)).to_string();
    let reply =
        tutti_testkit::client::control(server.control(), "PUT", "/config", wanted.as_bytes());
    let reply = reply.unwrap();
    assert!(reply.status >= 400, "{}", reply.text());
    for part in ["cannot take HTTP/3", "http3", "ss -lunp"] {
        assert!(reply.text().contains(part), "{}", reply.text());
    }
}

#[test]
fn a_client_may_change_its_address_and_its_keys() {
    let server = site(&json!(true));
    run(async {
        let mut client = Http3Client::connect(server.port()).await;
        for round in 0..6 {
            let mut asked = client.ask("/large.bin").await.unwrap();
            asked.recv_response().await.unwrap();
            // In the middle of an answer: another port, which the kernel would give to another thread by itself.
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            client.endpoint.rebind(socket).unwrap();
            if round % 2 == 0 {
                client.quic.force_key_update();
            }
            assert!(rest(&mut asked).await == large(), "{round}");
            assert_eq!(client.get("/page").await.unwrap().status, 200);
        }
    });
}

/// The body of an answer.
async fn rest(asked: &mut PendingRequest) -> Vec<u8> {
    use bytes::Buf;
    let mut body = Vec::new();
    while let Some(mut piece) = asked.recv_data().await.unwrap() {
        body.extend_from_slice(&piece.copy_to_bytes(piece.remaining()));
    }
    body
}

#[test]
fn what_is_lost_doubled_or_late_on_the_way_changes_nothing() {
    let server = site(&json!(true));
    let fate = |number: usize| match number {
        0..4 => Passes::Once,
        _ if number.is_multiple_of(13) => Passes::Never,
        _ if number.is_multiple_of(11) => Passes::Twice,
        _ if number.is_multiple_of(7) => Passes::Later,
        _ => Passes::Once,
    };
    let way = Way::to(SocketAddr::from(([127, 0, 0, 1], server.port())), fate);
    run(async {
        let mut client = Http3Client::connect_to(way.address).await;
        for _ in 0..20 {
            assert_eq!(client.get("/small.txt").await.unwrap().text(), "small");
        }
        let part = [("range", "bytes=0-399999")];
        let answer = client.send("GET", "/large.bin", &part, None).await.unwrap();
        assert!(answer.body == large()[..400_000]);
        let body = large()[..200_000].to_vec();
        let expected = format!("HTTP/3.0 https 200000 {}", sha1(&body));
        let answer = client
            .send("POST", "/digest.php", &[], Some(&[body]))
            .await
            .unwrap();
        assert_eq!(answer.text(), expected);
    });
}

/// Issue 28: a response whose first bytes found room for only some of them was never continued.
#[test]
fn a_small_window_of_the_connection_stops_no_response() {
    let server = site(&json!(true));
    run(async {
        // The first bytes of a body go out with its head, 4,096 together: all of these windows open while some of them wait.
        for window in [700, 1_500, 3_000, 5_000] {
            let mut client = Http3Client::connect_with_window(server.port(), window).await;
            let part = [("range", "bytes=0-99999")];
            let answer = client.send("GET", "/large.bin", &part, None).await.unwrap();
            assert!(answer.body == large()[..100_000], "{window}");
            let page = client.get("/page").await.unwrap();
            assert_eq!(page.status, 200, "{window}");
        }
    });
}

#[test]
fn an_upgrade_loses_no_answer() {
    let server = site(&json!(true));
    run(async {
        let mut client = Http3Client::connect(server.port()).await;
        let mut asked = client.ask("/large.bin").await.unwrap();
        asked.recv_response().await.unwrap();
        let idle = Http3Client::connect(server.port()).await;
        let upgraded = {
            let server = &server;
            std::thread::scope(|scope| {
                scope.spawn(|| server.upgrade()).join().unwrap();
            });
            Http3Client::connect(server.port()).await.get("/page").await
        };
        assert_eq!(upgraded.unwrap().status, 200);
        // The router before has the rest of it.
        assert!(rest(&mut asked).await == large());
        drop((asked, client));
        // An idle client gets GOAWAY.
        let gone = tokio::time::timeout(Duration::from_secs(30), idle.quic.closed()).await;
        assert!(gone.is_ok());
        let mut other = Http3Client::connect(server.port()).await;
        assert!(other.get("/large.bin").await.unwrap().body == large());
    });
}

/// The former router reads first packets that came before the kernel gave them to the next one. It refused them, and the clients gave up.
///
/// The packet is given to the former router after its last client has been led away, as if the thread had not read it until then.
#[test]
fn a_first_packet_that_the_former_router_reads_is_sent_again_to_the_next_one() {
    let server = site(&json!(true));
    let processors = std::thread::available_parallelism().unwrap().get();
    let joined = bind_group(server.address(), 1, true).unwrap().remove(0);
    // All first packets to the first socket of the first router, or to those of the second one.
    let lead_to_former = || steer(&joined, 1, Banks::new(0, 0..1)).unwrap();
    let lead_to_next = || steer(&joined, processors.min(64), Banks::new(1, 0..1)).unwrap();
    run(async {
        lead_to_former();
        // The router keeps the socket for a request that does not end.
        let (kept, _body) = begun_upload(&server).await;
        std::thread::scope(|scope| {
            scope.spawn(|| server.upgrade()).join().unwrap();
        });
        let get = head("GET", "/page", &[]);
        while let Outcome::Answered(_) = kept.send(&get, None, &[]).await {}

        let (front, back) = (local_socket().await, local_socket().await);
        back.connect(server.address()).await.unwrap();
        let endpoint = endpoint(false);
        let connecting = endpoint.connect(front.local_addr().unwrap(), "localhost");
        let mut first = [0; 2048];
        let (length, client) = front.recv_from(&mut first).await.unwrap();
        lead_to_former();
        back.send(&first[..length]).await.unwrap();
        lead_to_next();
        let connected = tokio::select! {
            connected = connecting.unwrap() => connected,
            () = relay(&front, &back, client) => unreachable!(),
        };
        assert!(connected.is_ok(), "{connected:?}");
    });
}

/// A connection with a request whose body goes on.
async fn begun_upload(server: &Server) -> (Raw, (quinn::SendStream, quinn::RecvStream)) {
    let raw = Raw::connect(server.port()).await;
    let (mut sending, receiving) = raw.quic.open_bi().await.unwrap();
    let post = frame(1, &section(&head("POST", "/digest.php", &[])));
    sending.write_all(&post).await.unwrap();
    (raw, (sending, receiving))
}

/// Passes the datagrams of this client and of the server that `back` is connected to.
async fn relay(front: &tokio::net::UdpSocket, back: &tokio::net::UdpSocket, client: SocketAddr) {
    let (mut asked, mut answered) = ([0; 2048], [0; 2048]);
    loop {
        tokio::select! {
            come = front.recv_from(&mut asked) => back.send(&asked[..come.unwrap().0]).await.unwrap(),
            come = back.recv(&mut answered) => front.send_to(&answered[..come.unwrap()], client).await.unwrap(),
        };
    }
}

async fn local_socket() -> tokio::net::UdpSocket {
    tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap()
}

/// The things that clients have done while the server is upgraded.
#[derive(Default)]
struct Done {
    is_over: AtomicBool,
    downloads: AtomicUsize,
    /// The uploads whose answers have come.
    uploads: Mutex<Vec<String>>,
    echoes: AtomicUsize,
}

/// True if the server has said that it has not begun with the request: it is to be sent again (RFC 9114 §5.2).
fn is_for_another(error: &h3::error::StreamError) -> bool {
    let text = format!("{error:?} {error}");
    let reasons = [
        "REJECTED",
        "GOAWAY",
        "GoAway",
        "NO_ERROR",
        "RemoteClosing",
        "closing",
    ];
    reasons.iter().any(|reason| text.contains(reason))
}

async fn downloads(port: u16, done: Arc<Done>) {
    while !done.is_over.load(Ordering::SeqCst) {
        let mut client = Http3Client::connect(port).await;
        while !done.is_over.load(Ordering::SeqCst) {
            match client.get("/large.bin").await {
                Ok(answer) => assert!(answer.status == 200 && answer.body == large()),
                Err(error) if is_for_another(&error) => break,
                Err(error) => panic!("a download: {error:?}"),
            }
            done.downloads.fetch_add(1, Ordering::SeqCst);
        }
    }
}

async fn uploads(port: u16, done: Arc<Done>, name: usize) {
    let pieces: Vec<Vec<u8>> = large()
        .chunks(70_000)
        .take(10)
        .map(<[u8]>::to_vec)
        .collect();
    let mut number = 0;
    while !done.is_over.load(Ordering::SeqCst) {
        let mut client = Http3Client::connect(port).await;
        while !done.is_over.load(Ordering::SeqCst) {
            number += 1;
            let id = format!("{name}-{number}");
            let path = format!("/upload.php?{id}");
            match client.send("POST", &path, &[], Some(&pieces)).await {
                Ok(answer) => assert_eq!((answer.status.as_u16(), answer.text()), (200, "700000")),
                Err(error) if is_for_another(&error) => break,
                Err(error) => panic!("an upload: {error:?}"),
            }
            done.uploads.lock().unwrap().push(id);
        }
    }
}

/// A WebSocket on which each side says something again and again, as long as all of it lasts.
async fn websocket(port: u16, done: Arc<Done>) {
    let raw = Raw::connect(port).await;
    let (mut sending, mut receiving) = raw.quic.open_bi().await.unwrap();
    let head: [Field<'_>; 6] = [
        (b":method", b"CONNECT"),
        (b":protocol", b"websocket"),
        (b":scheme", b"https"),
        (b":authority", b"localhost"),
        (b":path", b"/echo"),
        (b"sec-websocket-version", b"13"),
    ];
    sending.write_all(&frame(1, &section(&head))).await.unwrap();
    let mut frames = Frames::default();
    let mut heard = Vec::new();
    while !done.is_over.load(Ordering::SeqCst) {
        // A text of five letters, masked with nothing.
        let said = b"\x81\x85\0\0\0\0hello";
        sending.write_all(&frame(0, said)).await.unwrap();
        while !heard.ends_with(b"\x81\x05hello") {
            let chunk = receiving.read_chunk(1000, true).await.unwrap();
            for found in frames.take(&chunk.expect("it goes on").bytes) {
                if let Frame::Data(data) = found {
                    heard.extend_from_slice(&data);
                }
            }
        }
        heard.clear();
        done.echoes.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// As many as there are sockets for while the first process of all still has a client.
const UPGRADES: usize = 3;

#[test]
fn upgrades_under_load_lose_nothing_and_double_nothing() {
    let server = Arc::new(site(&json!(true)));
    server.write("echo.py", ECHO);
    let noted = server.write("uploads.txt", "");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    std::fs::set_permissions(&noted, mode).unwrap();
    server.write(
        "upload.php",
        "<?php $length = strlen(file_get_contents('php://input'));\n\
         file_put_contents(__DIR__ . '/uploads.txt', $_SERVER['QUERY_STRING'] . \"\\n\", FILE_APPEND | LOCK_EX);\n\
         echo $length;",
    );
    let mut wanted = config(&server, &json!(true));
    wanted["applications"]["echo"] =
        json!({"type": "python", "path": server.folder(), "module": "echo", "callable": "app"});
    wanted["routes"].as_array_mut().unwrap().insert(
        0,
        json!({"match": {"uri": "/echo"}, "action": {"pass": "applications/echo"}}),
    );
    server.put("/config", &wanted);
    let done = Arc::new(Done::default());
    run(async {
        let port = server.port();
        let mut tasks = vec![tokio::spawn(websocket(port, Arc::clone(&done)))];
        for name in 0..2 {
            tasks.push(tokio::spawn(downloads(port, Arc::clone(&done))));
            tasks.push(tokio::spawn(uploads(port, Arc::clone(&done), name)));
        }
        for upgrade in 0..=UPGRADES {
            let count = |done: &Done| {
                [
                    done.downloads.load(Ordering::SeqCst),
                    done.uploads.lock().unwrap().len(),
                    done.echoes.load(Ordering::SeqCst),
                ]
            };
            let before = count(&done);
            while !before
                .iter()
                .zip(count(&done))
                .all(|(before, now)| now >= before + 4)
            {
                assert!(
                    tasks.iter().all(|task| !task.is_finished()),
                    "a client has failed"
                );
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            if upgrade < UPGRADES {
                let server = Arc::clone(&server);
                tokio::task::spawn_blocking(move || server.upgrade())
                    .await
                    .unwrap();
            }
        }
        done.is_over.store(true, Ordering::SeqCst);
        for task in tasks {
            task.await.unwrap();
        }
    });
    let text = std::fs::read_to_string(noted).unwrap();
    let mut ran: Vec<&str> = text.lines().collect();
    let mut answered = done.uploads.lock().unwrap().clone();
    ran.sort_unstable();
    answered.sort_unstable();
    assert_eq!(ran, answered, "each once, and none that was refused");
}

#[test]
fn a_router_that_dies_is_noticed_at_once() {
    let server = site(&json!(true));
    run(async {
        let mut client = Http3Client::connect(server.port()).await;
        assert_eq!(client.get("/page").await.unwrap().status, 200);
        let died = server.kill_router();
        wait_until("another router serves", || {
            let routers = server.pids("tutti: router");
            !routers.is_empty() && !routers.contains(&died)
        });
        // It sends something, and learns that its connection is unknown.
        let outcome = tokio::time::timeout(Duration::from_secs(20), async {
            loop {
                if client.get("/page").await.is_err() {
                    return client.quic.closed().await;
                }
            }
        });
        assert!(matches!(outcome.await, Ok(quinn::ConnectionError::Reset)));
        serves(&server).await;
    });
}

#[test]
fn the_death_of_a_former_router_is_noticed_at_once() {
    let server = site(&json!(true));
    run(async {
        let (kept, (mut body, _response)) = begun_upload(&server).await;
        let former = server.router();
        std::thread::scope(|scope| {
            scope.spawn(|| server.upgrade()).join().unwrap();
        });
        tutti_sys::signal::send(former, libc::SIGKILL).unwrap();
        wait_until("the former router is gone", || {
            !server.pids("tutti: router").contains(&former)
        });
        // Its packets are for a socket that only the killed router has read.
        body.write_all(&frame(0, b"more")).await.unwrap();
        let end = tokio::time::timeout(Duration::from_secs(20), kept.quic.closed()).await;
        assert!(matches!(end, Ok(quinn::ConnectionError::Reset)), "{end:?}");
        serves(&server).await;
    });
}

/// The last argument: WebSocket, too (RFC 9220).
#[test]
fn aioquic_is_served_websockets_too() {
    let python = environment("aioquic", "aioquic==1.7.2\n").join("bin/python");
    let server = site(&json!(true));
    server.write("echo.py", ECHO);
    let mut wanted = config(&server, &json!(true));
    wanted["applications"]["echo"] =
        json!({"type": "python", "path": server.folder(), "module": "echo", "callable": "app"});
    let steps = wanted["routes"].as_array_mut().unwrap();
    steps.insert(
        0,
        json!({"match": {"uri": "/echo"}, "action": {"pass": "applications/echo"}}),
    );
    server.put("/config", &wanted);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/http3/client.py");
    let port = server.port().to_string();
    let output = Command::new(python)
        .args([script, &port, "websocket"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert_eq!(output.stdout, b"good\n");
}

/// Bodies of these sizes, with their length and without, come back as they were.
async fn echoes(client: &mut Http3Client, path: &str) {
    for size in [0, 1, 1_000, 16_385, 100_000, 1_000_000, 5_000_000] {
        let body: Vec<u8> = (0..size).map(|n: u32| (n * 31 + n / 253) as u8).collect();
        let pieces: Vec<Vec<u8>> = body.chunks(70_000).map(<[u8]>::to_vec).collect();
        let length = size.to_string();
        for fields in [&[("content-length", length.as_str())][..], &[]] {
            let answer = client
                .send("POST", path, fields, Some(&pieces))
                .await
                .unwrap();
            let place = format!("{path}: {} of {size} bytes", answer.body.len());
            assert_eq!(answer.status, 200, "{place}");
            assert!(answer.body == body, "{place}");
        }
    }
}

#[test]
fn applications_of_all_languages_get_bodies_and_give_them() {
    let listener = json!({"pass": "routes", "tls": {"certificate": "site"}, "http3": true});
    let server = echo::site(&listener);
    run(async {
        let client = Http3Client::connect(server.port()).await;
        let paths = echo::NAMES.map(|name| format!("/{name}/"));
        // All of them at once.
        let tasks = paths.map(|path| {
            let mut client = client.another();
            tokio::spawn(async move { echoes(&mut client, &path).await })
        });
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert!(!server.log().contains("panicked"), "{}", server.log());
}

#[test]
fn java_gets_bodies_over_http3_too() {
    let site = JavaSite::bare("jakarta");
    tls::certificate(&site.server);
    let mut configuration = site.configuration(&json!({}));
    for (_, listener) in configuration["listeners"].as_object_mut().unwrap() {
        listener["tls"] = json!({"certificate": "site"});
        listener["http3"] = json!(true);
    }
    site.server.put("/config", &configuration);
    run(async {
        let mut client = Http3Client::connect(site.server.port()).await;
        for size in [0, 1, 100_000, 1_000_000] {
            let body = vec![b'x'; size];
            let answer = client
                .send("POST", "/q/digest", &[], Some(std::slice::from_ref(&body)))
                .await;
            let answer = answer.unwrap();
            assert_eq!(answer.text(), format!("{size} {}", sum("sha256sum", &body)));
        }
    });
}

#[test]
fn connections_from_before_a_rule_about_client_certificates_end() {
    let server = bare();
    let put = |tls: serde_json::Value| {
        let listener = json!({"pass": "routes", "tls": tls, "http3": true});
        let listeners = json!({server.address().to_string(): listener});
        let routes = json!([{"action": {"return": 200}}]);
        server.put(
            "/config",
            &json!({"listeners": listeners, "routes": routes}),
        );
    };
    put(json!({"certificate": "site"}));
    run(async {
        let mut client = Http3Client::connect(server.port()).await;
        assert_eq!(client.get("/").await.unwrap().status, 200);
        put(json!({"certificate": "site", "client_ca": "site"}));
        assert_eq!(client.get("/").await.unwrap().status, 421);
        client.quic.closed().await;
    });
}

/// quic-go, built from the versions that `tests/conformance/h3/go.sum` names: WebSocket and early requests, too.
#[test]
fn quic_go_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("client");
    external::build("tests/conformance/h3", &program);
    let server = site(&json!(true));
    server.write("echo.py", ECHO);
    for is_early in [false, true] {
        let mut wanted = config(&server, &json!({"early_data": is_early}));
        wanted["applications"]["echo"] =
            json!({"type": "python", "path": server.folder(), "module": "echo", "callable": "app"});
        let steps = wanted["routes"].as_array_mut().unwrap();
        steps.insert(
            0,
            json!({"match": {"uri": "/echo"}, "action": {"pass": "applications/echo"}}),
        );
        steps.insert(0, json!({"match": {"uri": "/early", "headers": {"Early-Data": "1"}},
            "action": {"rewrite": "/early.txt", "share": format!("{}$uri", server.folder().display())}}));
        steps.insert(
            1,
            json!({"match": {"uri": "/early"}, "action": {"return": 200}}),
        );
        server.write("early.txt", "early");
        server.put("/config", &wanted);
        let port = server.port().to_string();
        let arguments: &[&str] = if is_early {
            &[&port, "early"]
        } else {
            &[&port]
        };
        let output = Command::new(&program).args(arguments).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}; {}", server.log());
        assert_eq!(output.stdout, b"good\n");
    }
}

#[test]
fn chromium_loads_a_site_of_a_hundred_files() {
    let server = site(&json!(true));
    hundred_files::write(&server);
    // The browser takes no certificate for QUIC that it does not know the key of, whatever flags it has.
    let command = format!(
        "openssl x509 -in {}/site.pem -pubkey -noout | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary | openssl base64",
        server.folder().display()
    );
    let output = Command::new("sh").args(["-c", &command]).output().unwrap();
    let key = String::from_utf8(output.stdout).unwrap();
    let place = format!("127.0.0.1:{}", server.port());
    let chromium = hundred_files::Chromium::new(&[
        "--enable-quic",
        &format!("--origin-to-force-quic-on={place}"),
        &format!("--ignore-certificate-errors-spki-list={}", key.trim()),
    ]);
    let seen = chromium.sees(&format!("https://{place}/hundred.html"));
    assert_eq!(seen, hundred_files::seen("h3"));
}

/// An ASGI application that says what it hears.
const ECHO: &str = "
async def app(scope, receive, send):
    assert scope['type'] == 'websocket', scope
    await receive()
    await send({'type': 'websocket.accept'})
    while (event := await receive())['type'] == 'websocket.receive':
        await send({'type': 'websocket.send', 'text': event['text']})
";

#[test]
fn connections_of_one_client_are_bounded_over_quic_too() {
    let server = site(&json!(true));
    let mut bounded = config(&server, &json!(true));
    for (_, listener) in bounded["listeners"].as_object_mut().unwrap() {
        listener["max_connections_per_client"] = json!(2);
    }
    server.put("/config", &bounded);
    let address = server.address();
    run(async {
        let mut first = Http3Client::connect(server.port()).await;
        let second = Http3Client::connect(server.port()).await;
        let again = || first.endpoint.connect(address, "localhost").unwrap();
        let refused = again().await.map(drop).unwrap_err();
        assert!(
            matches!(refused, quinn::ConnectionError::ConnectionClosed(_)),
            "{refused}"
        );
        server
            .wait_for_log("connection refused: client 127.0.0.1 has `max_connections_per_client`");
        second.quic.close(0_u8.into(), b"");
        // It counts until the server has seen that it is over.
        let mut third = again().await;
        while third.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
            third = again().await;
        }
        assert_eq!(first.get("/page").await.unwrap().status, 200);
    });
}

/// A response that is on its way, of which the client has taken the head.
struct OnItsWay(Http3Client, PendingRequest);

impl OnItsWay {
    async fn ask(server: &Server) -> Self {
        let mut client = Http3Client::connect_with_window(server.port(), 20_000).await;
        let mut stream = client.ask("/large.bin").await.unwrap();
        assert_eq!(stream.recv_response().await.unwrap().status(), 200);
        Self(client, stream)
    }

    async fn arrives(self) {
        let Self(_client, mut stream) = self;
        assert!(rest(&mut stream).await == large());
    }
}

/// The connections of the removed listener still have its port, and the listener that follows shares it with them.
#[test]
fn a_listener_that_is_added_again_shares_the_port_with_the_connections_of_its_predecessor() {
    let server = site(&json!(true));
    let whole = config(&server, &json!(true));
    let mut without_http3 = whole.clone();
    without_http3["listeners"] = listeners(&server, "routes", &json!(false));
    let mut without_listener = whole.clone();
    without_listener["listeners"] = json!({});
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut refused = whole.clone();
    refused["listeners"][taken.local_addr().unwrap().to_string()] = json!({"pass": "routes"});
    run(async {
        let mut on_their_way = vec![OnItsWay::ask(&server).await];
        for before in [&without_listener, &without_http3, &without_listener] {
            server.put("/config", before);
            // A change that fails leaves the sockets where they are.
            let answer = server.call("PUT", "/config", &refused);
            assert!(
                answer.status == 500 && answer.text().contains("cannot listen"),
                "{}",
                answer.text()
            );
            server.put("/config", &whole);
            serves(&server).await;
            on_their_way.push(OnItsWay::ask(&server).await);
        }
        for response in on_their_way {
            response.arrives().await;
        }
        server.put("/config", &without_listener);
    });
    wait_until("nothing is left of it", || {
        UdpSocket::bind(server.address()).is_ok()
    });
}
