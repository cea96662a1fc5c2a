//! Holds the oracles of the fuzz targets, so that they run under `cargo fuzz` (`fuzz/`) and under proptest (`properties.rs`).
//!
//! An oracle panics when the parser breaks an invariant; so does a parser that panics itself. The invariants: the split of the input never
//! matters, nothing is read beyond it, an accepted message has one meaning, and it can be written and read again.

#![allow(clippy::panic, clippy::expect_used, missing_docs)] // oracles speak by panicking

use crate::fuzzing_chunked;
pub use crate::fuzzing_http3::{http3, qpack};
use crate::http2::Opening;
use crate::websocket::{
    Close, FrameDecoder, FrameEvent, FrameHead, MAX_CONTROL_BYTES, Opcode, Role, WebSocketError,
    apply_mask, write_frame_head,
};
use crate::{
    BodyDecoder, BodyError, BodyLength, ChunkedDecoder, HeadError, LAST_CHUNK, MessageLimits,
    Method, OutgoingHead, OwnedPath, PathRules, Progress, RequestHead, RequestView, ResponseHead,
    TargetForm, Version, write_chunk_head,
};

/// Limits low enough for a fuzzer to reach.
fn small_limits() -> MessageLimits {
    MessageLimits {
        large_header_buffer_size: 256,
        large_header_buffers: 3,
        max_body_size: 300,
        max_fields: 70,
        max_chunk_extension_bytes: 40,
        max_trailer_bytes: 80,
        ..MessageLimits::default()
    }
}

/// Request and response heads: any bytes, whole and in every prefix.
pub fn head(bytes: &[u8]) {
    for limits in [
        MessageLimits::default(),
        small_limits(),
        MessageLimits {
            discard_unsafe_fields: false,
            ..MessageLimits::default()
        },
    ] {
        request_head(bytes, &limits);
        response_head(bytes, &limits);
    }
}

fn request_head(bytes: &[u8], limits: &MessageLimits) {
    let mut whole = RequestHead::new();
    let outcome = whole.parse(bytes, limits);
    let mut pieces = RequestHead::new();
    let in_pieces = grow(bytes, |prefix| pieces.parse(prefix, limits));
    check_split(outcome, in_pieces);
    if let Ok(Progress::Complete { length }) = outcome {
        let view = whole.view(bytes);
        check_request(&view, length, bytes, limits);
        assert_eq!(
            rewrite(&view),
            rewrite(&pieces.view(bytes)),
            "the split changed the meaning"
        );
        check_rewritten(&view);
    }
}

/// Passes `bytes` one by one, as the slowest client would; for long input in steps that still hit every kind of boundary.
fn grow(
    bytes: &[u8],
    mut parse: impl FnMut(&[u8]) -> Result<Progress, HeadError>,
) -> Result<Progress, HeadError> {
    let step = 1 + bytes.len() / 4096;
    let mut last = Ok(Progress::Incomplete);
    for end in (1..=bytes.len()).filter(|end| end % step == 0 || *end == bytes.len()) {
        last = parse(bytes.get(..end).expect("prefix"));
        if last != Ok(Progress::Incomplete) {
            break;
        }
    }
    last
}

/// A head that completes must complete the same in any pieces; a refused one may be refused later, but never accepted.
fn check_split(whole: Result<Progress, HeadError>, pieces: Result<Progress, HeadError>) {
    match (whole, pieces) {
        (Ok(complete @ Progress::Complete { .. }), pieces) => assert_eq!(pieces, Ok(complete)),
        (whole, Ok(Progress::Complete { .. })) => panic!("accepted in pieces only: {whole:?}"),
        _ => {}
    }
}

