//! Requests: bodies and their windows, trailers, and faults.

use std::task::{Context, Poll};

use quinn_proto::{ConnectionError, Dir, StreamId};
use tutti_conn::output::Gone;
use tutti_conn::socket::ReadResult;
use tutti_http::http3::frame::{DATA, HEADERS};
use tutti_http::http3::{Code, encode_fields};

use super::client::{End, data, frame, head, limits};
use super::world::{Flag, LIMITS, World};

#[test]
fn a_request_and_its_response() {
    let mut world = World::connected(LIMITS);
    let id = world.client().get();
    let request = world.request();
    assert_eq!(request.method, b"GET");
    assert!(!request.manner.has_body && !request.manner.is_early);
    assert!(request.stream.facts().is_some());
    request.answer(200);
    drop(request);
    world.settle();
    let response = world.client().response(id);
    assert_eq!(response.head, ":status: 200\ncontent-length: 6\n");
    assert_eq!(
        (&response.body[..], response.end),
        (&b"yyyyyy"[..], End::Whole)
    );
}

#[test]
fn a_body_waits_until_its_received_part_has_been_read() {
    let mut world = World::connected(LIMITS);
    let id = world.client().post();
    let body = data(100_000);
    let mut written = world.client().write(id, &body);
    let request = world.request();
    assert!(request.manner.has_body);
    world.pass(1000);
    assert_eq!(
        world.client().write(id, &body[written..]),
        0,
        "the window is full"
    );
    let (flag, mut taken) = (Flag::new(), 0);
    while taken < 100_000 {
        match request.take(5000, &flag) {
            Some(Ok(ReadResult::Bytes(count))) => {
                assert!(count <= 5000);
                taken += count;
            }
            Some(other) => panic!("{other:?}"),
            None => {
                assert!(!flag.take());
                world.until(|world| {
                    written += world.client().write(id, &body[written..]);
                    flag.take().then_some(())
                });
            }
        }
    }
    assert_eq!(request.take(5000, &flag), None);
    world.client().finish(id);
    world.settle();
    assert!(flag.take());
    assert_eq!(request.take(5000, &flag), Some(Ok(ReadResult::End)));
}

#[test]
fn trailers_come_behind_a_body() {
    let mut world = World::connected(LIMITS);
    let id = world.client().post();
    world.client().write(id, &data(100));
    let section = encode_fields([(&b"sum"[..], &b"42"[..])].into_iter());
    world.client().write(id, &frame(HEADERS, &section));
    world.client().finish(id);
    let request = world.request();
    assert_eq!(request.take_all(), Some(100));
    let trailers = request.stream.received_trailers();
    let fields: Vec<_> = trailers.fields().collect();
    assert_eq!(fields, [(&b"sum"[..], &b"42"[..])]);
}

#[test]
fn a_client_that_resets_its_request_ends_the_reader() {
    let mut world = World::connected(LIMITS);
    let id = world.client().post();
    let request = world.request();
    let flag = Flag::new();
    assert_eq!(request.take(1, &flag), None);
    world.client().reset(id);
    world.settle();
    assert!(flag.take());
    assert_eq!(request.take(1, &flag), Some(Err(Gone::Closed)));
    // A request with an incomplete head is not started.
    let id = world.client().open(&head("GET")[..5]).unwrap();
    world.settle();
    world.client().reset(id);
    world.settle();
    assert_eq!(
        world.client().response(id).end,
        End::Reset(Code::REQUEST_CANCELLED.0)
    );
    assert!(world.site.requests.borrow().is_empty());
}

#[test]
fn a_head_that_is_too_large_is_refused() {
    let mut world = World::connected(LIMITS);
    let large = [b'x'; 5000];
    let section = encode_fields([(&b":method"[..], &b"GET"[..]), (b"a", &large)].into_iter());
    let id = world.client().open(&frame(HEADERS, &section)).unwrap();
    let request = world.request();
    assert_eq!(request.refusal, Some(431));
    request.answer(431);
    drop(request);
    world.settle();
    assert_eq!(world.client().response(id).end, End::Whole);
}

