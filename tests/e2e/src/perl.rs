//! Tutti with one Perl application, on the scripts of `tests/conformance/perl`.

use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tutti_testkit::{PATIENCE, Reply, Server, ServerOptions, client, wait_until};

use crate::copy;

/// A server with the application `perl`.
pub struct PerlSite {
    /// The server.
    pub server: Server,
}

impl PerlSite {
    /// Starts it on `script`; `extra` replaces members of the application.
    pub fn start(script: &str, extra: &Value) -> Self {
        let site = Self {
            server: Server::start(&ServerOptions::default()),
        };
        copy(&scripts(), &site.root());
        fs::create_dir(site.work()).expect("a folder");
        fs::set_permissions(site.work(), fs::Permissions::from_mode(0o777)).expect("its mode");
        let reply = site.configure(script, extra);
        assert_eq!(reply.status, 200, "{}", reply.text());
        site
    }

    /// Puts the configuration, also again with other members; the answer of the control API.
    pub fn configure(&self, script: &str, extra: &Value) -> Reply {
        let mut application = json!({
            "type": "perl", "script": self.root().join(script), "processes": 2,
            "environment": {"WORK": self.work()}
        });
        for (name, value) in extra.as_object().into_iter().flatten() {
            application[name] = value.clone();
        }
        self.server.call(
            "PUT",
            "/config",
            &json!({
                "settings": {"http": {"max_body_size": 16 << 20}},
                "listeners": {format!("127.0.0.1:{}", self.server.port()): {"pass": "applications/perl"}},
                "applications": {"perl": application}
            }),
        )
    }

    /// Where the scripts are.
    pub fn root(&self) -> PathBuf {
        self.server.folder().join("site")
    }

    /// A folder that the application may write to.
    pub fn work(&self) -> PathBuf {
        self.server.folder().join("work")
    }

    /// `GET target`.
    pub fn get(&self, target: &str) -> Reply {
        self.server.get(target)
    }

    /// A request with these header lines, each with its line end, and this body.
    pub fn send(&self, line: &str, fields: &str, body: &[u8]) -> Reply {
        let mut bytes =
            format!("{line} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{fields}\r\n")
                .into_bytes();
        bytes.extend_from_slice(body);
        client::request(self.server.address(), &bytes).expect("an answer")
    }

    /// `POST target` with this body.
    pub fn post(&self, target: &str, body: &[u8]) -> Reply {
        let fields = format!(
            "Content-Type: text/plain\r\nContent-Length: {}\r\n",
            body.len()
        );
        self.send(&format!("POST {target}"), &fields, body)
    }

    /// A connection, for those who look at bytes.
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.server.address()).expect("a connection");
        stream
            .set_read_timeout(Some(PATIENCE))
            .expect("a connection that waits");
        stream
    }

    /// Waits until the application has noted `text` under `name`.
    pub fn wait_for_note(&self, name: &str, text: &str) -> String {
        let path = self.work().join(name);
        let mut found = String::new();
        wait_until(&format!("`{text}` in the note `{name}`"), || {
            found = fs::read_to_string(&path).unwrap_or_default();
            found.contains(text)
        });
        found
    }

    /// Waits until the log has `text`.
    pub fn wait_for_log(&self, text: &str) {
        wait_until(&format!("`{text}` in the log"), || {
            self.server.log().contains(text)
        });
    }

    /// The workers' process numbers, in order.
    pub fn workers(&self) -> Vec<i32> {
        let mut workers = self.server.workers("perl");
        workers.sort_unstable();
        workers
    }
}

/// The folder of the scripts in the source tree.
pub fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/perl")
}
