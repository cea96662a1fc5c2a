//! A file server on 127.0.0.1:PORT with THREADS threads, to measure the engine without the rest of the daemon: FOLDER under `/`,
//! and `return 200` at `/return`.
//!
//! `cargo run --profile quick -p tutti-server --example static -- FOLDER PORT THREADS`

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tutti_config::model::Listener;
use tutti_config::{ValidationContext, validate};
use tutti_pool::{ApplicationPool, Level, LogSink, ThreadWakers};
use tutti_server::{Server, SnapshotEnvironment, StartOptions};

struct Stderr;

impl LogSink for Stderr {
    fn log(&self, level: Level, message: &str) {
        eprintln!("[{level:?}] {message}");
    }

    fn output(&self, application: &str, _process: i32, line: &[u8]) {
        eprintln!("{application}: {}", String::from_utf8_lossy(line));
    }
}

struct Direct;

impl SnapshotEnvironment for Direct {
    fn bind(&mut self, listener: &Listener) -> io::Result<OwnedFd> {
        let socket = std::net::TcpListener::bind(&listener.name)?;
        socket.set_nonblocking(true)?;
        Ok(socket.into())
    }

    fn application(&mut self, _: &str) -> Option<Arc<ApplicationPool>> {
        None
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments
        .next()
        .ok_or("usage: static FOLDER [PORT [THREADS]]")?;
    let port: u16 = arguments.next().unwrap_or_else(|| "8080".into()).parse()?;
    let threads = arguments.next().unwrap_or_else(|| "2".into()).parse()?;
    let server = Server::start(StartOptions {
        threads: ThreadWakers::new(threads)?,
        log: Arc::new(Stderr),
        // Without metrics.
        scrapes: tokio::sync::mpsc::unbounded_channel().0,
        posts: tokio::sync::mpsc::unbounded_channel().0,
        // Without files of Kubernetes.
        files: tokio::sync::mpsc::unbounded_channel().0,
        nodes: tutti_server::Nodes {
            known: tokio::sync::watch::channel(Default::default()).1,
            wanted: tokio::sync::mpsc::unbounded_channel().0,
        },
    })?;
    let document = format!(
        r#"{{"listeners": {{"127.0.0.1:{port}": {{"pass": "routes"}}}},
            "routes": [{{"match": {{"uri": "/return"}}, "action": {{"return": 200}}}}, {{"action": {{"share": "{folder}$uri"}}}}]}}"#
    );
    let document =
        tutti_config::parse(document.as_bytes()).map_err(|faults| format!("{faults:?}"))?;
    let config = validate(&document, &ValidationContext::default())
        .map_err(|faults| format!("{faults:?}"))?;
    let prepared = server
        .prepare(&config, &mut Direct)
        .map_err(|faults| format!("{faults:?}"))?;
    server.commit(prepared);
    loop {
        std::thread::park();
    }
}
