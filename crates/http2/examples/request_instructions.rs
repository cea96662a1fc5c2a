//! Serves requests of a client in memory, for callgrind: `request_instructions REQUESTS BODY_BYTES`. The requests come in batches of a
//! hundred streams, as h2load sends them; the difference between two numbers of requests is the cost of the rest, without sockets, routes
//! and files.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a tool for developers")]

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tutti_config::model::Http2;
use tutti_conn::buffers::Buffers;
use tutti_conn::clock::Millis;
use tutti_conn::output::{Gone, Output};
use tutti_conn::socket::ReadResult;
use tutti_http::{FieldLines, MessageLimits, OutgoingHead, RequestHead};
use tutti_http2::{Ending, Http2Connection, Http2Head, Http2Options, Http2Stream, Http2Timeouts};
use tutti_tls::HandshakeFacts;

const STREAMS: u32 = 100;

/// A request of h2load, whose fields are in the dynamic table but for the first time.
const FIRST: &[u8] =
    b"\x82\x86\x41\x0f127.0.0.1:28088\x44\x09/file.txt\x7a\x16h2load nghttp2/1.52.00";
const NEXT: &[u8] = b"\x82\x86\xc0\xbf\xbe";

struct Client {
    buffers: Buffers,
    limits: MessageLimits,
    head: RefCell<RequestHead>,
    response: OutgoingHead,
    fields: Cell<FieldLines>,
    body: Vec<u8>,
    left: Cell<u32>,
    next: Cell<u32>,
    answered: Cell<u32>,
    sent: Cell<usize>,
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8], out: &mut Vec<u8>) {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    out.extend([length[1], length[2], length[3], kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend(payload);
}

impl Http2Connection for Client {
    fn terms(&self) -> Http2Options {
        Http2Options {
            most_head_bytes: 32_768,
            timeouts: Http2Timeouts {
                head: 30_000,
                send: 30_000,
                idle: 30_000,
            },
        }
    }

    fn facts(&self) -> Option<Rc<HandshakeFacts>> {
        None
    }

    fn buffers(&self) -> &Buffers {
        &self.buffers
    }

    fn poll_receive(
        &self,
        buffer: &mut Vec<u8>,
        _: &mut Context<'_>,
    ) -> Poll<Result<ReadResult, Gone>> {
        let before = buffer.len();
        let (left, mut stream) = (self.left.get(), self.next.get());
        if left == 0 {
            return Poll::Ready(Ok(ReadResult::End));
        }
        if stream == 1 {
            buffer.extend(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
            frame(4, 0, 0, b"\0\x04\x3f\xff\xff\xff", buffer);
            frame(4, 1, 0, b"", buffer);
        }
        frame(8, 0, 0, &(STREAMS * 1024).to_be_bytes(), buffer);
        let count = left.min(STREAMS);
        for _ in 0..count {
            let block = if stream == 1 { FIRST } else { NEXT };
            frame(1, 5, stream, block, buffer);
            stream += 2;
        }
        self.next.set(stream);
        self.left.set(left - count);
        Poll::Ready(Ok(ReadResult::Bytes(buffer.len() - before)))
    }

    fn poll_send(&self, output: &mut Output, _: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        let count = output.pending().len();
        self.sent.set(self.sent.get() + count);
        output.advance(count);
        Poll::Ready(Ok(()))
    }

    fn has_sent(&self, output: &Output) -> bool {
        output.is_empty()
    }

    fn note_taken(&self, _: u64) {}

    fn note_all_taken(&self) {}

    fn owes(&self, _: Millis) -> Millis {
        Millis::MAX
    }

    fn is_ending(&self) -> bool {
        false
    }

    fn set_deadline(&self, _: Millis) {}

    fn set_active(&self, _: bool) {}

    fn log_abuse(&self, reason: &str) {
        panic!("{reason}");
    }

    fn log_client_error(&self, reason: &str) {
        panic!("{reason}");
    }

    fn begin(&self, head: &Http2Head, stream: Http2Stream) {
        let mut input = self.buffers.take();
        let opening = head.opening(head.has_body(), None);
        self.head
            .borrow_mut()
            .compose(&mut input, &opening, || head.fields(), &self.limits)
            .unwrap();
        let mut output = Output::new(self.buffers.take());
        let mut fields = self.fields.take();
        fields.clear();
        fields.append(&self.response.fields);
        let status = self.response.status;
        output.push_head(OutgoingHead { status, fields });
        output.bytes.extend_from_slice(&self.body);
        assert_eq!(stream.try_send(&mut output), Ok(true));
        stream.finish();
        let (buffer, fields) = output.into_memory();
        self.fields.set(fields);
        self.buffers.give(buffer);
        self.buffers.give(input);
        self.answered.set(self.answered.get() + 1);
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = || arguments.next().unwrap().parse::<u32>().unwrap();
    let (requests, length) = (number(), number());
    let mut response = OutgoingHead::new(200);
    response.fields.push(b"Server", b"Tutti");
    response
        .fields
        .push(b"Date", b"Sun, 29 Nov 2026 10:00:00 GMT");
    if length > 0 {
        response.fields.push(b"Content-Type", b"text/plain");
        response
            .fields
            .push(b"Last-Modified", b"Sun, 29 Nov 2026 09:00:00 GMT");
        response.fields.push(b"ETag", b"\"6b0c0b43-400\"");
    }
    response
        .fields
        .push_number(b"Content-Length", length.into());
    let client = Client {
        buffers: Buffers::default(),
        limits: MessageLimits::default(),
        head: RefCell::new(RequestHead::new()),
        response,
        fields: Cell::default(),
        body: vec![b'x'; length as usize],
        left: Cell::new(requests),
        next: Cell::new(1),
        answered: Cell::new(0),
        sent: Cell::new(0),
    };
    let options = Http2 {
        max_concurrent_streams: STREAMS,
        stream_window_size: 262_144,
        connection_window_size: 1_048_576,
    };
    let mut serving = pin!(tutti_http2::serve(&client, Vec::new(), options));
    let mut cx = Context::from_waker(Waker::noop());
    let ending = loop {
        if let Poll::Ready(ending) = serving.as_mut().poll(&mut cx) {
            break ending;
        }
    };
    assert_eq!(ending, Ending::Linger);
    assert_eq!(client.answered.get(), requests);
    println!("{requests} requests, {} bytes", client.sent.get());
}