fn check_request(view: &RequestView<'_>, length: usize, bytes: &[u8], limits: &MessageLimits) {
    assert!(length <= bytes.len() && length <= limits.max_head_bytes());
    assert_eq!(view.length(), length);
    assert!(view.fields().len() <= limits.max_fields);
    check_path(view);
    assert!(!view.host_name().iter().any(u8::is_ascii_uppercase));
    assert!(
        !view
            .host()
            .iter()
            .any(|byte| matches!(byte, b'/' | b'?' | b'#' | b'@' | b',' | 0..=b' ' | 0x7f..))
    );
    for field in view.fields() {
        assert!(crate::is_field_name(field.name) && crate::is_field_value(field.value));
        assert!(!field.value.ends_with(b" ") && !field.value.starts_with(b" "));
    }
    let count = |name: &[u8]| view.get_all(name).count();
    assert!(count(b"host") <= 1 && count(b"content-length") + count(b"transfer-encoding") <= 1);
    assert!(view.version() == Version::Http10 || count(b"host") == 1);
    if let BodyLength::Known(length) = view.body_length() {
        assert_eq!(view.facts().content_length, Some(length));
    }
}

/// Both forms of the path agree, and leave a receiver nothing to resolve.
fn check_path(view: &RequestView<'_>) {
    let found = view.request_path();
    let (path, target) = (found.path(), found.target());
    match view.target_form() {
        TargetForm::Asterisk => return assert_eq!((path, target), (&b"*"[..], &b"*"[..])),
        TargetForm::Authority => return assert!(path.is_empty() && target.is_empty()),
        TargetForm::Origin | TargetForm::Absolute => {}
    }
    assert_eq!((path.first(), target.first()), (Some(&b'/'), Some(&b'/')));
    let segments: Vec<_> = path.split(|&byte| byte == b'/').collect();
    let inner = segments.get(1..segments.len() - 1).unwrap_or_default();
    assert!(
        inner.iter().all(|segment| !segment.is_empty()),
        "empty segment"
    );
    let is_dots = |segment: &&[u8]| matches!(*segment, b"." | b"..");
    assert!(!segments.iter().any(is_dots), "dot segment");
    assert!(!path.iter().any(|byte| matches!(byte, 0 | b'\\')));
    let again = OwnedPath::parse(target, &PathRules::CHECKED).expect("a target that was accepted");
    assert_eq!(
        again.as_path(),
        found,
        "it means something else to the next reader"
    );
}

/// The head as a proxy would write it.
fn rewrite(view: &RequestView<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    for part in [
        view.method_text(),
        b" ",
        view.target(),
        b" HTTP/",
        view.version().text().as_bytes(),
        b"\r\n",
    ] {
        out.extend_from_slice(part);
    }
    for field in view.fields() {
        for part in [field.name, b": ", field.value, b"\r\n"] {
            out.extend_from_slice(part);
        }
    }
    out.extend_from_slice(b"\r\n");
    out
}

/// An accepted head means the same to the next reader.
fn check_rewritten(view: &RequestView<'_>) {
    let text = rewrite(view);
    let roomy = MessageLimits {
        large_header_buffer_size: 1 << 20,
        discard_unsafe_fields: false,
        ..MessageLimits::default()
    };
    let mut again = RequestHead::new();
    assert_eq!(
        again.parse(&text, &roomy),
        Ok(Progress::Complete { length: text.len() })
    );
    let second = again.view(&text);
    assert_eq!(second.body_length(), view.body_length());
    assert_eq!((second.path(), second.query()), (view.path(), view.query()));
    assert_eq!(
        (second.host(), second.host_name()),
        (view.host(), view.host_name())
    );
    assert_eq!(second.facts().keep_alive, view.facts().keep_alive);
}

