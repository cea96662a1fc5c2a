//! A server with one application; the language is a parameter.

use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::client::{self, Client, Reply};
use crate::files::copy;
use crate::{Load, LoadOptions, Server, ServerOptions, wait_until};

/// Puts members into an object, in place of those with the same names.
pub fn set_members(object: &mut Value, members: &Value) {
    for (name, value) in members.as_object().into_iter().flatten() {
        object[name] = value.clone();
    }
}

/// A server whose listener passes to one application.
#[derive(Debug)]
pub struct Site {
    /// The server.
    pub server: Server,
    name: String,
    /// Members of the application, which [`Site::configuration`] adds to.
    pub application: Value,
    /// The `pass` of the listener.
    pub pass: String,
}

impl Site {
    /// Starts a server for an application of this name, not yet configured.
    pub fn new(name: &str, options: &ServerOptions) -> Site {
        let site = Site {
            server: Server::start(options),
            name: name.to_owned(),
            application: json!({}),
            pass: format!("applications/{name}"),
        };
        fs::create_dir(site.work()).expect("a folder");
        fs::set_permissions(site.work(), fs::Permissions::from_mode(0o777)).expect("its mode");
        site
    }

    /// The same with a copy of these sources as [`Site::root`].
    pub fn on(name: &str, sources: &Path) -> Site {
        let site = Site::new(name, &ServerOptions::default());
        copy(sources, &site.root());
        site
    }

    /// The configuration with other members of the application: those of `extra`.
    pub fn configuration(&self, extra: &Value) -> Value {
        let mut application = self.application.clone();
        set_members(&mut application, extra);
        let mut applications = json!({});
        applications[&self.name] = application;
        json!({
            "settings": {"http": {"max_body_size": 16 << 20}},
            "listeners": {format!("127.0.0.1:{}", self.server.port()): {"pass": self.pass}},
            "applications": applications,
        })
    }

    /// Puts that configuration, which must be taken.
    pub fn configure(&self, extra: &Value) {
        self.server.put("/config", &self.configuration(extra));
    }

    /// Puts that configuration; the reply, whatever it is.
    pub fn try_configure(&self, extra: &Value) -> Reply {
        let configuration = self.configuration(extra);
        self.server.call("PUT", "/config", &configuration)
    }

    /// The reply to a configuration that cannot be applied.
    pub fn refused(&self, extra: &Value) -> Value {
        let reply = self.try_configure(extra);
        assert_ne!(reply.status, 200, "{}", reply.text());
        reply.json()
    }

    /// Where the sources are.
    pub fn root(&self) -> PathBuf {
        self.server.folder().join("site")
    }

    /// A folder that applications may write to, whichever user they run as.
    pub fn work(&self) -> PathBuf {
        self.server.folder().join("work")
    }

    /// `GET target`.
    pub fn get(&self, target: &str) -> Reply {
        self.server.get(target)
    }

    /// `GET target` as text.
    pub fn text(&self, target: &str) -> String {
        self.get(target).text()
    }

    /// A request with more header lines, each with its line end, and a body.
    pub fn send(&self, method: &str, target: &str, fields: &str, body: &[u8]) -> Reply {
        let length = match body.is_empty() {
            true => String::new(),
            false => format!("Content-Length: {}\r\n", body.len()),
        };
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{length}{fields}\r\n"
        );
        client::request(self.server.address(), &[head.as_bytes(), body].concat()).expect("a reply")
    }

    /// A connection, for a test that looks at bytes.
    pub fn connect(&self) -> TcpStream {
        Client::to(self.server.address()).stream
    }

    /// Sends `GET target` and leaves the reply to be read.
    pub fn open(&self, target: &str) -> TcpStream {
        let mut client = Client::to(self.server.address());
        client.send(format!(
            "GET {target} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"
        ));
        client.stream
    }

    /// The workers' process numbers, in order.
    pub fn workers(&self) -> Vec<i32> {
        let mut workers = self.server.workers(&self.name);
        workers.sort_unstable();
        workers
    }

    /// Waits until `count` workers are there.
    pub fn wait_for_workers(&self, count: usize) {
        self.server.wait_for_workers(&self.name, count);
    }

    /// Waits until the log has `text`.
    #[track_caller]
    pub fn wait_for_log(&self, text: &str) {
        self.server.wait_for_log(text);
    }

    /// Waits until the application has written `text` into `name` in the work folder; all that is in it.
    #[track_caller]
    pub fn wait_for_note(&self, name: &str, text: &str) -> String {
        let path = self.work().join(name);
        let mut found = None;
        wait_until(&format!("`{text}` in the note `{name}`"), || {
            found = fs::read_to_string(&path).ok();
            found.as_ref().is_some_and(|found| found.contains(text))
        });
        found.unwrap_or_default()
    }

    /// Loads a page; each reply is checked.
    pub fn load(&self, connections: usize, target: &str, expect: fn(&[u8]) -> bool) -> Load {
        let mut options = LoadOptions::get(self.server.address(), target, connections);
        options.expect = expect;
        Load::start(&options)
    }
}
