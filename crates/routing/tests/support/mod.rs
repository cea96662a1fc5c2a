//! A request that a test makes, and a description of its decision.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy's `allow-unwrap-in-tests` does not see that this module is only in tests"
)]

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::LazyLock;
use std::time::Duration;

use tutti_config::model::{OutOfSteps, Pointer, TlsVariable};
use tutti_config::{Config, ValidationContext, parse, validate};
use tutti_http::{OwnedPath, PathRules, RequestPath};
use tutti_routing::{
    Decision, DecisionKind, LogSecond, LogTime, RequestInfo, ResponseInfo, Router, ScriptFailed,
};

pub(crate) struct Request {
    method: &'static str,
    pub(crate) target: String,
    path: OwnedPath,
    host: &'static str,
    fields: Vec<(&'static str, &'static str)>,
    remote: Option<SocketAddr>,
    pub(crate) local: Option<SocketAddr>,
    https: bool,
    /// Regular expressions that could not be evaluated, with their places.
    pub(crate) undecided: Rc<RefCell<Vec<String>>>,
}

pub(crate) fn get(target: &str) -> Request {
    Request {
        method: "GET",
        target: target.to_owned(),
        path: OwnedPath::parse(target.as_bytes(), &PathRules::default())
            .unwrap_or_else(|_| OwnedPath::made(target.as_bytes(), true)),
        host: "example.com",
        fields: Vec::new(),
        remote: "192.0.2.7:40000".parse().ok(),
        local: "127.0.0.1:8080".parse().ok(),
        https: false,
        undecided: Rc::default(),
    }
}

impl Request {
    pub(crate) fn method(mut self, method: &'static str) -> Self {
        self.method = method;
        self
    }
    pub(crate) fn host(mut self, host: &'static str) -> Self {
        self.host = host;
        self
    }
    pub(crate) fn field(mut self, name: &'static str, value: &'static str) -> Self {
        self.fields.push((name, value));
        self
    }
    pub(crate) fn from(mut self, address: &str) -> Self {
        self.remote = address.parse().ok();
        self
    }
    pub(crate) fn https(mut self) -> Self {
        self.https = true;
        self
    }
}

impl RequestInfo for Request {
    fn request_path(&self) -> RequestPath<'_> {
        self.path.as_path()
    }
    fn target(&self) -> &[u8] {
        self.path.as_path().target()
    }
    fn method(&self) -> &[u8] {
        self.method.as_bytes()
    }
    fn host(&self) -> &[u8] {
        self.host.as_bytes()
    }
    fn request_line(&self) -> &[u8] {
        b"GET / HTTP/1.1"
    }
    fn is_https(&self) -> bool {
        self.https
    }
    fn remote(&self) -> Option<SocketAddr> {
        self.remote
    }
    fn local(&self) -> Option<SocketAddr> {
        self.local
    }
    fn each_field(&self, name: &[u8], each: &mut dyn FnMut(&[u8])) {
        for (known, value) in &self.fields {
            if known.as_bytes().eq_ignore_ascii_case(name) {
                each(value.as_bytes());
            }
        }
    }
    fn each_header(&self, each: &mut dyn FnMut(&[u8], &[u8])) {
        for (name, value) in &self.fields {
            each(name.as_bytes(), value.as_bytes());
        }
    }
    fn tls(&self, variable: TlsVariable) -> &[u8] {
        match variable {
            TlsVariable::Protocol => b"TLSv1.3",
            _ => b"",
        }
    }
    fn request_id(&self) -> u128 {
        0x1234
    }
    fn pattern_failed(&self, out_of_steps: OutOfSteps<'_>, place: &Pointer) {
        let line = format!("{} {place}", out_of_steps.expression);
        self.undecided.borrow_mut().push(line);
    }
    fn response(&self) -> Option<&dyn ResponseInfo> {
        Some(&Answered)
    }
}

/// The response to every one of them.
struct Answered;

static SECOND: LazyLock<LogSecond> = LazyLock::new(|| LogSecond {
    unix: 1_445_470_140,
    common: "21/Oct/2015:16:29:00 -0700".to_owned(),
    iso: "2015-10-21T16:29:00".to_owned(),
    offset: "-07:00".to_owned(),
});

impl ResponseInfo for Answered {
    fn status(&self) -> u16 {
        200
    }
    fn body_bytes_sent(&self) -> u64 {
        6022
    }
    fn request_time(&self) -> Duration {
        Duration::from_millis(1234)
    }
    fn time(&self) -> Option<LogTime<'_>> {
        Some(LogTime {
            second: &SECOND,
            milliseconds: 7,
        })
    }
    fn each_header(&self, each: &mut dyn FnMut(&[u8], &[u8])) {
        each(b"Content-Type", b"text/html");
    }
}

pub(crate) fn config(text: &str) -> Config {
    let context = ValidationContext::with_modules([
        ("perl", "5.36.0"),
        ("php", "8.2.35"),
        ("python", "3.12.1"),
    ]);
    match parse(text.as_bytes()).and_then(|document| validate(&document, &context)) {
        Ok(config) => config,
        Err(faults) => panic!("{faults}"),
    }
}

/// One listener that passes to `routes`, and these routes.
pub(crate) fn routes(routes: &str) -> Router {
    router(&format!(
        r#"{{"listeners": {{"*:80": {{"pass": "routes"}}}}, "routes": {routes}}}"#
    ))
}

pub(crate) fn router(text: &str) -> Router {
    Router::compile(&config(text)).unwrap()
}

pub(crate) fn described(decision: &Decision<'_>, request: &Request) -> String {
    let text = |template: &_| {
        let mut out = Vec::new();
        match decision.render(template, request, &mut out) {
            Ok(()) => String::from_utf8(out).unwrap(),
            Err(ScriptFailed) => "failed".to_owned(),
        }
    };
    match decision.action {
        DecisionKind::Application(application) => match application.target {
            Some(target) => format!("{}/{target}", application.name),
            None => application.name.to_owned(),
        },
        DecisionKind::Share(share) => share.paths.iter().map(text).collect::<Vec<_>>().join(" "),
        DecisionKind::Return(answer) => match &answer.location {
            Some(location) => format!("{} {}", answer.status, text(location)),
            None => answer.status.to_string(),
        },
        DecisionKind::Metrics => "metrics".to_owned(),
        DecisionKind::StubStatus => "metrics/stub_status".to_owned(),
        DecisionKind::Spooler(index) => format!("spooler {index}"),
        DecisionKind::Upstream(index) => format!("upstream {index}"),
        DecisionKind::NotFound => "not found".to_owned(),
        DecisionKind::Loop => "loop".to_owned(),
        DecisionKind::Undecided => "failed".to_owned(),
    }
}

pub(crate) fn ask(router: &Router, request: Request) -> String {
    described(&router.decide(0, &request), &request)
}