fn response_head(bytes: &[u8], limits: &MessageLimits) {
    let mut whole = ResponseHead::new();
    let outcome = whole.parse(bytes, limits);
    let mut pieces = ResponseHead::new();
    let in_pieces = grow(bytes, |prefix| pieces.parse(prefix, limits));
    check_split(outcome, in_pieces);
    let Ok(Progress::Complete { length }) = outcome else {
        return;
    };
    assert!(length <= bytes.len());
    let view = whole.view(bytes);
    let mut text = Vec::new();
    let mut written = OutgoingHead::new(view.status());
    for field in view.fields() {
        written
            .fields
            .try_push(field.name, field.value)
            .expect("an accepted field can be written");
    }
    written.write_http1(&mut text);
    let roomy = MessageLimits {
        large_header_buffer_size: 1 << 20,
        ..MessageLimits::default()
    };
    let mut again = ResponseHead::new();
    if view.version() == Version::Http10 {
        return; // rewritten as HTTP/1.1, whose persistence differs
    }
    assert_eq!(
        again.parse(&text, &roomy),
        Ok(Progress::Complete { length: text.len() })
    );
    let second = again.view(&text);
    assert_eq!(second.status(), view.status());
    for method in [Method::Get, Method::Head] {
        assert_eq!(second.body_length(method), view.body_length(method));
        assert_eq!(second.keep_alive(method), view.keep_alive(method));
    }
}

/// Chunked bodies: the first byte selects the split of the rest, which is used both as a coded body and as data to encode.
pub fn chunked(bytes: &[u8]) {
    let Some((&seed, rest)) = bytes.split_first() else {
        return;
    };
    for limits in [MessageLimits::default(), small_limits()] {
        let whole = decode_split(rest, &limits, |_| usize::MAX);
        let mut state = u32::from(seed);
        let random = decode_split(rest, &limits, |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            1 + (state >> 24) as usize % 23
        });
        assert_eq!(whole, random, "the split changed the result");
        assert_eq!(
            whole,
            decode_split(rest, &limits, |_| 1),
            "the split changed the result"
        );
        check_against_reference(rest, &whole, &limits);
    }
    round_trip(seed, rest);
}

/// Data, bytes consumed, and how it ended.
type DecodeOutcome = (Vec<u8>, usize, Result<bool, BodyError>);

fn decode_split(
    input: &[u8],
    limits: &MessageLimits,
    mut next: impl FnMut(usize) -> usize,
) -> DecodeOutcome {
    let mut decoder =
        BodyDecoder::new(BodyLength::Chunked, limits).expect("chunked has no declared length");
    let (mut data, mut consumed, mut arrived) = (Vec::new(), 0, 0);
    loop {
        arrived = next(arrived).saturating_add(arrived).min(input.len());
        let available = input
            .get(consumed..arrived)
            .expect("consumed no more than arrived");
        match decoder.decode_all(available, |run| data.extend_from_slice(run)) {
            Ok((used, true)) => return (data, consumed + used, Ok(true)),
            Ok((used, false)) => {
                assert_eq!(used, available.len(), "bytes left behind without need");
                consumed += used;
            }
            // The position of the error within the piece is not reported; the data before it is.
            Err(error) => return (data, 0, Err(error)),
        }
        if arrived == input.len() {
            return (data, consumed, Ok(false));
        }
    }
}

/// A second, simpler implementation of RFC 9112 §7.1, for complete input only: it must accept exactly what the decoder accepts.
fn check_against_reference(input: &[u8], outcome: &DecodeOutcome, limits: &MessageLimits) {
    let reference = fuzzing_chunked::decode(input, limits);
    match &outcome.2 {
        Ok(true) => assert_eq!(reference, Some((outcome.0.clone(), outcome.1))),
        Ok(false) | Err(_) => assert_eq!(reference, None),
    }
}

/// The decoder reads all that the encoder writes, and stops exactly at its end.
fn round_trip(seed: u8, data: &[u8]) {
    let mut coded = Vec::new();
    for run in data.chunks(1 + usize::from(seed)) {
        write_chunk_head(run.len(), &mut coded);
        coded.extend_from_slice(run);
        coded.extend_from_slice(b"\r\n");
    }
    coded.extend_from_slice(LAST_CHUNK);
    let end = coded.len();
    coded.extend_from_slice(b"GET / HTTP/1.1\r\n");
    let outcome = decode_split(&coded, &MessageLimits::default(), |_| 1 + usize::from(seed));
    assert_eq!(outcome, (data.to_vec(), end, Ok(true)));
    assert!(!ChunkedDecoder::new(&MessageLimits::default()).is_finished());
}

