//! What the end-to-end tests share: the PHP scripts under Tutti, the same under nginx and PHP-FPM, and answers in a form
//! that can be compared.
//!
//! The scripts are those of `tests/conformance/php`, which the host's own tests use too.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

pub mod answer;
pub mod authority;
pub mod backends;
pub mod collector;
pub mod documents;
pub mod external;
pub mod fpm;
pub mod http2;
pub mod peer;
pub mod perl;
pub mod python;
pub mod tls;
pub mod tls_server;

use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tutti_testkit::{Reply, Server, ServerOptions, client, wait_until};

/// Reads until `text` has come, and returns everything so far.
pub fn read_until(stream: &mut TcpStream, text: &str) -> String {
    let mut got = Vec::new();
    let mut buffer = [0; 4096];
    while !String::from_utf8_lossy(&got).contains(text) {
        let count = stream.read(&mut buffer).unwrap();
        let so_far = String::from_utf8_lossy(&got);
        assert_ne!(count, 0, "no `{text}` in: {so_far}");
        got.extend_from_slice(&buffer[..count]);
    }
    String::from_utf8_lossy(&got).into_owned()
}

/// Waits until the health checks of each server of an upstream say `state`, and `why` the last of them failed; empty: none has.
pub fn wait_for_health(server: &Server, upstream: &str, state: &str, why: &str) {
    let is_as_wanted = |one: &Value| {
        let check = &one["health_check"];
        let told = check["last_failure"].as_str().unwrap_or_default();
        check["state"] == state && told == why
    };
    wait_until(&format!("{upstream}: {state} {why}"), || {
        let status = server.status(&format!("/upstreams/{upstream}/servers"));
        let servers = status.as_object().expect("servers");
        !servers.is_empty() && servers.values().all(is_as_wanted)
    });
}

/// php.ini of both servers: Debian's for production, with limits small enough to be reached.
pub const PHP_INI: &str = "\
display_errors = 0
log_errors = 1
error_reporting = 22527
output_buffering = 4096
variables_order = GPCS
request_order = GP
memory_limit = 128M
post_max_size = 300K
upload_max_filesize = 100K
max_file_uploads = 3
opcache.revalidate_freq = 0
";

/// Tutti with one PHP application, `php`, on the scripts.
pub struct Site {
    /// The server.
    pub server: Server,
}

impl Site {
    /// Starts it; `extra` replaces members of the application.
    pub fn start(extra: &Value) -> Self {
        let site = Self {
            server: Server::start(&ServerOptions::default()),
        };
        copy(&scripts(), &site.root());
        site.server.write("php.ini", PHP_INI);
        let work = site.work();
        fs::create_dir(&work).expect("a folder");
        fs::set_permissions(&work, fs::Permissions::from_mode(0o777)).expect("its mode");
        site.configure(extra);
        site
    }

    /// Puts the configuration again with other members.
    pub fn configure(&self, extra: &Value) {
        let mut application = json!({
            "type": "php", "root": self.root(), "processes": 2,
            "options": {"file": self.server.folder().join("php.ini")}
        });
        for (name, value) in extra.as_object().into_iter().flatten() {
            application[name] = value.clone();
        }
        self.server.put(
            "/config",
            &json!({
                "settings": {"http": {"max_body_size": 16 << 20}},
                "listeners": {format!("127.0.0.1:{}", self.server.port()): {"pass": "applications/php"}},
                "applications": {"php": application}
            }),
        );
    }

    /// Where the scripts are.
    pub fn root(&self) -> PathBuf {
        self.server.folder().join("site")
    }

    /// A folder that applications may write to, whoever they run as.
    pub fn work(&self) -> PathBuf {
        self.server.folder().join("work")
    }

    /// `GET target`.
    pub fn get(&self, target: &str) -> Reply {
        self.server.get(target)
    }

    /// `GET target` with more header lines, each with its line end.
    pub fn get_with(&self, target: &str, fields: &str) -> Reply {
        let bytes =
            format!("GET {target} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{fields}\r\n");
        client::request(self.server.address(), bytes.as_bytes()).expect("an answer")
    }

    /// Waits until a script has written `name` into the work folder whole, and reads it as JSON.
    pub fn written(&self, name: &str) -> Value {
        let path = self.work().join(name);
        let mut found = Value::Null;
        wait_until(name, || {
            found = fs::read(&path)
                .ok()
                .and_then(|bytes| serde_json::from_slice(&bytes).ok())
                .unwrap_or_default();
            !found.is_null()
        });
        found
    }

    /// Waits until the log has `text`.
    pub fn wait_for_log(&self, text: &str) {
        wait_until(&format!("`{text}` in the log"), || {
            self.server.log().contains(text)
        });
    }
}

/// How many mappings in the text of `/proc/PID/maps` are the stack of a thread of this size.
pub fn mappings_of(maps: &str, size: usize) -> usize {
    let is_one = |line: &&str| {
        let range = line
            .split(' ')
            .next()
            .and_then(|range| range.split_once('-'));
        let Some((start, end)) = range else {
            return false;
        };
        let [start, end] =
            [start, end].map(|text| usize::from_str_radix(text, 16).expect("an address"));
        // A page or two for the guard and for rounding.
        (size..size + 0x4000).contains(&(end - start))
    };
    maps.lines().filter(is_one).count()
}

/// The folder of the scripts in the source tree.
pub fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/php")
}

/// Copies a folder, readable by all.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("the scripts") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("its type").is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).expect("a copy");
        }
    }
}
