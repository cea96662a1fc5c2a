//! A prototype of the sample host.
#![allow(unreachable_pub, reason = "a module of each test")]

use tutti_testkit::{Prototype, server};
use tutti_wire::control::Start;

pub fn start() -> Start {
    Start {
        name: "demo".to_owned(),
        kind: "sample".to_owned(),
        config: serde_json::json!({}),
        threads: Some(1),
        workers: Some(4),
        ..Start::default()
    }
}

pub fn launch(start: &Start) -> Prototype {
    Prototype::launch(&server::built("tutti-sample"), start)
}
