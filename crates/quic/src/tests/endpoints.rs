//! Endpoints: datagrams without a connection, and clients whose addresses may be forged.

use std::net::SocketAddr;

use quinn_proto::ConnectionError;

use super::client::limits;
use super::network::{self, sent_to_clients};
use super::world::{LIMITS, World};

/// An address without a connection.
const STRANGER: ([u8; 4], u16) = ([127, 0, 0, 3], 9);

/// An Initial packet of this version and length with invalid content.
fn initial(version: u32, length: usize) -> Vec<u8> {
    let mut bytes = vec![0xc0];
    bytes.extend(version.to_be_bytes());
    for id in [b"11111111", b"22222222"] {
        bytes.push(8);
        bytes.extend(id);
    }
    bytes.resize(length, 0);
    bytes
}

#[test]
fn datagrams_that_mean_nothing_are_dropped() {
    let mut world = World::new(LIMITS);
    let short = |length: usize| [&[0x40][..], &vec![7; length - 1]].concat();
    let versions = [
        &[0x80, 0, 0, 0, 0, 8][..],
        b"11111111",
        &[8],
        b"22222222",
        &[0, 0, 0, 1],
    ];
    for (what, bytes) in [
        ("one byte", vec![0xc0]),
        ("ones", vec![0xff; 1200]),
        ("a short first datagram", initial(1, 1199)),
        ("a first datagram that cannot be opened", initial(1, 1200)),
        (
            "a short one of an unknown version",
            initial(0x1a2a_3a4a, 1199),
        ),
        ("the answer to an unknown version", versions.concat()),
        ("a packet too short for a reset", short(20)),
    ] {
        network::send_to_server(STRANGER.into(), bytes);
        world.serve();
        assert!(sent_to_clients().is_empty(), "{what}");
    }
    // The endpoint still serves the next client.
    world.connect(limits(1000));
    world.settle();
    assert!(world.client().is_connected);
}

#[test]
fn a_client_of_another_version_gets_the_supported_versions() {
    let mut world = World::new(LIMITS);
    network::send_to_server(STRANGER.into(), initial(0x1a2a_3a4a, 1200));
    world.serve();
    let answers = sent_to_clients();
    let [(to, bytes)] = answers.as_slices().0 else {
        panic!("{answers:?}");
    };
    assert_eq!(*to, SocketAddr::from(STRANGER));
    // RFC 9000 §17.2.1: the version is 0, and the client's ids are swapped.
    let ids = [&[0, 0, 0, 0, 8][..], b"22222222", &[8], b"11111111"].concat();
    let versions = bytes[1..].strip_prefix(&ids[..]).unwrap();
    // The list has an unknown version, so that clients do not rely on it (RFC 9000 §6.3).
    let known: Vec<_> = versions
        .chunks(4)
        .filter(|version| version[0] & 0xf != 0xa)
        .collect();
    assert_eq!(known, [[0, 0, 0, 1]]);
}

#[test]
fn a_packet_of_a_closed_connection_is_answered_with_a_reset() {
    let mut world = World::new(LIMITS);
    let packet = [&[0x40][..], &[7; 99]].concat();
    network::send_to_server(STRANGER.into(), packet.clone());
    world.serve();
    let answers = sent_to_clients();
    assert_eq!(answers.len(), 1);
    // RFC 9000 §10.3: it looks like a packet, and is shorter than the one it answers.
    let bytes = &answers[0].1;
    assert_eq!(bytes[0] & 0xc0, 0x40);
    assert!((21..packet.len()).contains(&bytes.len()));
}

#[test]
fn a_client_shows_its_address_while_many_begin() {
    let mut world = World::new(LIMITS);
    for _ in 0..64 {
        world.connect(limits(1000));
    }
    world.send_to_server();
    world.serve();
    assert_eq!(world.site.connections.get(), 64);
    assert!(sent_to_clients().len() >= 64);

    world.clients.clear();
    world.connect(limits(1000));
    world.send_to_server();
    world.serve();
    assert_eq!(world.site.connections.get(), 64, "nothing is kept for it");
    let answers = sent_to_clients();
    // RFC 9000 §17.2.5: a long header of type 3, one for each datagram of the first flight.
    assert!(answers.iter().all(|(_, retry)| retry[0] & 0xf0 == 0xf0));
    let (to, retry) = &answers[0];
    assert!(world.client().receive(*to, retry));
    world.settle();
    assert!(world.client().is_connected);
    assert_eq!(world.site.connections.get(), 65);
}

#[test]
fn a_client_that_cannot_be_taken_is_refused() {
    type Way = (&'static str, fn(&World));
    let ways: [Way; 2] = [
        ("as many as may be", |world| world.site.is_full.set(true)),
        ("closing", World::close),
    ];
    for (way, prepare) in ways {
        let mut world = World::connected(LIMITS);
        prepare(&world);
        world.connect(limits(1000));
        world.settle();
        assert!(
            matches!(&world.clients[1].lost, Some(ConnectionError::ConnectionClosed(close))
                if close.error_code == quinn_proto::TransportErrorCode::CONNECTION_REFUSED),
            "{way}: {:?}",
            world.clients[1].lost
        );
        // The existing connections continue.
        world.client().get();
        world.request();
    }
}

/// A client whose first packet arrived while an upgrade led the next ones to another process was refused there, and gave up.
#[test]
fn a_client_that_another_process_serves_gets_no_answer() {
    let mut world = World::connected(LIMITS);
    world.hand_over();
    world.connect(limits(1000));
    world.send_to_server();
    world.serve();
    assert!(sent_to_clients().is_empty());
    assert_eq!(world.site.connections.get(), 1);
    // The existing connections continue.
    world.client().get();
    world.request();
    // It sends the packet again, which would be the other process's: the endpoint stands for that one from now on.
    world.reopen();
    world.until(|world| world.clients[1].is_connected.then_some(()));
}

#[test]
fn a_full_socket_is_waited_for() {
    let mut world = World::connected(LIMITS);
    let id = world.client().get();
    let request = world.request();
    network::set_full(true);
    request.answer(200);
    world.settle();
    assert!(world.client().response(id).body.is_empty());
    network::set_full(false);
    world.settle();
    assert_eq!(world.client().response(id).body, b"yyyyyy");
}
