//! The example, an axum application, as a program of the server.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;

use tutti_sys::process::Ended;
use tutti_sys::signal;
use tutti_testkit::program::Program;
use tutti_testkit::wait_until;
use tutti_wire::{BodyRef, WireRequestHead};

/// The example, which cargo builds with the tests.
fn example() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().unwrap().parent().unwrap();
    folder.join("examples/hello")
}

fn get(target: &'static [u8]) -> WireRequestHead<'static> {
    WireRequestHead {
        method: b"GET",
        target,
        version_minor: 1,
        ..WireRequestHead::default()
    }
}

#[test]
fn an_axum_application_serves() {
    let program = Program::start(&example());
    program.ready();
    let slots = [(); 10].map(|()| program.submit_head(&get(b"/hello/world"), &BodyRef::None));
    for slot in slots {
        let answer = program.answer(slot);
        assert_eq!(
            (answer.status(), answer.text().as_str()),
            (200, "Hello, world\n")
        );
    }
    // More than it holds at once (7): what has to wait is taken when others have ended, also while it is leaving nothing behind.
    let post = WireRequestHead {
        method: b"POST",
        ..get(b"/echo")
    };
    let open = [(); 10].map(|()| program.submit_head(&post, &BodyRef::Stream { len: None }));
    for slot in open {
        program.segment.request_stream_finish(slot);
        assert_eq!(program.answer(slot).status(), 200);
    }
    let missing = program.submit_head(&get(b"/nothing"), &BodyRef::None);
    assert_eq!(program.answer(missing).status(), 404);
    signal::send(program.pid, libc::SIGTERM).unwrap();
    assert_eq!(program.ended(), Ended::Code(0));
}

/// It was dropped at its end only, which it may not have.
#[test]
fn a_service_is_dropped_when_its_client_goes() {
    let program = Program::start(&example());
    program.ready();
    let handshake = WireRequestHead {
        websocket: true,
        fields: &[
            (b"Upgrade", b"websocket"),
            (b"Connection", b"Upgrade"),
            (b"Sec-WebSocket-Version", b"13"),
            (b"Sec-WebSocket-Key", b"dGhlIHNhbXBsZSBub25jZQ=="),
        ],
        ..get(b"/never")
    };
    let waiting = || {
        let slot = program.submit_head(&get(b"/waiting"), &BodyRef::None);
        program.answer(slot).text()
    };
    for (head, body) in [
        (get(b"/never"), BodyRef::None),
        (handshake, BodyRef::Stream { len: None }),
    ] {
        let slot = program.submit_head(&head, &body);
        wait_until("it waits", || waiting() == "1");
        program.segment.client_gone(slot);
        assert!(!program.answer(slot).is_finished);
        wait_until("it is dropped", || waiting() == "0");
    }
    signal::send(program.pid, libc::SIGTERM).unwrap();
    assert_eq!(program.ended(), Ended::Code(0));
}

#[test]
fn bodies_stream_through_an_axum_application() {
    let program = Program::start(&example());
    program.ready();
    let post = WireRequestHead {
        method: b"POST",
        target: b"/echo",
        version_minor: 1,
        ..WireRequestHead::default()
    };
    let inline = program.submit_head(&post, &BodyRef::Inline(b"all at once"));
    assert_eq!(program.answer(inline).text(), "all at once");
    let slot = program.submit_head(&post, &BodyRef::Stream { len: None });
    let sent = "0123456789abcdef".repeat(20_000);
    let (mut written, mut echoed) = (0, Vec::new());
    loop {
        let rest = sent.as_bytes().get(written..).unwrap();
        written += program.segment.request_stream_write(slot, rest);
        if written == sent.len() {
            program.segment.request_stream_finish(slot);
        }
        let _ = program.segment.response_head(slot).unwrap();
        let ready = program.segment.response_ready(slot).unwrap();
        ready.copy_to(&mut echoed);
        program.segment.response_consume(slot, ready.len());
        assert!(!ready.aborted);
        if ready.finished {
            break;
        }
        if ready.is_empty() {
            program.completion(slot);
        }
    }
    assert!(echoed == sent.as_bytes());
    assert!(program.segment.free(slot));
    // A client that goes in the middle of its body: the application sees an error, not an end.
    let slot = program.submit_head(&post, &BodyRef::Stream { len: None });
    program.segment.request_stream_write(slot, b"half");
    while program.segment.response_head(slot).unwrap().is_none() {
        program.completion(slot);
    }
    program.segment.client_gone(slot);
    assert!(!program.answer(slot).is_finished, "cut short");
    program.segment.ask_worker_to_quit(1);
    assert_eq!(program.ended(), Ended::Code(0));
}