#[test]
fn a_fault_of_a_stream_ends_that_stream() {
    let without_path = encode_fields([(&b":method"[..], &b"GET"[..])].into_iter());
    let faults: [(&str, Vec<u8>, Code); 4] = [
        (
            "no path",
            frame(HEADERS, &without_path),
            Code::MESSAGE_ERROR,
        ),
        ("nothing", Vec::new(), Code::REQUEST_INCOMPLETE),
        (
            "an unknown frame",
            frame(0x21, b"x"),
            Code::REQUEST_INCOMPLETE,
        ),
        (
            "no path, behind an unknown frame",
            [frame(0x21, b"x"), frame(HEADERS, &without_path)].concat(),
            Code::MESSAGE_ERROR,
        ),
    ];
    let mut world = World::connected(LIMITS);
    for (fault, bytes, code) in faults {
        let id = world.client().open(&bytes).unwrap();
        world.client().finish(id);
        world.settle();
        assert_eq!(
            world.client().response(id).end,
            End::Reset(code.0),
            "{fault}"
        );
    }
    // A body with more bytes than its head declares.
    let id = world.client().post();
    world.client().write(id, &data(6));
    let request = world.request();
    request.stream.expect(Some(5)).unwrap();
    assert_eq!(request.take(10, &Flag::new()), Some(Err(Gone::Closed)));
    world.settle();
    assert_eq!(
        world.client().response(id).end,
        End::Reset(Code::MESSAGE_ERROR.0)
    );
    // The connection continues.
    world.client().get();
    world.request();
    assert!(world.site.logged.borrow().is_empty());
}

#[test]
fn a_fault_of_the_connection_ends_it_and_wakes_everything() {
    let faults: [(&str, Dir, Vec<u8>, Code); 7] = [
        (
            "data before a head",
            Dir::Bi,
            frame(DATA, b"x"),
            Code::FRAME_UNEXPECTED,
        ),
        (
            "no field section",
            Dir::Bi,
            frame(HEADERS, &[0xff; 20]),
            Code::DECOMPRESSION_FAILED,
        ),
        (
            "a frame that does not end",
            Dir::Bi,
            frame(HEADERS, &[0; 20])[..5].to_vec(),
            Code::FRAME_ERROR,
        ),
        (
            "a control stream that ends",
            Dir::Uni,
            vec![0, 4, 0],
            Code::CLOSED_CRITICAL_STREAM,
        ),
        (
            "no settings",
            Dir::Uni,
            vec![0, 7, 1, 0],
            Code::MISSING_SETTINGS,
        ),
        ("a push", Dir::Uni, vec![1, 0], Code::STREAM_CREATION_ERROR),
        (
            "a table of fields",
            Dir::Uni,
            vec![2, 0xff],
            Code::ENCODER_STREAM_ERROR,
        ),
    ];
    for (fault, dir, bytes, code) in faults {
        let mut world = World::with_client(LIMITS, limits(1000));
        world.client().post();
        let request = world.request();
        let mut output = request.respond(200, 50_000);
        let flags = [Flag::new(), Flag::new(), Flag::new()];
        let wakers = flags.each_ref().map(Flag::waker);
        let [mut reading, mut writing, mut waiting] = wakers.each_ref().map(Context::from_waker);
        let stream = &request.stream;
        while stream.poll_send(&mut output, &mut writing).is_ready() {}
        assert!(
            stream
                .poll_receive(&mut Vec::with_capacity(1), &mut reading)
                .is_pending()
        );
        assert!(stream.poll_gone(&mut waiting).is_pending());

        let client = world.client();
        let id = client.state.streams().open(dir).unwrap();
        client.write(id, &bytes);
        client.finish(id);
        world.settle();
        let Some(ConnectionError::ApplicationClosed(close)) = &world.client().lost else {
            panic!("{fault}: {:?}", world.client().lost);
        };
        assert_eq!(close.error_code.into_inner(), code.0, "{fault}");
        assert_eq!(world.site.logged.borrow().len(), 1, "{fault}");
        assert!(flags.iter().all(Flag::take), "{fault}");
        let gone = Poll::Ready(Err(Gone::Closed));
        assert_eq!(
            stream
                .poll_receive(&mut Vec::with_capacity(1), &mut reading)
                .map_ok(drop),
            gone
        );
        assert_eq!(stream.poll_send(&mut output, &mut writing), gone);
        assert!(stream.poll_gone(&mut waiting).is_ready());
        drop(request);
        world.until(|world| (world.site.connections.get() == 0).then_some(()));
    }
}

/// Streams of unknown types are stopped, and replaced by new ones.
#[test]
fn streams_of_unknown_kinds_are_not_wanted() {
    let mut world = World::connected(LIMITS);
    for _ in 0..30 {
        let id: StreamId = world.until(|world| world.client().state.streams().open(Dir::Uni));
        world.client().write(id, &[0x21, 1, 2, 3]);
        let code = world.until(|world| world.client().stopped.get(&id).copied());
        assert_eq!(code, Code::STREAM_CREATION_ERROR.0);
        world.client().reset(id);
    }
}
