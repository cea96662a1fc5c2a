//! Tutti with one Ruby application, on the scripts of `tests/conformance/ruby`.

use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tutti_testkit::{Reply, Site, client};

/// A server with the application `ruby`.
pub struct RubySite(Site);

impl Deref for RubySite {
    type Target = Site;

    fn deref(&self) -> &Site {
        &self.0
    }
}

impl DerefMut for RubySite {
    fn deref_mut(&mut self) -> &mut Site {
        &mut self.0
    }
}

impl RubySite {
    /// Starts it on `script`; `extra` replaces members of the application.
    pub fn start(script: &str, extra: &Value) -> Self {
        let mut site = Site::on("ruby", &scripts());
        site.application = json!({
            "type": "ruby", "processes": 2, "environment": {"WORK": site.work()}
        });
        let site = Self(site);
        let reply = site.configure(script, extra);
        assert_eq!(reply.status, 200, "{}", reply.text());
        site
    }

    /// Puts the configuration, also again with other members; the reply of the control API.
    pub fn configure(&self, script: &str, extra: &Value) -> Reply {
        let mut members = json!({"script": self.root().join(script)});
        for (name, value) in extra.as_object().into_iter().flatten() {
            members[name] = value.clone();
        }
        self.try_configure(&members)
    }

    /// A request with these header lines, each with its line end, and this body.
    pub fn send(&self, line: &str, fields: &str, body: &[u8]) -> Reply {
        let mut bytes =
            format!("{line} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{fields}\r\n")
                .into_bytes();
        bytes.extend_from_slice(body);
        client::request(self.server.address(), &bytes).expect("a reply")
    }

    /// `POST target` with this body.
    pub fn post(&self, target: &str, body: &[u8]) -> Reply {
        let fields = format!(
            "Content-Type: text/plain\r\nContent-Length: {}\r\n",
            body.len()
        );
        self.send(&format!("POST {target}"), &fields, body)
    }
}

/// The folder of the scripts in the source tree.
pub fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/ruby")
}
