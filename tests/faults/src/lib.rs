//! A PHP site under load for the fault tests, the same small application in each language, and the scale of a run.
//!
//! Each test breaks one thing while checked requests run, and states what that may cost. What it did cost is printed,
//! so that `docs/operate/faults.md` can say it.

pub mod language;

use serde_json::{Value, json};
use tutti_testkit::{Load, LoadOptions, Outcome, Server, ServerOptions};

/// `small` in `make test`, `large` in `make test-long`.
pub fn scaled(small: usize, large: usize) -> usize {
    if std::env::var_os("TUTTI_LONG").is_some() {
        large
    } else {
        small
    }
}

/// Prints the cost of a fault.
pub fn print_outcome(fault: &str, outcome: &Outcome) {
    println!("{fault}: {outcome}");
}

/// The page under load: answers `ok` and its own argument, after `ms` milliseconds or when there is a `file` if asked to wait.
const PAGE: &str = r#"<?php
if (isset($_GET['ms'])) usleep(1000 * (int)$_GET['ms']);
while (isset($_GET['file']) && !file_exists($_GET['file'])) usleep(2000);
echo 'ok:', $_GET['n'] ?? '', ':', strlen(file_get_contents('php://input'));
"#;

/// A server with the configuration of the main job on its own folder.
pub struct Site {
    /// The server.
    pub server: Server,
}

impl Site {
    /// Starts it with `processes` as the application's `processes`.
    pub fn start(processes: &Value, options: &ServerOptions) -> Self {
        let server = Server::start(options);
        server.write("site/index.php", PAGE);
        server.write("site/file.txt", "a file");
        let site = Self { server };
        site.server.put("/config", &site.configuration(processes));
        site
    }

    /// The configuration it runs.
    pub fn configuration(&self, processes: &Value) -> Value {
        let root = self.server.folder().join("site");
        let root = root.to_str().expect("a path that is text");
        json!({
            "listeners": {format!("127.0.0.1:{}", self.server.port()): {"pass": "routes"}},
            "routes": [{
                "match": {"uri": "!/index.php"},
                "action": {"share": format!("{root}$uri"), "fallback": {"pass": "applications/site"}}
            }],
            "applications": {"site": {
                "type": "php", "processes": processes, "root": root, "script": "index.php"
            }}
        })
    }

    /// Loads the page: each answer is checked, and takes `ms` milliseconds.
    pub fn load(&self, connections: usize, ms: usize) -> Load {
        Load::start(&self.load_options(connections, ms))
    }

    /// The options of [`Site::load`].
    pub fn load_options(&self, connections: usize, ms: usize) -> LoadOptions {
        let mut options = LoadOptions::get(
            self.server.address(),
            &format!("/page?n=7&ms={ms}"),
            connections,
        );
        options.expect = |body| body == b"ok:7:0";
        options
    }

    /// Waits until `count` workers are there.
    pub fn wait_for_workers(&self, count: usize) {
        self.server.wait_for_workers("site", count);
    }
}
