//! Cost of a request head: what the whole crate adds to bare `httparse`, and of a response head.
//!
//! `cargo bench -p tutti-http`. `small` is what `wrk` sends, `browser` a Firefox navigation.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)] // a bench

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tutti_http::{
    DateCache, DeclaredBody, Known, Limits, Method, RequestHead, ResponseHeadWriter,
    ResponseQuestion, frame_response,
};

const SMALL: &[u8] = b"GET /index.php HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n";

const BROWSER: &[u8] = b"GET /wiki/index.php?title=Main_Page&action=history HTTP/1.1\r\nHost: example.org\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n\
    Accept-Language: en-US,en;q=0.5\r\nAccept-Encoding: gzip, deflate, br, zstd\r\nReferer: https://example.org/wiki/\r\n\
    Connection: keep-alive\r\nCookie: session=0123456789abcdef0123456789abcdef; theme=dark; consent=yes\r\n\
    Upgrade-Insecure-Requests: 1\r\nSec-Fetch-Dest: document\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Site: same-origin\r\n\
    If-None-Match: \"5f3c-61a\"\r\nPriority: u=0, i\r\n\r\n";

fn request_heads(criterion: &mut Criterion) {
    let limits = Limits::default();
    for (name, bytes) in [("small", SMALL), ("browser", BROWSER)] {
        let mut group = criterion.benchmark_group(format!("request_{name}"));
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        let mut head = RequestHead::new();
        group.bench_function("tutti", |bencher| {
            bencher.iter(|| {
                head.parse(black_box(bytes), &limits).unwrap();
                let view = head.view(bytes);
                black_box((
                    view.path().len(),
                    view.host_name().len(),
                    view.get(Known::IfNoneMatch),
                    view.body_length(),
                ));
            });
        });
        group.bench_function("httparse", |bencher| {
            bencher.iter(|| {
                let mut fields = [httparse::EMPTY_HEADER; 64];
                let mut request = httparse::Request::new(&mut fields);
                black_box(request.parse(black_box(bytes)).unwrap().is_complete());
            });
        });
        group.finish();
    }
}

fn response_head(criterion: &mut Criterion) {
    let (mut out, mut dates) = (Vec::with_capacity(1024), DateCache::new());
    criterion.bench_function("response_head", |bencher| {
        bencher.iter(|| {
            out.clear();
            let decision = frame_response(&ResponseQuestion {
                version_minor: 1,
                method: Method::Get,
                status: 200,
                body: DeclaredBody::Length(black_box(12)),
                keep_alive: true,
            });
            let mut writer = ResponseHeadWriter::begin(&mut out, 200);
            writer
                .field(b"Content-Type", b"text/html; charset=UTF-8")
                .unwrap();
            writer
                .server("Tutti/0.1.0")
                .date(dates.get(black_box(1_800_000_000)))
                .framing(&decision);
            black_box(writer.finish());
        });
    });
}

criterion_group!(benches, request_heads, response_head);
criterion_main!(benches);
