//! Requests in a client's first packets (0-RTT, RFC 8470): which applications get them, and with which field; what waits; and that none comes twice.

#[path = "cache/origin.rs"]
mod origin;

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use origin::{Origin, answer, field};
use quinn::{Connection, Endpoint};
use serde_json::{Value, json};
use tutti_e2e::http3::{endpoint, endpoint_without_tokens};
use tutti_e2e::http3_raw::{Field, Raw, head};
use tutti_e2e::http3_site::{self, run};
use tutti_testkit::Server;

/// An origin that says what it has heard of early data, and has none of it at `/late`.
fn origin() -> Origin {
    Origin::start(|head| {
        let early = field(head, "early-data");
        let is_refused = early.is_some() && head.starts_with("GET /late ");
        let status = if is_refused { 425 } else { 200 };
        let lines = head.matches("arly-").count();
        answer(
            status,
            "",
            &format!("{} {lines}", early.unwrap_or_default()),
        )
    })
}

fn site(origin: &Origin, http3: &Value) -> Server {
    let server = http3_site::bare();
    server.write(
        "early.php",
        "<?php echo $_SERVER['HTTP_EARLY_DATA'] ?? 'none', ' ', $_SERVER['REQUEST_METHOD'];",
    );
    configure(&server, origin, http3);
    server
}

fn configure(server: &Server, origin: &Origin, http3: &Value) {
    server.put(
        "/config",
        &json!({
            "listeners": http3_site::listeners(server, "routes", http3),
            "routes": [
                {"match": {"uri": "*.php"}, "action": {"pass": "applications/php"}},
                {"match": {"uri": "/never/*", "headers": {"Early-Data": "1"}}, "action": {"return": 425}},
                {"action": {"proxy": origin.url()}}
            ],
            "applications": {"php": {"type": "php", "root": server.folder(), "processes": 1}}
        }),
    );
}

/// A client that may send at once: it has been here before.
async fn known(address: SocketAddr) -> Endpoint {
    let endpoint = endpoint(true);
    get_ready(&endpoint, address).await;
    endpoint
}

/// Comes and goes until it has got a session by which it may send at once.
async fn get_ready(endpoint: &Endpoint, address: SocketAddr) {
    loop {
        match endpoint.connect(address, "localhost").unwrap().into_0rtt() {
            Ok((connection, taken)) => {
                // That one is used up by this.
                taken.await;
                if raw(&connection).get("/", &[]).await.status() == 200 {
                    return connection.close(0_u8.into(), b"");
                }
            }
            Err(connecting) => {
                let connection = connecting.await.unwrap();
                assert_eq!(raw(&connection).get("/", &[]).await.status(), 200);
                connection.close(0_u8.into(), b"");
            }
        }
    }
}

fn raw(connection: &Connection) -> Raw {
    Raw {
        quic: connection.clone(),
    }
}

/// A way on which the server's answers wait until they are let through, and which notes what the client has sent.
struct Gate {
    address: SocketAddr,
    is_open: Arc<AtomicBool>,
    sent: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Gate {
    fn before(server: SocketAddr) -> Self {
        let front = UdpSocket::bind("127.0.0.1:0").unwrap();
        let back = UdpSocket::bind("127.0.0.1:0").unwrap();
        back.connect(server).unwrap();
        let address = front.local_addr().unwrap();
        let is_open = Arc::new(AtomicBool::new(true));
        let sent = Arc::new(Mutex::new(Vec::new()));
        let client = Arc::new(Mutex::new(None));
        let (front_too, back_too) = (front.try_clone().unwrap(), back.try_clone().unwrap());
        let (noted, from) = (Arc::clone(&sent), Arc::clone(&client));
        std::thread::spawn(move || {
            let mut room = [0; 2000];
            while let Ok((length, place)) = front.recv_from(&mut room) {
                *from.lock().unwrap() = Some(place);
                noted.lock().unwrap().push(room[..length].to_vec());
                let _ = back.send(&room[..length]);
            }
        });
        let opened = Arc::clone(&is_open);
        std::thread::spawn(move || {
            let mut room = [0; 2000];
            while let Ok(length) = back_too.recv(&mut room) {
                let place = *client.lock().unwrap();
                if opened.load(Ordering::SeqCst)
                    && let Some(place) = place
                {
                    let _ = front_too.send_to(&room[..length], place);
                }
            }
        });
        Self {
            address,
            is_open,
            sent,
        }
    }

    fn set_open(&self, is_open: bool) {
        self.is_open.store(is_open, Ordering::SeqCst);
    }
}

async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let outcome = tokio::time::timeout(Duration::from_secs(30), waiting).await;
    assert!(outcome.is_ok(), "{what}");
}

