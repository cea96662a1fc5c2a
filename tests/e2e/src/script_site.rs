//! Tutti with one application of a language whose applications are scripts with a `WORK` folder: Perl's and Ruby's, on those of
//! `tests/conformance`.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tutti_testkit::{Reply, Site, client};

/// A language: the type of its applications, and the folder of its scripts.
pub trait Language {
    /// Its name.
    const NAME: &'static str;
}

/// A server with an application that has the language's name.
pub struct ScriptSite<L>(Site, PhantomData<L>);

impl<L> Deref for ScriptSite<L> {
    type Target = Site;

    fn deref(&self) -> &Site {
        &self.0
    }
}

impl<L> DerefMut for ScriptSite<L> {
    fn deref_mut(&mut self) -> &mut Site {
        &mut self.0
    }
}

impl<L: Language> ScriptSite<L> {
    /// Starts it on `script`; `extra` replaces members of the application.
    pub fn start(script: &str, extra: &Value) -> Self {
        let mut site = Site::on(L::NAME, &scripts::<L>());
        site.application = json!({
            "type": L::NAME, "processes": 2, "environment": {"WORK": site.work()}
        });
        let site = Self(site, PhantomData);
        let reply = site.configure(script, extra);
        assert_eq!(reply.status, 200, "{}", reply.text());
        site
    }

    /// Puts the configuration, also again with other members; the reply of the control API.
    pub fn configure(&self, script: &str, extra: &Value) -> Reply {
        let mut members = json!({"script": self.root().join(script)});
        tutti_testkit::set_members(&mut members, extra);
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

/// The folder of the language's scripts in the source tree.
pub fn scripts<L: Language>() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../conformance")
        .join(L::NAME)
}
