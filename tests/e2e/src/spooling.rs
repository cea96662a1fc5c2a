//! A server with a spooler, and an application that notes the jobs it gets.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tutti_testkit::client::{self, Reply};
use tutti_testkit::{Server, ServerOptions, wait_until};

/// Notes the job, one line of JSON each, and does as its query says: `fail=N` answers 500 to the first N deliveries, `wait=NAME` waits
/// until there is such a file.
const PAGE: &str = r#"<?php
$work = getenv('WORK');
if (isset($_GET['wait'])) {
    touch("$work/began-" . $_GET['wait']);
    while (!file_exists("$work/" . $_GET['wait'])) usleep(5000);
}
$attempt = (int)$_SERVER['HTTP_X_TUTTI_JOB_ATTEMPT'];
$failing = $attempt <= (int)($_GET['fail'] ?? 0);
$job = [
    'id' => $_SERVER['HTTP_X_TUTTI_JOB_ID'],
    'attempt' => $attempt,
    'spooler' => $_SERVER['HTTP_X_TUTTI_JOB_SPOOLER'],
    'method' => $_SERVER['REQUEST_METHOD'],
    'target' => $_SERVER['REQUEST_URI'],
    'host' => $_SERVER['HTTP_HOST'],
    'note' => $_SERVER['HTTP_X_NOTE'] ?? null,
    'delay' => $_SERVER['HTTP_X_TUTTI_JOB_DELAY'] ?? null,
    'body' => file_get_contents('php://input'),
];
file_put_contents("$work/jobs", json_encode($job) . "\n", FILE_APPEND | LOCK_EX);
http_response_code($failing ? 500 : 200);
echo 'done';
"#;

/// A server with the spooler `mail` at `/jobs`.
pub struct Spooling {
    /// The server.
    pub server: Server,
}

impl Spooling {
    /// Starts it; `extra` are options of the spooler.
    pub fn start(extra: &Value) -> Self {
        Self::with(extra, &ServerOptions::default())
    }

    /// The same, on these terms.
    pub fn with(extra: &Value, options: &ServerOptions) -> Self {
        let spooling = Self {
            server: Server::start(options),
        };
        spooling.server.write("site/index.php", PAGE);
        spooling.server.write("work/.there", "");
        let open = fs::Permissions::from_mode(0o777);
        fs::set_permissions(spooling.work(), open).expect("its mode");
        spooling
            .server
            .put("/config", &spooling.configuration(extra));
        spooling
    }

    /// The folder that the application writes to.
    pub fn work(&self) -> PathBuf {
        self.server.folder().join("work")
    }

    /// The whole configuration.
    pub fn configuration(&self, extra: &Value) -> Value {
        let root = self.server.folder().join("site");
        let mut mail = json!({"pass": "applications/app"});
        tutti_testkit::set_members(&mut mail, extra);
        json!({
            "listeners": {format!("127.0.0.1:{}", self.server.port()): {"pass": "routes"}},
            "routes": [
                {"match": {"uri": "/jobs*"}, "action": {"pass": "spoolers/mail"}},
                {"action": {"pass": "applications/app"}}
            ],
            "applications": {"app": {
                "type": "php", "root": root, "script": "index.php", "processes": 2,
                "environment": {"WORK": self.work()}
            }},
            "spoolers": {"mail": mail}
        })
    }

    /// Posts a job; `fields` with their line ends.
    pub fn send(&self, method: &str, target: &str, fields: &str, body: &[u8]) -> Reply {
        let request = format!(
            "{method} {target} HTTP/1.1\r\nHost: jobs.example\r\nConnection: close\r\n{fields}Content-Length: {}\r\n\r\n",
            body.len()
        );
        let mut client = client::Client::to(self.server.address());
        client.send([request.as_bytes(), body].concat());
        client.response(method)
    }

    /// Posts a job that is taken; its number.
    pub fn post(&self, target: &str, body: &[u8]) -> String {
        let reply = self.send("POST", target, "", body);
        assert_eq!(reply.status, 202, "{}", reply.text());
        reply.json()["id"].as_str().expect("a number").to_owned()
    }

    /// The jobs that the application has had, in their order.
    pub fn seen(&self) -> Vec<Value> {
        seen(&self.work())
    }

    /// Waits for so many deliveries.
    pub fn wait_for(&self, count: usize) -> Vec<Value> {
        wait_until(&format!("{count} deliveries"), || {
            self.seen().len() >= count
        });
        self.seen()
    }

    /// Waits until a count of the spooler in `/status` is this.
    pub fn wait_for_count(&self, path: &str, count: usize) {
        let path = format!("/spoolers/mail/{path}");
        wait_until(&format!("{path} {count}"), || {
            self.server.status(&path) == json!(count)
        });
    }

    /// Lets go of those who wait for this name.
    pub fn open(&self, name: &str) {
        fs::write(self.work().join(name), "").expect("a file");
    }
}

/// The lines of a work folder that are whole.
fn seen(work: &Path) -> Vec<Value> {
    let text = fs::read_to_string(work.join("jobs")).unwrap_or_default();
    let lines = text.lines().map(serde_json::from_str);
    lines.filter_map(Result::ok).collect()
}

/// The number of deliveries of each job.
pub fn by_id(seen: &[Value]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for job in seen {
        let id = job["id"].as_str().expect("a number").to_owned();
        *counts.entry(id).or_default() += 1;
    }
    counts
}
