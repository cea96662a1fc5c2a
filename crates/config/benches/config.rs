//! Parsing and checking a configuration of 10,000 lines.

#![allow(missing_docs, clippy::unwrap_used)]

use std::fmt::Write as _;
use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use tutti_config::{ValidationContext, parse, validate};

fn benchmark(criterion: &mut Criterion) {
    let mut text =
        String::from("{\n\"listeners\": {\"*:80\": {\"pass\": \"routes\"}},\n\"routes\": [\n");
    for number in 0..1400 {
        let comma = if number == 0 { "" } else { ",\n" };
        write!(
            text,
            "{comma}{{\n    \"match\": {{\n        \"host\": \"h{number}.example.com\",\n        \"uri\": \"/x{number}/*\"\n    }},\n\
             \"action\": {{\"pass\": \"applications/a{}\"}}\n}}",
            number % 100
        )
        .unwrap();
    }
    text.push_str("],\n\"applications\": {\n");
    for number in 0..100 {
        let comma = if number == 0 { "" } else { ",\n" };
        write!(text, "{comma}\"a{number}\": {{\"type\": \"php\", \"root\": \"/r\",\n\"processes\": {{\"max\": 5,\n\"spare\": 1\n}}}}").unwrap();
    }
    text.push_str("}}\n");
    assert!(text.lines().count() > 10_000);
    let context = ValidationContext::with_modules([("php", "8.2.35")]);
    criterion.bench_function("parse 10,000 lines", |bencher| {
        bencher.iter(|| parse(black_box(text.as_bytes())).unwrap())
    });
    let document = parse(text.as_bytes()).unwrap();
    criterion.bench_function("validate 10,000 lines", |bencher| {
        bencher.iter(|| validate(black_box(&document), &context).unwrap());
    });
}

criterion_group!(benches, benchmark);
criterion_main!(benches);
