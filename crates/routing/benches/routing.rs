//! Deciding about a request among a thousand hosts and a thousand paths, and a line of the access log.

#![allow(missing_docs, clippy::unwrap_used)]

use std::fmt::Write as _;
use std::hint::black_box;
use std::net::SocketAddr;
use std::sync::LazyLock;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use tutti_config::model::TlsVariable;
use tutti_config::{Config, ValidationContext, parse, validate};
use tutti_http::{OwnedPath, RequestPath};
use tutti_routing::{LogLine, LogSecond, LogTime, RequestInfo, ResponseInfo, Router};

struct Request {
    host: &'static str,
    path: OwnedPath,
}

impl RequestInfo for Request {
    fn request_path(&self) -> RequestPath<'_> {
        self.path.as_path()
    }
    fn target(&self) -> &[u8] {
        self.path.as_path().target()
    }
    fn method(&self) -> &[u8] {
        b"GET"
    }
    fn host(&self) -> &[u8] {
        self.host.as_bytes()
    }
    fn request_line(&self) -> &[u8] {
        b"GET /section-0700/page HTTP/1.1"
    }
    fn is_https(&self) -> bool {
        false
    }
    fn remote(&self) -> Option<SocketAddr> {
        Some(SocketAddr::from(([192, 0, 2, 7], 40000)))
    }
    fn local(&self) -> Option<SocketAddr> {
        None
    }
    fn each_field(&self, name: &[u8], each: &mut dyn FnMut(&[u8])) {
        if name == b"user-agent" {
            each(b"Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/128.0");
        }
    }
    fn each_header(&self, each: &mut dyn FnMut(&[u8], &[u8])) {
        each(
            b"User-Agent",
            b"Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/128.0",
        );
    }
    fn tls(&self, _variable: TlsVariable) -> &[u8] {
        b""
    }
    fn request_id(&self) -> u128 {
        0
    }
    fn response(&self) -> Option<&dyn ResponseInfo> {
        Some(self)
    }
}

static SECOND: LazyLock<LogSecond> = LazyLock::new(|| LogSecond {
    common: "21/Oct/2015:16:29:00 -0700".to_owned(),
    ..LogSecond::default()
});

impl ResponseInfo for Request {
    fn status(&self) -> u16 {
        200
    }
    fn body_bytes_sent(&self) -> u64 {
        6022
    }
    fn request_time(&self) -> Duration {
        Duration::ZERO
    }
    fn time(&self) -> Option<LogTime<'_>> {
        Some(LogTime {
            second: &SECOND,
            milliseconds: 7,
        })
    }
    fn each_header(&self, _: &mut dyn FnMut(&[u8], &[u8])) {}
}

fn config(text: &str) -> Config {
    validate(
        &parse(text.as_bytes()).unwrap(),
        &ValidationContext::default(),
    )
    .unwrap()
}

fn steps(conditions: impl Fn(usize) -> String, action: &str) -> String {
    let mut text = String::from("[");
    for number in 0..1000 {
        let comma = if number == 0 { "" } else { "," };
        write!(
            text,
            r#"{comma}{{"match": {}, "action": {action}}}"#,
            conditions(number)
        )
        .unwrap();
    }
    text + "]"
}

fn benchmark(criterion: &mut Criterion) {
    let hosts = steps(
        |number| format!(r#"{{"host": "host-{number:04}.example.com"}}"#),
        r#"{"pass": "routes/paths"}"#,
    );
    let paths = steps(
        |number| format!(r#"{{"uri": "/section-{number:04}/*"}}"#),
        r#"{"return": 200}"#,
    );
    let exact = steps(
        |number| format!(r#"{{"uri": "/page-{number:04}"}}"#),
        r#"{"return": 200}"#,
    );
    let both = steps(
        |number| {
            format!(
                r#"{{"host": "host-{number:04}.example.com", "uri": "/section-{number:04}/*"}}"#
            )
        },
        r#"{"return": 200}"#,
    );
    let config = config(&format!(
        r#"{{"listeners": {{"*:80": {{"pass": "routes/hosts"}}, "*:81": {{"pass": "routes/exact"}}, "*:82": {{"pass": "routes/both"}}}},
            "routes": {{"hosts": {hosts}, "paths": {paths}, "exact": {exact}, "both": {both}}},
            "access_log": "/log"}}"#
    ));
    let router = Router::compile(&config).unwrap();
    let request = Request {
        host: "host-0700.example.com",
        path: OwnedPath::made("/section-0700/page".as_bytes(), true),
    };
    criterion.bench_function("1,000 hosts, then 1,000 path prefixes", |bencher| {
        bencher.iter(|| black_box(router.decide(0, black_box(&request))));
    });
    let page = Request {
        host: "example.com",
        path: OwnedPath::made("/page-0999".as_bytes(), true),
    };
    criterion.bench_function("1,000 paths", |bencher| {
        bencher.iter(|| black_box(router.decide(1, black_box(&page))))
    });
    criterion.bench_function("1,000 pairs of host and path prefix", |bencher| {
        bencher.iter(|| black_box(router.decide(2, black_box(&request))));
    });
    let none = Request {
        host: "none.example.com",
        path: OwnedPath::made("/none".as_bytes(), true),
    };
    criterion.bench_function("1,000 hosts, no match", |bencher| {
        bencher.iter(|| black_box(router.decide(0, black_box(&none))));
    });
    let line = LogLine::compile(&config.access_logs[0]);
    let mut out = Vec::with_capacity(4096);
    criterion.bench_function("access log line", |bencher| {
        bencher.iter(|| {
            out.clear();
            line.render(black_box(&request), &mut out);
            black_box(out.len())
        });
    });
}

criterion_group!(benches, benchmark);
criterion_main!(benches);
