//! C programs against a segment, as the host of type `external` would start them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::path::PathBuf;
use std::process::Command;

use tutti_e2e::c;
use tutti_sys::process::Ended;
use tutti_sys::signal;
use tutti_testkit::program::Program as Server;
use tutti_wire::layout::VERSION;
use tutti_wire::{BodyRef, MessageOpcode, Versions, WireRequestHead};

/// A program of the source tree, which is there as long as its folder.
fn compile(source: &str) -> (PathBuf, tempfile::TempDir) {
    let place = tempfile::tempdir().unwrap();
    let program = place.path().join("program");
    c::compile(source, &program);
    (program, place)
}

#[test]
fn every_function_does_what_it_says() {
    let (program, _place) = compile("sdk/c/tests/abi.c");
    let server = Server::start(&program);
    server.ready();
    let head = WireRequestHead {
        method: b"PUT",
        path: b"/a b",
        query: b"c=d",
        remote_port: 50_000,
        user: b"anna",
        content_length: Some(4),
        fields: &[(b"X-Name", b"value")],
        ..WireRequestHead::default()
    };
    let slot = server.submit_head(&head, &BodyRef::Inline(b"body"));
    let answer = server.answer(slot);
    assert_eq!(
        (answer.status(), answer.text().as_str()),
        (201, "all is well\n")
    );
    // Nothing of what was refused is among the rest.
    let interims = answer.interims.iter();
    let interims: Vec<_> = interims
        .map(|head| (head.status, head.fields().collect::<Vec<_>>()))
        .collect();
    let link: (&[u8], &[u8]) = (b"Link", b"</a.css>");
    assert_eq!(interims, [(103, vec![link]), (102, vec![])]);
    let trailers: Vec<_> = answer.trailers.iter().collect();
    let sum: (&[u8], &[u8]) = (b"X-Sum", b"5");
    assert_eq!(trailers, [sum, (b"X-Empty", b"")]);
    let slot = server.submit_head(&head, &BodyRef::None);
    assert!(!server.answer(slot).is_finished);
    assert_eq!(server.ended(), Ended::Code(0));
}

#[test]
fn the_first_sample_serves_until_it_has_to_leave() {
    let (program, _place) = compile("sdk/c/samples/hello.c");
    let server = Server::start(&program);
    server.ready();
    let head = WireRequestHead {
        path: b"/world",
        ..WireRequestHead::default()
    };
    for _ in 0..3 {
        let slot = server.submit_head(&head, &BodyRef::None);
        let answer = server.answer(slot);
        assert_eq!(
            (answer.status(), answer.text().as_str()),
            (200, "Hello from C: /world\n")
        );
    }
    signal::send(server.pid, libc::SIGTERM).unwrap();
    assert_eq!(server.ended(), Ended::Code(0));
    // Outside the server it says what it is.
    let outside = Command::new(&program).output().unwrap();
    assert_eq!(outside.status.code(), Some(1));
}

/// A program that was compiled before the server's version, behind a server that still works with it.
#[test]
fn the_first_sample_serves_behind_a_newer_server() {
    let (program, _place) = compile("sdk/c/samples/hello.c");
    let newer = Versions {
        newest: VERSION + 1,
        ..Versions::OWN
    };
    let server = Server::start_behind(newer, &program);
    server.ready();
    let head = WireRequestHead {
        path: b"/world",
        ..WireRequestHead::default()
    };
    let slot = server.submit_head(&head, &BodyRef::None);
    assert_eq!(server.answer(slot).text(), "Hello from C: /world\n");
    signal::send(server.pid, libc::SIGTERM).unwrap();
    assert_eq!(server.ended(), Ended::Code(0));
}

#[test]
fn the_sample_with_a_loop_echoes_bodies_and_messages() {
    let (program, _place) = compile("sdk/c/samples/loop.c");
    let server = Server::start(&program);
    server.ready();
    let slot = server.submit_head(&WireRequestHead::default(), &BodyRef::Stream { len: None });
    while server.segment.response_head(slot).unwrap().is_none() {
        server.completion(slot);
    }
    assert_eq!(server.segment.request_stream_write(slot, b"first "), 6);
    server.completion(slot);
    assert_eq!(server.segment.request_stream_write(slot, b"second"), 6);
    server.segment.request_stream_finish(slot);
    let socket = WireRequestHead {
        websocket: true,
        ..WireRequestHead::default()
    };
    let socket = server.submit_head(&socket, &BodyRef::Stream { len: None });
    assert_eq!(server.answer(slot).text(), "first second");
    while server.segment.response_head(socket).unwrap().is_none() {
        server.completion(socket);
    }
    for (opcode, bytes) in [
        (MessageOpcode::Text, &b"hello"[..]),
        (MessageOpcode::Close, &[3, 232]),
    ] {
        let sent = server.segment.message_write(socket, opcode, bytes, true);
        assert_eq!(sent, Some(bytes.len()));
        let piece = loop {
            if let Some(piece) = server.segment.message_read(socket).unwrap() {
                break piece;
            }
            server.completion(socket);
        };
        let mut back = Vec::new();
        piece.copy_to(&mut back);
        assert_eq!((piece.head.opcode, back.as_slice()), (opcode, bytes));
        server.segment.response_consume(socket, piece.consumed());
    }
    assert!(server.answer(socket).is_finished);
    server.segment.ask_worker_to_quit(1);
    assert_eq!(server.ended(), Ended::Code(0));
}
