//! Property tests: codecs and rings against simple models.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::VecDeque;
use std::sync::Arc;

use proptest::prelude::*;

use crate::request::{BodyRef, WireRequestHead, WireRequestView, encode, encoded_length};
use crate::response::{WireResponseHead, encode_into, measure};
use crate::router::Segment;
use crate::shared::Region;
use crate::span::SpanMut;
use crate::worker::Attached;
use crate::{Layout, SlotId};

fn text() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..40)
}

fn pairs() -> impl Strategy<Value = Vec<(Vec<u8>, Vec<u8>)>> {
    proptest::collection::vec((text(), text()), 0..12)
}

fn token() -> impl Strategy<Value = Vec<u8>> {
    "[!#$%&'*+.^_`|~0-9A-Za-z-]{1,20}".prop_map(String::into_bytes)
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(
        any::<u8>().prop_filter("a legal byte", |byte| !matches!(byte, b'\r' | b'\n' | 0)),
        0..60,
    )
}

fn borrowed(pairs: &[(Vec<u8>, Vec<u8>)]) -> Vec<(&[u8], &[u8])> {
    pairs
        .iter()
        .map(|(name, value)| (name.as_slice(), value.as_slice()))
        .collect()
}

proptest! {
    // Miri is a thousand times slower.
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 3 } else { 256 }))]

    #[test]
    fn requests_survive_the_crossing(
        texts in proptest::collection::vec(text(), 10),
        fields in pairs(),
        numbers in any::<(u8, bool, u16, u16, Option<u32>, u64, u64)>(),
        websocket in any::<bool>(),
        inline in proptest::option::of(text()),
    ) {
        let fields = borrowed(&fields);
        let (version_minor, tls, remote_port, local_port, length, arrived_ms, deadline_ms) = numbers;
        let head = WireRequestHead {
            method: &texts[0],
            target: &texts[1],
            path: &texts[2],
            query: &texts[3],
            scheme: &texts[4],
            remote_address: &texts[5],
            local_address: &texts[6],
            server_name: &texts[7],
            target_name: &texts[8],
            user: &texts[9],
            version_minor,
            tls,
            remote_port,
            local_port,
            content_length: length.map(u64::from),
            fields: &fields,
            arrived_ms,
            deadline_ms,
            websocket,
        };
        let body = inline.as_deref().map_or(BodyRef::None, BodyRef::Inline);
        let bytes = encode(&head, &body).unwrap();
        prop_assert_eq!(bytes.len() as u64, encoded_length(&head, &body));
        let view = WireRequestView::parse(&bytes).unwrap();
        prop_assert_eq!(view.is_websocket(), websocket);
        let seen = [
            view.method(), view.target(), view.path(), view.query(), view.scheme(),
            view.remote_address(), view.local_address(), view.server_name(), view.target_name(),
            view.user(),
        ];
        for (sent, seen) in texts.iter().zip(seen) {
            prop_assert_eq!(sent.as_slice(), seen);
            // The NUL behind it, for C.
            let end = seen.as_ptr() as usize + seen.len() - bytes.as_ptr() as usize;
            prop_assert_eq!(bytes[end], 0);
        }
        prop_assert_eq!(view.fields().collect::<Vec<_>>(), fields);
        prop_assert_eq!(
            (view.version_minor(), view.tls(), view.remote_port(), view.local_port()),
            (version_minor, tls, remote_port, local_port)
        );
        prop_assert_eq!(view.content_length(), length.map(u64::from));
        prop_assert_eq!((view.arrived_ms(), view.deadline_ms()), (arrived_ms, deadline_ms));
        let expected = inline.as_deref().map_or(BodyRef::None, BodyRef::Inline);
        prop_assert_eq!(view.body(), expected);
    }

    #[test]
    fn corrupt_requests_never_lead_outside_their_record(
        fields in pairs(),
        scribbles in proptest::collection::vec((any::<u16>(), any::<u8>()), 1..60),
    ) {
        let fields = borrowed(&fields);
        let head = WireRequestHead { method: b"GET", path: b"/", fields: &fields, ..WireRequestHead::default() };
        let mut bytes = encode(&head, &BodyRef::Inline(b"body")).unwrap();
        for (place, value) in scribbles {
            let place = usize::from(place) % bytes.len();
            bytes[place] = value;
        }
        let range = bytes.as_ptr_range();
        let inside = |part: &[u8]| part.is_empty() || (range.contains(&part.as_ptr()) && part.as_ptr_range().end <= range.end);
        if let Some(view) = WireRequestView::parse(&bytes) {
            prop_assert!(inside(view.method()) && inside(view.path()) && inside(view.target_name()));
            for (name, value) in view.fields().take(1000) {
                prop_assert!(inside(name) && inside(value));
            }
            if let BodyRef::Inline(body) = view.body() {
                prop_assert!(inside(body));
            }
        }
    }

    #[test]
    fn response_heads_survive_the_crossing(
        status in 200u16..=599,
        fields in proptest::collection::vec((token(), value()), 0..20),
    ) {
        let fields = borrowed(&fields);
        let (length, count) = measure(fields.iter().copied()).unwrap();
        let mut bytes = vec![0; length];
        prop_assert!(encode_into(SpanMut::from_slice(&mut bytes), 0, fields.iter().copied()));
        let head = WireResponseHead::parse(status.into(), count, bytes, false).unwrap();
        prop_assert_eq!(head.status, status);
        prop_assert_eq!(head.fields().collect::<Vec<_>>(), fields);
    }

    #[test]
    fn arbitrary_response_heads_are_checked(status in any::<u32>(), count in 0u32..20, bytes in text()) {
        if let Ok(head) = WireResponseHead::parse(status, count, bytes, false) {
            prop_assert_eq!(head.fields().count() as u32, count);
        }
    }

    /// Both rings of one exchange, in random steps, compared with queues.
    #[test]
    fn rings_carry_what_was_written(
        steps in proptest::collection::vec((0u8..4, 1usize..if cfg!(miri) { 500 } else { 50_000 }), 1..60),
    ) {
        let segment = Arc::new(Segment::create("rings", &Layout { slots: 1, workers: 1, threads: 1 }).unwrap());
        let slot = segment.allocate(0).unwrap();
        segment.write_request(slot, &WireRequestHead::default(), &BodyRef::Stream { len: None }).unwrap();
        segment.submit(slot);
        let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        let mut worker = Attached::open(segment.fd()).unwrap().into_worker(0, vec![event], None).unwrap();
        let exchange = worker.next_request().unwrap();
        exchange.start(200, std::iter::empty()).unwrap();
        // Only with the end of a short response, or when the worker publishes it.
        prop_assert!(segment.response_head(slot).unwrap().is_none());
        exchange.flush();
        prop_assert!(segment.response_head(slot).unwrap().is_some());
        let (mut up, mut down) = (VecDeque::new(), VecDeque::new());
        let mut next = 0u8;
        let mut bytes = |count: usize| -> Vec<u8> {
            (0..count).map(|_| { next = next.wrapping_mul(31).wrapping_add(7); next }).collect()
        };
        for (what, count) in steps {
            match what {
                0 => {
                    let sent = bytes(count);
                    let taken = segment.request_stream_write(slot, &sent);
                    let room = capacity(&segment, slot, Region::Stream) - up.len();
                    prop_assert_eq!(taken, count.min(room));
                    up.extend(&sent[..taken]);
                }
                1 if !up.is_empty() => {
                    let mut target = vec![0; count];
                    let read = exchange.body_read(&mut target).unwrap();
                    prop_assert!(read > 0 && read <= count);
                    let expected: Vec<u8> = up.drain(..read).collect();
                    prop_assert_eq!(&target[..read], &expected[..]);
                }
                2 => {
                    // More would wait for credit that this test never gives.
                    let room = capacity(&segment, slot, Region::Response) - down.len();
                    let sent = bytes(count.min(room));
                    exchange.write(&sent).unwrap();
                    exchange.flush();
                    down.extend(sent);
                }
                _ => {
                    let ready = segment.response_ready(slot).unwrap();
                    prop_assert_eq!(ready.len(), down.len());
                    let mut copy = Vec::new();
                    ready.copy_to(&mut copy);
                    let count = count.min(copy.len());
                    segment.response_consume(slot, count);
                    let expected: Vec<u8> = down.drain(..count).collect();
                    prop_assert_eq!(&copy[..count], &expected[..]);
                }
            }
        }
    }
}

fn capacity(segment: &Segment, slot: SlotId, region: Region) -> usize {
    let bytes = segment.shared().region(slot.0, region);
    bytes.map_or(0, |bytes| bytes.len())
}
