//! Responses that wait for room, and responses that are given up.

use std::task::{Context, Poll};

use tutti_conn::output::Gone;
use tutti_http::OutgoingHead;
use tutti_http::http3::Code;

use super::client::{End, limits};
use super::world::{Flag, LIMITS, Request, World, trailers};

#[test]
fn the_end_of_a_response_waits_for_room() {
    let mut world = World::with_client(LIMITS, limits(10));
    let id = world.client().get();
    let request = world.request();
    request.stream.expect_trailers();
    request.respond(200, 6);
    request.stream.set_trailers(trailers());
    request.stream.finish();
    drop(request);
    let mut bytes = Vec::new();
    world.until(|world| {
        let (more, end) = world.client().read(id, usize::MAX);
        assert!(more.len() <= 10);
        bytes.extend(more);
        (end == End::Whole).then_some(())
    });
    let response = super::client::parse(&bytes);
    assert_eq!(response.head, ":status: 200\ncontent-length: 6\n");
    assert_eq!(response.body, b"yyyyyy");
    assert_eq!(response.trailers, "sum: 42\n");
}

#[test]
fn a_response_waits_for_the_window_of_its_client() {
    let mut world = World::with_client(LIMITS, limits(1000));
    let id = world.client().get();
    let request = world.request();
    let mut output = request.respond(200, 50_000);
    world.settle();
    let (flag, mut bytes) = (Flag::new(), Vec::new());
    loop {
        let waker = flag.waker();
        let sent = request
            .stream
            .poll_send(&mut output, &mut Context::from_waker(&waker));
        if request.stream.has_sent(&output) {
            break;
        }
        if sent.is_pending() {
            world.pass(100);
            assert!(!flag.take(), "there is no room");
            bytes.extend(world.client().read(id, usize::MAX).0);
            world.until(|_| flag.take().then_some(()));
        }
    }
    request.stream.finish();
    world.until(|world| {
        let (more, end) = world.client().read(id, usize::MAX);
        bytes.extend(more);
        (end == End::Whole).then_some(())
    });
    assert_eq!(super::client::parse(&bytes).body, [b'y'; 50_000]);
}

#[test]
fn a_response_that_is_not_whole_ends_with_a_reset() {
    type Way = (&'static str, Code, fn(&Request));
    let ways: [Way; 5] = [
        ("no head", Code::INTERNAL_ERROR, |request| {
            request.stream.finish()
        }),
        ("nothing", Code::INTERNAL_ERROR, |_| {}),
        ("an interim response", Code::INTERNAL_ERROR, |request| {
            let mut output = request.respond(103, 0);
            assert_eq!(request.stream.try_send(&mut output), Ok(true));
            request.stream.finish();
        }),
        ("half a body", Code::INTERNAL_ERROR, half_a_body),
        ("another code", Code::REQUEST_REJECTED, |request| {
            request.stream.abort_with(Code::REQUEST_REJECTED);
            half_a_body(request);
        }),
    ];
    for (way, code, end) in ways {
        let mut world = World::connected(LIMITS);
        let id = world.client().get();
        let request = world.request();
        end(&request);
        drop(request);
        world.settle();
        assert_eq!(world.client().response(id).end, End::Reset(code.0), "{way}");
        assert!(world.client().lost.is_none(), "{way}");
    }
}

fn half_a_body(request: &Request) {
    let mut head = OutgoingHead::new(200);
    head.fields.push_number(b"Content-Length", 10);
    let mut output = tutti_conn::output::Output::new(b"yyyyy".to_vec());
    output.push_head(head);
    assert_eq!(request.stream.try_send(&mut output), Ok(true));
    request.stream.finish();
}

#[test]
fn a_client_that_stops_reading_ends_the_writer_and_waiters() {
    let mut world = World::with_client(LIMITS, limits(1000));
    let id = world.client().get();
    let request = world.request();
    let mut output = request.respond(200, 50_000);
    let (writes, waits) = (Flag::new(), Flag::new());
    let (writer, waiter) = (writes.waker(), waits.waker());
    let mut writing = Context::from_waker(&writer);
    let mut waiting = Context::from_waker(&waiter);
    while request
        .stream
        .poll_send(&mut output, &mut writing)
        .is_ready()
    {}
    assert!(request.stream.poll_gone(&mut waiting).is_pending());
    world.client().stop(id);
    world.settle();
    assert!(writes.take() && waits.take());
    assert!(request.stream.poll_gone(&mut waiting).is_ready());
    let sent = request.stream.poll_send(&mut output, &mut writing);
    assert_eq!(sent, Poll::Ready(Err(Gone::Closed)));
    // A response that has ended does not wait.
    request.stream.finish();
    assert!(request.stream.poll_gone(&mut waiting).is_pending());
}
