//! Streams of UDP through the whole server: upgrades, restarts, changes, and floods.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use serde_json::{Value, json};
use tutti_e2e::scrape::Samples;
use tutti_testkit::{PATIENCE, Server, ServerOptions, client, free_port, processes, wait_until};

/// Echoes each datagram, except one that begins with `wait`: that is answered when the next one comes. Returns its address.
fn echo() -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let mut room = vec![0; 1 << 16];
        let mut waiting: Option<(Vec<u8>, SocketAddr)> = None;
        while let Ok((length, from)) = socket.recv_from(&mut room) {
            if let Some((text, client)) = waiting.take() {
                let _ = socket.send_to(&text, client);
            }
            match room[..length].starts_with(b"wait") {
                true => waiting = Some((room[..length].to_vec(), from)),
                false => drop(socket.send_to(&room[..length], from)),
            }
        }
    });
    address
}

/// The name of the listener for datagrams.
fn name(address: SocketAddr) -> String {
    format!("udp:{address}")
}

/// An address whose port the kernel gives to no socket that asks for any.
fn free_address(ip: &str) -> SocketAddr {
    SocketAddr::new(ip.parse().unwrap(), free_port())
}

fn passing(address: SocketAddr, to: &str, udp: &Value) -> Value {
    json!({
        "listeners": {name(address): {"stream": "upstreams/u", "udp": udp}},
        "upstreams": {"u": {"servers": {to: {}}}},
    })
}

