//! Responses that end before their requests, and streams that are reset: windows and streams are released.

use quinn_proto::StreamId;
use tutti_conn::output::Gone;
use tutti_http::http3::Code;

use super::client::{End, TestClient, data, head, limits};
use super::world::{Flag, LIMITS, Request, World};

/// More than a client may send of one body.
const ENDLESS: usize = 1 << 20;

/// Begins a request whose body fills the window of its stream.
fn fill(world: &mut World) -> (StreamId, Request) {
    let id = world.until(|world| world.client().open(&head("POST")));
    let mut written = head("POST").len();
    let body = data(ENDLESS);
    let mut rest = &body[..];
    world.until(|world| {
        let count = world.client().write(id, rest);
        written += count;
        rest = &rest[count..];
        (written == LIMITS.stream_window_size as usize).then_some(())
    });
    (id, world.request())
}

#[test]
fn a_client_is_asked_to_stop_once_it_has_the_response() {
    let mut world = World::connected(LIMITS);
    let (id, request) = fill(&mut world);
    request.answer(413);
    // A task of the server may still read the request.
    let flag = Flag::new();
    while let Some(Ok(_)) = request.take(1 << 16, &flag) {}
    world.serve();
    assert!(world.send_to_clients());
    let response = world.client().response(id);
    assert_eq!(response.head, ":status: 413\ncontent-length: 6\n");
    assert_eq!(response.end, End::Whole);
    assert!(world.client().stopped.is_empty());
    // Now the client acknowledges the response.
    let code = world.until(|world| world.client().stopped.get(&id).copied());
    assert_eq!(code, Code::NO_ERROR.0);
    assert!(flag.take());
    assert_eq!(request.take(1, &flag), Some(Err(Gone::Closed)));
}

#[test]
fn windows_and_streams_come_back_after_responses_that_come_early() {
    type Way = (&'static str, fn(&mut TestClient, StreamId));
    // The ways in which a client ends a request that it has sent in part.
    let ways: [Way; 4] = [
        ("is asked to stop", |_, _| {}),
        ("ends its request", TestClient::finish),
        ("resets its request", TestClient::reset),
        ("gives up its request", |client, id| {
            client.stop(id);
            client.reset(id);
        }),
    ];
    for (way, leave) in ways {
        let mut world = World::connected(LIMITS);
        for _ in 0..5 {
            // All streams, and the window of the connection.
            let all: Vec<_> = (0..4).map(|_| fill(&mut world)).collect();
            for (id, request) in all {
                request.answer(413);
                leave(world.client(), id);
                drop(request);
                if way == "is asked to stop" {
                    world.until(|world| world.client().stopped.get(&id).copied());
                    world.client().reset(id);
                }
            }
        }
        assert!(world.client().lost.is_none(), "{way}");
    }
}

/// A stream counts until both directions have ended.
#[test]
fn a_client_that_gives_a_response_up_gets_its_stream_back() {
    for (window, is_waiting) in [(10, true), (1000, false)] {
        let mut world = World::with_client(LIMITS, limits(window));
        for _ in 0..3 * LIMITS.max_concurrent_streams {
            let id = world.until(|world| world.client().open(&head("GET")));
            world.client().finish(id);
            let request = world.request();
            let output = request.respond(200, 6);
            assert_eq!(request.stream.has_sent(&output), !is_waiting);
            if is_waiting {
                request.stream.finish();
            }
            world.client().stop(id);
            world.settle();
            request.stream.finish();
        }
        assert!(world.client().lost.is_none());
    }
}