#[test]
fn early_requests_are_marked_and_unsafe_ones_wait() {
    let origin = origin();
    let server = site(&origin, &json!({"early_data": true}));
    run(async {
        let gate = Gate::before(server.address());
        let endpoint = known(gate.address).await;
        let seen = |line: &str| origin.heads().iter().any(|head| head.starts_with(line));
        gate.set_open(false);
        let before = gate.sent.lock().unwrap().len();
        let connecting = endpoint.connect(gate.address, "localhost").unwrap();
        let (connection, taken) = connecting.into_0rtt().map_err(drop).unwrap();
        let raw = raw(&connection);
        let body = Some(&b"body"[..]);
        let spoofs: [Field<'_>; 2] = [(b"early-data", b"0"), (b"early-data", b"2")];
        let waiting = [
            raw.begin(&head("POST", "/post", &[]), body, &[]).await,
            raw.begin(&head("DELETE", "/delete", &[]), None, &[]).await,
            raw.begin(&head("GET", "/fat", &[]), body, &[]).await,
        ];
        let early = [
            raw.begin(&head("GET", "/early", &[]), None, &[]).await,
            raw.begin(&head("GET", "/spoofed", &spoofs), None, &[])
                .await,
            raw.begin(&head("GET", "/early.php", &[]), None, &[]).await,
            raw.begin(&head("GET", "/late", &[]), None, &[]).await,
            raw.begin(&head("GET", "/never/here", &[]), None, &[]).await,
        ];
        // The client has heard nothing: the handshake is not complete.
        until("the origin gets what is early", || {
            seen("GET /early ") && seen("GET /spoofed ") && seen("GET /late ")
        })
        .await;
        for line in ["POST /post ", "DELETE /delete ", "GET /fat ", "GET /never/"] {
            assert!(!seen(line), "{line}");
        }
        let replayed = gate.sent.lock().unwrap()[before..].to_vec();
        gate.set_open(true);
        assert!(taken.await, "it is taken");
        let mut said = Vec::new();
        for receiving in early.into_iter().chain(waiting) {
            let answer = Raw::outcome(receiving).await.answered();
            said.push((answer.status(), answer.text()));
        }
        let expected = [
            (200, "1 1"),
            (200, "1 1"),
            (200, "1 GET"),
            (425, "1 1"),
            (425, ""),
            (200, " 0"),
            (200, " 0"),
            (200, " 0"),
        ];
        for ((status, text), (expected, start)) in said.iter().zip(expected) {
            assert!(*status == expected && text.starts_with(start), "{said:#?}");
        }
        // Later ones of the same connection are like any other.
        assert_eq!(raw.get("/", &[]).await.text(), " 0");
        connection.close(0_u8.into(), b"");
        no_application_gets_a_copy(&server, &origin, &replayed).await;
    });
}

/// Sends the client's first packets again, as an attacker that has seen them might.
async fn no_application_gets_a_copy(server: &Server, origin: &Origin, packets: &[Vec<u8>]) {
    let early = |head: &String| head.starts_with("GET /early ");
    let before = origin.heads().iter().filter(|head| early(head)).count();
    assert_eq!(before, 1);
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    other.set_nonblocking(true).unwrap();
    // Until the server takes it for a new client, and has begun a handshake: the connection that it was is closed for a while.
    until("a copy is answered", || {
        for packet in packets {
            other.send_to(packet, server.address()).unwrap();
        }
        other.recv(&mut [0; 2000]).is_ok_and(|length| length > 100)
    })
    .await;
    // Those behind it, which are not copies, are served.
    let endpoint = known(server.address()).await;
    let connecting = endpoint.connect(server.address(), "localhost").unwrap();
    let (connection, taken) = connecting.into_0rtt().map_err(drop).unwrap();
    assert_eq!(raw(&connection).get("/again", &[]).await.text(), "1 1");
    assert!(taken.await);
    let after = origin.heads().iter().filter(|head| early(head)).count();
    assert_eq!(after, 1, "a copy has come through");
}

/// Returns true if the first packets of a client that comes back are taken, and what it is answered.
async fn comes_back(endpoint: &Endpoint, server: &Server) -> (bool, String) {
    let connecting = endpoint.connect(server.address(), "localhost").unwrap();
    match connecting.into_0rtt() {
        Ok((connection, taken)) => {
            let receiving = raw(&connection)
                .begin(&head("GET", "/back", &[]), None, &[])
                .await;
            let is_taken = taken.await;
            if is_taken {
                return (true, Raw::outcome(receiving).await.answered().text());
            }
            // It was not taken, so it is sent again.
            (false, raw(&connection).get("/back", &[]).await.text())
        }
        Err(connecting) => {
            let connection = connecting.await.unwrap();
            (false, raw(&connection).get("/back", &[]).await.text())
        }
    }
}

/// The source of the first packets may be forged: nothing begins before the client has proven it.
#[test]
fn early_requests_without_an_address_token_wait() {
    let origin = origin();
    let server = site(&origin, &json!({"early_data": true}));
    run(async {
        let client = endpoint_without_tokens();
        get_ready(&client, server.address()).await;
        assert_eq!(comes_back(&client, &server).await, (true, " 0".to_owned()));
    });
}

#[test]
fn early_requests_are_not_taken_by_default() {
    let origin = origin();
    let server = site(&origin, &json!(true));
    run(async {
        // However often it comes, it is never told that it may.
        let client = endpoint(true);
        for _ in 0..5 {
            assert_eq!(comes_back(&client, &server).await, (false, " 0".to_owned()));
        }
        // A client that knows of it from before comes too late when it is switched off, or when what it was promised is not so any more.
        for http3 in [
            json!(true),
            json!({"early_data": true, "max_concurrent_streams": 7}),
        ] {
            configure(&server, &origin, &json!({"early_data": true}));
            let client = known(server.address()).await;
            configure(&server, &origin, &http3);
            let before = origin.count();
            assert_eq!(comes_back(&client, &server).await, (false, " 0".to_owned()));
            assert_eq!(origin.count(), before + 1, "once");
        }
        // A change that has nothing to do with it changes nothing, and a new router knows no client.
        configure(&server, &origin, &json!({"early_data": true}));
        let client = known(server.address()).await;
        server.put(
            "/config/access_log",
            &json!(server.folder().join("access.log")),
        );
        assert_eq!(comes_back(&client, &server).await, (true, "1 1".to_owned()));
        let client = known(server.address()).await;
        std::thread::scope(|scope| {
            scope.spawn(|| server.upgrade()).join().unwrap();
        });
        assert_eq!(comes_back(&client, &server).await, (false, " 0".to_owned()));
    });
}