/// WebSocket: the first byte selects the split of the rest, which is used as frames of a client, unchanged and with its faults repaired.
pub fn websocket(bytes: &[u8]) {
    let Some((&seed, rest)) = bytes.split_first() else {
        return;
    };
    let mut state = u32::from(seed);
    let mut random = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        1 + (state >> 24) as usize % 23
    };
    for input in [rest.to_vec(), repaired(rest)] {
        let whole = messages(&input, || usize::MAX, usize::MAX);
        assert_eq!(
            whole,
            messages(&input, || 1, 1),
            "the split changed the result"
        );
        assert_eq!(
            whole,
            messages(&input, &mut random, 5),
            "the split changed the result"
        );
        for (opcode, payload) in &whole.0 {
            if *opcode == Opcode::Text {
                assert!(std::str::from_utf8(payload).is_ok());
            }
            if let (Opcode::Close, Ok(close)) = (opcode, Close::parse(payload)) {
                let mut again = Vec::new();
                close.write(&mut again);
                assert_eq!(&again, payload);
            }
        }
        check_frames_written(&whole.0);
    }
}

const MAX_MESSAGE: u64 = 300;

/// Whole messages and control frames, and the fault that ended them.
type Messages = (Vec<(Opcode, Vec<u8>)>, Option<WebSocketError>);

fn messages(input: &[u8], mut step: impl FnMut() -> usize, room: usize) -> Messages {
    let mut decoder = FrameDecoder::new(Role::Server, MAX_MESSAGE);
    let (mut found, mut message, mut buffer) = (Vec::new(), Vec::new(), Vec::new());
    let mut rest = input;
    loop {
        let (piece, later) = rest.split_at(step().min(rest.len()));
        rest = later;
        buffer.extend_from_slice(piece);
        loop {
            let before = buffer.len();
            let (consumed, event) = match decoder.decode(&mut buffer, room) {
                Ok(decoded) => decoded,
                Err(fault) => return (found, Some(fault)),
            };
            assert!(consumed <= before);
            match event {
                Some(FrameEvent::Data {
                    kind,
                    range,
                    is_last,
                }) => {
                    assert!(range.len() <= room && range.end <= consumed);
                    message.extend_from_slice(buffer.get(range).expect("in the input"));
                    assert!(message.len() as u64 <= MAX_MESSAGE);
                    if is_last {
                        found.push((kind.opcode(), std::mem::take(&mut message)));
                    }
                }
                Some(FrameEvent::Control { opcode, range }) => {
                    assert!(range.len() <= MAX_CONTROL_BYTES && range.end <= consumed);
                    found.push((opcode, buffer.get(range).expect("in the input").to_vec()));
                }
                None => {}
            }
            buffer.drain(..consumed);
            if consumed == 0 {
                assert!(event_is_none_for(&mut decoder, &buffer));
                break;
            }
        }
        if rest.is_empty() {
            return (found, None);
        }
    }
}

/// If nothing is consumed, the same bytes must never yield an event.
fn event_is_none_for(decoder: &mut FrameDecoder, buffer: &[u8]) -> bool {
    let mut copy = buffer.to_vec();
    let again = decoder.clone().decode(&mut copy, usize::MAX);
    matches!(again, Ok((0, None))) && copy == buffer
}

