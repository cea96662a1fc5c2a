//! Answers that another follows (103), and fields behind a body: from applications of each language whose interface has them. Those of C and Rust
//! are tested beside their libraries.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use tutti_e2e::hints_and_trailers::{check_hints, check_trailers, check_unannounced_trailers};
use tutti_e2e::http3::Client;
use tutti_e2e::wasm::{self, WasmSite};
use tutti_e2e::{external, http3_site, java};
use tutti_testkit::{ServerOptions, Site};

fn application(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/hints_and_trailers")
        .join(name)
}

fn site() -> Site {
    Site::on("app", &application(""))
}

#[test]
fn of_asgi() {
    let mut site = site();
    site.application = json!({"type": "python", "path": site.root(), "module": "application"});
    site.configure(&json!({}));
    check_hints(&site, "/hints");
    check_trailers(&site, "/hints");
}

#[test]
fn of_node() {
    let mut site = site();
    let script = site.root().join("app.js");
    site.application = json!({"type": "node", "script": script});
    site.configure(&json!({}));
    check_hints(&site, "/hints");
    check_trailers(&site, "/hints");
}

/// The same script, as a program that knows nothing of the server.
#[test]
fn of_a_program_that_speaks_http() {
    let mut site = site();
    let node = Command::new("sh")
        .args(["-c", "command -v node"])
        .output()
        .unwrap();
    let node = String::from_utf8(node.stdout).unwrap();
    let script = site.root().join("app.js");
    site.application = json!({
        "type": "external", "protocol": "http", "executable": node.trim(), "arguments": [script]
    });
    site.configure(&json!({}));
    check_hints(&site, "/hints");
    check_trailers(&site, "/hints");
}

/// Rack has no fields behind a body.
#[test]
fn of_ruby() {
    let mut site = site();
    site.application = json!({"type": "ruby", "script": site.root().join("config.ru")});
    site.configure(&json!({}));
    check_hints(&site, "/hints");
}

#[test]
fn of_go() {
    let mut site = Site::new("app", &ServerOptions::default());
    let program = site.server.folder().join("app");
    external::build("tests/conformance/go", &program);
    site.application = json!({"type": "external", "executable": program});
    site.configure(&json!({}));
    check_hints(&site, "/hints");
    check_trailers(&site, "/hints");
}

#[test]
fn of_java() {
    // The server looks for the jars when it starts.
    let class_path = java::class_path("ee10");
    let mut site = site();
    let classes = site.root().join("WEB-INF/classes");
    java::compile_to(&classes, &class_path, &[site.root().join("Trailing.java")]);
    site.application = json!({
        "type": "java", "webapp": site.root(), "options": ["-Xmx64m", "-XX:TieredStopAtLevel=1"]
    });
    site.configure(&json!({}));
    check_hints(&site, "/hints");
    check_trailers(&site, "/hints");
}

/// `wasi:http` has no answers before the one.
#[test]
fn of_wasm() {
    let site = WasmSite::start(&wasm::rust(), &json!({}));
    check_trailers(&site, "/trailers?announced");
    check_unannounced_trailers(&site, "/trailers");
}

#[test]
fn clients_of_http3_get_fields_behind_a_body() {
    let server = http3_site::bare();
    let component = server.write("app.wasm", std::fs::read(wasm::rust()).unwrap());
    server.put(
        "/config",
        &json!({
            "listeners": http3_site::listeners(&server, "applications/app", &json!(true)),
            "applications": {"app": {"type": "wasm-wasi-component", "component": component}}
        }),
    );
    http3_site::run(async {
        let mut client = Client::connect(server.port()).await;
        for path in ["/trailers?announced", "/trailers"] {
            let answer = client.get(path).await.unwrap();
            assert_eq!((answer.status.as_u16(), answer.text()), (200, "whole"));
            let is_announced = path.ends_with("announced");
            assert_eq!(answer.fields.contains_key("trailer"), is_announced);
            let trailers = answer.trailers.unwrap();
            assert_eq!(
                (trailers.len(), &trailers["x-sum"]),
                (1, &"5".parse().unwrap())
            );
        }
        let plain = client.get("/").await.unwrap();
        assert!(plain.trailers.is_none(), "{plain:?}");
    });
}
