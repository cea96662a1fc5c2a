//! WebSocket conformance: cases from RFC 6455, for any application that echoes text and binary messages.
//!
//! The groups and the kind of their cases are those of Autobahn's fuzzing client, whose own suite needs Python 2; the cases are written
//! anew from the RFC. The client speaks raw frames and shares no code with the server.
//!
//! ```text
//! cargo run -p tutti-websocket-cases -- 127.0.0.1:8080 /path            all cases
//! cargo run -p tutti-websocket-cases -- 127.0.0.1:8080 /path 6.4 7      those whose numbers begin so
//! ```
//!
//! From a test: [`run`] with the address, and [`Report::check`]. The server must allow messages of 16 MB
//! (`settings.http.websocket.max_frame_size`), and its application must echo each message whole, in order.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a test fails by panicking"
)]

mod client;
mod groups;
mod script;

use std::fmt::Write as _;
use std::net::SocketAddr;

pub use client::{Frame, Heard, WebSocketClient, build};
pub use script::{Case, End, ScriptStep};

/// The outcome of each case.
#[derive(Debug, Default)]
pub struct Report {
    /// Number, title, and what went wrong.
    pub outcomes: Vec<(String, String, Result<(), String>)>,
}

impl Report {
    /// Those that failed, one a line.
    pub fn failures(&self) -> String {
        let mut text = String::new();
        for (number, title, outcome) in &self.outcomes {
            if let Err(error) = outcome {
                let _ = writeln!(text, "{number} {title}: {error}");
            }
        }
        text
    }

    /// Panics if one failed, or if there was none.
    #[track_caller]
    pub fn check(&self) {
        assert!(!self.outcomes.is_empty(), "no such case");
        let failures = self.failures();
        assert!(
            failures.is_empty(),
            "{} of {} cases failed:\n{failures}",
            failures.lines().count(),
            self.outcomes.len()
        );
    }
}

/// All cases.
pub fn cases() -> Vec<Case> {
    groups::all()
}

/// Runs the cases whose numbers are one of `wanted`, or begin with one and a dot; all of them if it is empty.
pub fn run(address: SocketAddr, target: &str, wanted: &[&str]) -> Report {
    let is_wanted = |case: &Case| {
        wanted.is_empty()
            || wanted.iter().any(|wanted| {
                let rest = case.number.strip_prefix(wanted);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            })
    };
    let outcomes = cases()
        .into_iter()
        .filter(is_wanted)
        .map(|case| {
            let outcome = case.run(address, target);
            (case.number, case.title, outcome)
        })
        .collect();
    Report { outcomes }
}
