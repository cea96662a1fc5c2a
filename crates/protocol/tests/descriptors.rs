//! Messages to a process that has too many descriptors open. Alone in its process, whose limit it lowers.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tutti_protocol::{LONGEST, Packet, ToRouter, receive};
use tutti_sys::seqpacket;

fn send(socket: &OwnedFd, message: &ToRouter, descriptors: Vec<OwnedFd>) {
    let packet = Packet::new(message, descriptors).unwrap();
    packet.send(socket.as_fd()).unwrap();
}

#[test]
fn without_descriptors_only_the_request_that_needs_them_fails() {
    let (main, router) = seqpacket::pair().unwrap();
    seqpacket::set_nonblocking(router.as_fd()).unwrap();
    let (one, other) = io::pipe().unwrap();
    let done = |id| ToRouter::Done { id, pid: None };
    let large = ToRouter::Failed {
        id: 3,
        message: "x".repeat(100_000),
        hint: None,
        option: None,
    };
    send(&main, &done(1), vec![one.into(), other.into()]);
    send(&main, &done(2), Vec::new());
    send(&main, &large, Vec::new());
    let before = getrlimit(Resource::Nofile);
    let none = Rlimit {
        current: Some(3),
        maximum: before.maximum,
    };
    setrlimit(Resource::Nofile, none).unwrap();
    let lost = receive::<ToRouter>(router.as_fd(), LONGEST);
    let next = receive::<ToRouter>(router.as_fd(), LONGEST);
    let waits: Vec<_> = (0..2)
        .map(|_| receive::<ToRouter>(router.as_fd(), LONGEST))
        .collect();
    setrlimit(Resource::Nofile, before).unwrap();

    let (message, descriptors) = lost.unwrap().unwrap();
    assert!(matches!(message, ToRouter::Done { id: 1, .. }));
    assert!(seqpacket::lacks_descriptors(&descriptors.unwrap_err()));
    let (message, descriptors) = next.unwrap().unwrap();
    assert!(matches!(message, ToRouter::Done { id: 2, .. }));
    assert!(descriptors.unwrap().is_empty());
    for wait in waits {
        assert!(seqpacket::lacks_descriptors(&wait.unwrap_err()));
    }
    let (message, _) = receive::<ToRouter>(router.as_fd(), LONGEST)
        .unwrap()
        .unwrap();
    assert!(matches!(message, ToRouter::Failed { id: 3, message, .. } if message.len() == 100_000));
    let empty = receive::<ToRouter>(router.as_fd(), LONGEST).unwrap_err();
    assert_eq!(empty.kind(), io::ErrorKind::WouldBlock);
}