/// Converts the bytes to frames that are valid individually: opcode and length of each from one byte, payload from the following ones.
fn repaired(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = bytes;
    while let Some((&first, more)) = rest.split_first() {
        let opcode = Opcode::from_bits(first & 0xf).unwrap_or(Opcode::Continuation);
        let (payload, later) = more.split_at(usize::from(first >> 4).min(more.len()));
        rest = later;
        let mask = [first, 0x55, 0xaa, !first];
        FrameHead {
            is_final: opcode.is_control() || first & 0x10 != 0,
            opcode,
            length: payload.len() as u64,
            mask: Some(mask),
        }
        .write(&mut out);
        let start = out.len();
        out.extend_from_slice(payload);
        apply_mask(out.get_mut(start..).expect("just written"), mask, 0);
    }
    out
}

/// A client reads all that the server writes.
fn check_frames_written(messages: &[(Opcode, Vec<u8>)]) {
    let mut decoder = FrameDecoder::new(Role::Client, MAX_MESSAGE);
    for (opcode, payload) in messages {
        let mut bytes = Vec::new();
        write_frame_head(&mut bytes, *opcode, true, payload.len() as u64);
        bytes.extend_from_slice(payload);
        let (consumed, event) = decoder
            .decode(&mut bytes, usize::MAX)
            .expect("what was accepted is valid");
        assert_eq!(consumed, bytes.len());
        let range = match event.expect("a frame") {
            FrameEvent::Data { range, .. } | FrameEvent::Control { range, .. } => range,
        };
        assert_eq!(bytes.get(range), Some(payload.as_slice()));
    }
}

/// A request of HTTP/2: method, target, authority and fields, split at bytes that no text contains. It must be accepted exactly if the same
/// text is accepted as a head of HTTP/1.
pub fn http2(bytes: &[u8]) {
    let mut parts = bytes.split(|byte| *byte == 0xff);
    let mut part = || parts.next().unwrap_or_default();
    let (method, target, authority) = (part(), part(), part());
    let fields: Vec<(&[u8], &[u8])> = parts
        .map(|field| {
            let end = field.iter().position(|byte| *byte == 0xfe);
            let (name, value) = field.split_at(end.unwrap_or(field.len()));
            (name, value.get(1..).unwrap_or_default())
        })
        .collect();
    let opening = Opening {
        method,
        target,
        authority: (!authority.is_empty()).then_some(authority),
        is_checked: false,
        has_body: bytes.len().is_multiple_of(2),
        websocket: None,
        version: crate::Version::Http2,
    };
    for limits in [MessageLimits::default(), small_limits()] {
        let mut head = RequestHead::new();
        let mut buffer = Vec::new();
        if head
            .compose(&mut buffer, &opening, || fields.iter().copied(), &limits)
            .is_err()
        {
            continue;
        }
        let view = head.view(&buffer);
        check_request(&view, buffer.len(), &buffer, &limits);
        let line = view.request_line().len();
        let mut text = buffer.clone();
        text.get_mut(line - 3..line)
            .expect("a version")
            .copy_from_slice(b"1.1");
        let mut parsed = RequestHead::new();
        assert_eq!(
            parsed.parse(&text, &limits),
            Ok(Progress::Complete {
                length: buffer.len()
            })
        );
        let other = parsed.view(&text);
        assert_eq!(view.method_text(), other.method_text());
        assert_eq!(view.target(), other.target());
        assert_eq!((view.path(), view.query()), (other.path(), other.query()));
        assert_eq!(view.host(), other.host());
        assert_eq!(view.host_name(), other.host_name());
        assert!(view.fields().eq(other.fields()));
        assert_eq!(view.facts().content_length, other.facts().content_length);
    }
}

/// Paths and hosts of every kind, through the head that carries them.
pub fn target(bytes: &[u8]) {
    for prefix in [&b"GET /"[..], b"GET http://", b"OPTIONS "] {
        let mut text = prefix.to_vec();
        text.extend_from_slice(bytes);
        text.extend_from_slice(b" HTTP/1.0\r\n\r\n");
        head(&text);
    }
}