fn client_to(address: SocketAddr) -> UdpSocket {
    let any: IpAddr = match address {
        SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
    };
    let socket = UdpSocket::bind((any, 0)).unwrap();
    socket.connect(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn receive(socket: &UdpSocket) -> String {
    let mut room = vec![0; 1 << 16];
    let length = socket.recv(&mut room).unwrap();
    String::from_utf8_lossy(&room[..length]).into_owned()
}

#[track_caller]
fn expect_echo(socket: &UdpSocket, text: &str) {
    socket.send(text.as_bytes()).unwrap();
    assert_eq!(receive(socket), text);
}

#[test]
fn numbers_are_in_the_status_the_metrics_and_the_command() {
    let server = Server::start(&ServerOptions::default());
    for ip in ["127.0.0.1", "::1"] {
        let address = free_address(ip);
        let mut configuration = passing(
            address,
            &echo(),
            &json!({"max_datagram_size": 100, "responses": 1}),
        );
        let metrics = free_port();
        configuration["listeners"][format!("127.0.0.1:{metrics}")] = json!({"pass": "metrics"});
        server.put("/config", &configuration);
        let client = client_to(address);
        expect_echo(&client, "abc");
        client.send(&[0; 101]).unwrap();
        let name = name(address);
        let expected = json!({"active": 0, "received": 3, "sent": 3,
            "connections": {"passed": 1, "terminated": 0, "closed": 0, "invalid": 0, "failed": 0},
            "dropped": {"sessions": 0, "size": 1, "unsent": 0}});
        wait_until("both are counted", || {
            server.status("/streams")[&name] == expected
        });
        let page = client::get(([127, 0, 0, 1], metrics).into(), "/")
            .unwrap()
            .text();
        let samples = Samples::read(&page);
        let labels = format!("listener=\"{name}\",reason=\"size\"");
        let dropped = samples.get("tutti_listener_dropped_datagrams_total", &labels);
        assert_eq!(dropped, 1.0);
        let shown = server.command(&["status"]);
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        let line = format!("{name} 0 active, 1 passed, 1 datagrams dropped");
        assert!(shown.contains(&line), "{shown}");
    }
}

/// An answer that is on its way comes from the former router; the next datagrams are passed on by the new one.
#[test]
fn an_upgrade_loses_no_datagram() {
    let server = Server::start(&ServerOptions::default());
    let address = free_address("127.0.0.1");
    server.put(
        "/config",
        &passing(address, &echo(), &json!({"responses": 1})),
    );
    let client = client_to(address);
    expect_echo(&client, "before");
    client.send(b"wait").unwrap();
    wait_until("it waits", || {
        server.status("/streams")[name(address)]["active"] == 1
    });
    let before = server.router();
    server.upgrade();
    wait_until("another router serves", || {
        let now = server.pids("tutti: router");
        now.iter().any(|pid| *pid != before)
    });
    let other = client_to(address);
    other.send(b"after").unwrap();
    assert_eq!(receive(&client), "wait");
    assert_eq!(receive(&other), "after");
    wait_until("the former router has ended", || {
        !processes::is_running(before)
    });
    expect_echo(&client, "again");
}

#[test]
fn a_router_that_dies_is_replaced() {
    let server = Server::start(&ServerOptions::default());
    let address = free_address("127.0.0.1");
    server.put("/config", &passing(address, &echo(), &json!({})));
    let client = client_to(address);
    expect_echo(&client, "before");
    server.kill_router();
    // Datagrams wait in the socket, which main keeps.
    expect_echo(&client, "after");
}

/// Its last sessions still have the port when it is added again.
#[test]
fn a_removed_listener_can_be_added_again_at_once() {
    let server = Server::start(&ServerOptions::default());
    let address = free_address("127.0.0.1");
    let configuration = passing(address, &echo(), &json!({}));
    for _ in 0..3 {
        server.put("/config", &configuration);
        expect_echo(&client_to(address), "there");
        server.put("/config", &json!({}));
    }
    wait_until("the port is free", || UdpSocket::bind(address).is_ok());
}

#[test]
fn a_port_that_is_taken_is_reported() {
    let server = Server::start(&ServerOptions::default());
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let configuration = passing(address, &echo(), &json!({}));
    let reply = server.call("PUT", "/config", &configuration);
    assert_eq!(reply.status, 500, "{}", reply.text());
    let text = reply.text();
    assert!(text.contains("cannot receive datagrams at"), "{text}");
    assert!(text.contains("ss -lunp"), "{text}");
    drop(taken);
    server.put("/config", &configuration);
    expect_echo(&client_to(address), "there");
}

/// Each datagram of the flood has another address, as forged ones have.
#[test]
fn a_flood_of_forged_addresses_keeps_no_session_from_working() {
    let server = Server::start(&ServerOptions::default());
    let address = free_address("127.0.0.1");
    let options = json!({"max_sessions": 100});
    server.put("/config", &passing(address, &echo(), &options));
    let client = client_to(address);
    expect_echo(&client, "before");
    let sessions = || {
        let status = &server.status("/streams")[name(address)];
        let dropped = &status["dropped"]["sessions"];
        (
            status["active"].as_u64().unwrap(),
            dropped.as_u64().unwrap(),
        )
    };
    for number in 0..2000_u16 {
        let [high, low] = number.to_be_bytes();
        let forged = UdpSocket::bind((Ipv4Addr::new(127, 9, high, low), 0)).unwrap();
        forged.send_to(&[0; 1200], address).unwrap();
        // No more at once than the kernel's default buffer of a socket holds: it would drop the client's, too.
        if number % 50 == 49 {
            wait_until("all have come", || {
                let (active, dropped) = sessions();
                active + dropped == u64::from(number) + 2
            });
        }
    }
    expect_echo(&client, "after");
    assert_eq!(sessions(), (100, 1901));
    server.wait_for_log("has `max_sessions` open");
    expect_echo(&client, "after the flood");
}

#[test]
fn a_stop_does_not_wait_for_an_idle_session() {
    let mut server = Server::start(&ServerOptions::default());
    let address = free_address("127.0.0.1");
    let mut configuration = passing(address, &echo(), &json!({}));
    configuration["settings"] = json!({"http": {"drain_timeout": 3600}});
    server.put("/config", &configuration);
    expect_echo(&client_to(address), "before");
    server.stop(libc::SIGQUIT);
}
