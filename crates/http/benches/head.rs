//! Cost of a request head: what the whole crate adds to bare `httparse`, and of a response head.
//!
//! `cargo bench -p tutti-http`. Instructions, which do not depend on the machine's
//! mood: `examples/head_instructions.rs`.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)] // a bench

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tutti_http::{
    DeclaredBody, Known, MessageLimits, Method, OutgoingHead, RequestHead, ResponseQuestion,
    Version, frame_response,
};

include!("samples/heads.rs");

fn request_heads(criterion: &mut Criterion) {
    let limits = MessageLimits::default();
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
    let mut out = Vec::with_capacity(1024);
    let mut head = OutgoingHead::default();
    let date = tutti_http::format_date(1_800_000_000);
    criterion.bench_function("response_head", |bencher| {
        bencher.iter(|| {
            out.clear();
            let decision = frame_response(&ResponseQuestion {
                version: Version::Http11,
                method: Method::Get,
                status: 200,
                body: DeclaredBody::Length(black_box(12)),
                keep_alive: true,
            });
            head.reset(200);
            head.fields.push(b"Server", b"Tutti/0.1.0");
            head.fields.push(b"Date", black_box(&date));
            head.fields
                .push(b"Content-Type", b"text/html; charset=UTF-8");
            head.frame(&decision);
            head.write_http1(&mut out);
            black_box(&out);
        });
    });
}

criterion_group!(benches, request_heads, response_head);
criterion_main!(benches);
