//! The deadlines of connections, and their orderly end.

use quinn_proto::ConnectionError;
use tutti_conn::clock::Millis;
use tutti_http::http3::frame::{GOAWAY, SETTINGS};
use tutti_http::http3::{Code, varint};

use super::client::{End, close, head, limits};
use super::network::now_millis;
use super::world::{Flag, LIMITS, TIMEOUTS, World};

/// The time in which a client receives GOAWAY, and a little more.
const HEARD: Millis = 310;

/// The numbers in the server's GOAWAY frames.
fn goaways(world: &mut World, read: &mut Vec<u8>) -> Vec<u64> {
    let frames = world.client().control_frames(read);
    assert_eq!(frames[0].0, SETTINGS);
    let behind = frames[1..].iter();
    behind
        .map(|(kind, payload)| {
            assert_eq!(*kind, GOAWAY);
            varint::read(payload).unwrap().0
        })
        .collect()
}

fn closed_with(world: &mut World) -> Option<u64> {
    match &world.client().lost {
        Some(ConnectionError::ApplicationClosed(close)) => Some(close.error_code.into_inner()),
        None => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_closing_connection_accepts_requests_in_flight() {
    let mut world = World::connected(LIMITS);
    let mut read = Vec::new();
    assert!(goaways(&mut world, &mut read).is_empty());
    world.client().get();
    let first = world.request();
    world.site.is_ending.set(true);
    world.pass(1);
    let any = varint::LARGEST - 3;
    assert_eq!(goaways(&mut world, &mut read), [any]);
    // This request was sent before GOAWAY arrived.
    let on_its_way = world.client().get();
    let second = world.request();
    world.pass(HEARD);
    assert_eq!(goaways(&mut world, &mut read), [any, 8]);
    // This one comes later, and may be sent again elsewhere.
    let late = world.client().get();
    world.settle();
    let end = world.client().response(late).end;
    assert_eq!(end, End::Reset(Code::REQUEST_REJECTED.0));
    drop(first);
    second.answer(200);
    world.settle();
    assert_eq!(world.client().response(on_its_way).end, End::Whole);
    assert_eq!(closed_with(&mut world), None, "a request is under way");
    drop(second);
    world.pass(1);
    assert_eq!(closed_with(&mut world), Some(Code::NO_ERROR.0));
    world.until(|world| (world.site.connections.get() == 0).then_some(()));
}

#[test]
fn a_client_that_may_take_its_time_has_some_seconds() {
    let mut world = World::connected(LIMITS);
    world.site.is_ending.set(true);
    world.site.drains_gently.set(true);
    world.pass(HEARD);
    world.pass(4_900);
    assert_eq!(closed_with(&mut world), None);
    world.pass(200);
    assert_eq!(closed_with(&mut world), Some(Code::NO_ERROR.0));
}

/// The server has finished the response long before the client has received it: it does not fit one flight, or the client reads it later
/// than an idle client may take to close.
/// that has nothing under way may take to go.
#[test]
fn a_response_on_its_way_is_not_cut_by_the_end_of_its_connection() {
    for is_gentle in [false, true] {
        for (window, length, pause) in [(1 << 20, 200_000, 0), (10, 6, 6_000)] {
            let mut world = World::with_client(LIMITS, limits(window));
            world.site.is_ending.set(true);
            world.site.drains_gently.set(is_gentle);
            let id = world.client().get();
            let request = world.request();
            world.pass(HEARD);
            request.respond(200, length);
            request.stream.finish();
            drop(request);
            world.pass(pause);
            let mut bytes = Vec::new();
            world.until(|world| {
                let (more, end) = world.client().read(id, usize::MAX);
                bytes.extend(more);
                (end == End::Whole).then_some(())
            });
            assert_eq!(super::client::parse(&bytes).body.len(), length);
            world.until(closed_with);
        }
    }
}

/// A client that reads nothing is not waited for without end.
#[test]
fn a_response_that_is_not_taken_ends_with_its_connection() {
    let mut world = World::with_client(LIMITS, limits(10));
    world.site.is_ending.set(true);
    world.client().get();
    let request = world.request();
    world.pass(HEARD);
    request.respond(200, 6);
    request.stream.finish();
    drop(request);
    world.pass(TIMEOUTS.idle - 100);
    assert_eq!(closed_with(&mut world), None);
    world.pass(200);
    assert_eq!(closed_with(&mut world), Some(Code::NO_ERROR.0));
}

#[test]
fn a_client_without_a_request_is_let_go() {
    let mut world = World::connected(LIMITS);
    let mut read = Vec::new();
    world.client().get();
    let request = world.request();
    assert!(world.site.is_active.get());
    // The client is pinged, which keeps the connection alive.
    world.pass(10 * TIMEOUTS.idle);
    assert!(goaways(&mut world, &mut read).is_empty());
    request.answer(200);
    drop(request);
    world.settle();
    assert!(!world.site.is_active.get());
    assert_eq!(world.site.deadline.get(), now_millis() + TIMEOUTS.idle);
    world.pass(TIMEOUTS.idle - 100);
    assert!(goaways(&mut world, &mut read).is_empty());
    world.pass(200);
    assert_eq!(goaways(&mut world, &mut read), [varint::LARGEST - 3]);
    world.pass(HEARD);
    assert_eq!(closed_with(&mut world), Some(Code::NO_ERROR.0));
}

#[test]
fn a_head_that_does_not_come_is_given_up() {
    let mut world = World::connected(LIMITS);
    let id = world.client().open(&head("GET")[..5]).unwrap();
    world.settle();
    assert_eq!(world.site.deadline.get(), now_millis() + TIMEOUTS.head);
    world.pass(TIMEOUTS.head - 100);
    assert_eq!(world.client().response(id).end, End::NotYet);
    world.pass(200);
    let end = world.client().response(id).end;
    assert_eq!(end, End::Reset(Code::REQUEST_INCOMPLETE.0));
    assert_eq!(closed_with(&mut world), None);
}

#[test]
fn a_handshake_that_does_not_end_is_given_up() {
    let mut world = World::new(LIMITS);
    world.connect(limits(1000));
    world.send_to_server();
    world.serve();
    assert_eq!(world.site.connections.get(), 1);
    for _ in 0..TIMEOUTS.head / 1000 + 1 {
        world.lose(1000);
    }
    world.until(|world| (world.site.connections.get() == 0).then_some(()));
    let logged = world.site.logged.borrow();
    assert!(
        logged[0].starts_with("no QUIC with 127.0.0.2 on \"*:443\""),
        "{logged:?}"
    );
}

#[test]
fn a_client_that_is_not_there_any_more_is_noticed() {
    let mut world = World::connected(LIMITS);
    world.client().get();
    let request = world.request();
    let flag = Flag::new();
    let waker = flag.waker();
    let mut cx = std::task::Context::from_waker(&waker);
    assert!(request.stream.poll_gone(&mut cx).is_pending());
    // The client is pinged after ten seconds, and has another thirty to answer.
    for _ in 0..41 {
        world.lose(1000);
    }
    assert!(flag.take());
    assert!(request.stream.poll_gone(&mut cx).is_ready());
    assert_eq!(world.site.connections.get(), 0);
}

#[test]
fn a_client_that_closes_ends_its_requests() {
    let mut world = World::connected(LIMITS);
    world.client().get();
    let request = world.request();
    let flag = Flag::new();
    let waker = flag.waker();
    let mut cx = std::task::Context::from_waker(&waker);
    assert!(request.stream.poll_gone(&mut cx).is_pending());
    close(world.client());
    world.settle();
    assert!(flag.take());
    assert!(request.stream.poll_gone(&mut cx).is_ready());
    drop(request);
    world.until(|world| (world.site.connections.get() == 0).then_some(()));
    assert!(world.site.logged.borrow().is_empty());
}

#[test]
fn a_listener_that_is_opened_again_serves_beside_the_connections_of_its_predecessor() {
    let mut world = World::connected(LIMITS);
    let former_id = world.client().get();
    let former = world.request();
    world.close();
    world.connect(limits(1 << 20));
    world.settle();
    assert!(!world.clients[1].is_connected, "it is refused");
    world.reopen();
    world.connect(limits(1 << 20));
    world.settle();
    assert!(world.clients[2].is_connected);
    let id = world.clients[2].get();
    world.request().answer(200);
    world.until(|world| {
        let (_, end) = world.clients[2].read(id, usize::MAX);
        (end == End::Whole).then_some(())
    });
    former.answer(200);
    world.until(|world| {
        let (_, end) = world.client().read(former_id, usize::MAX);
        (end == End::Whole).then_some(())
    });
}
