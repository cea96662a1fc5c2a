//! A server with an application of each language, and the cases that are run on all of them at once.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tutti_testkit::client::{self, Client, Reply};
use tutti_testkit::{
    Load, LoadOptions, Server, ServerOptions, files, free_port, set_members, wait_until,
};

use crate::table::{ContractSite, LANGUAGES, Language};

/// The names of all cases, which a row of the table may lack.
pub(crate) const NAMES: &[&str] = &[
    "request streaming",
    "crash",
    "kill",
    "limits.requests",
    "limits.memory",
    "limits.timeout",
    "place of a hang",
    "service after a hang",
    "restart",
    "watch",
    "preload",
    "guide",
    "hello",
    "HEAD",
    "bodies",
    "fields",
    "streamed response",
    "hints",
    "trailers",
    "WebSocket",
    "failure",
    "silence about a failure",
    "endless response",
];

/// A case: its name, and the check of one language.
pub(crate) type Case = (&'static str, fn(&Application));

/// The text of the contract's application that its next edition has in other letters.
pub(crate) const EDITION: (&[u8], &[u8]) = (b"Hello from", b"Howdy from");

/// The rows that `TUTTI_LANGUAGES` names, all without it, which do not lack all of `cases`.
pub(crate) fn chosen(cases: &[Case]) -> Vec<&'static Language> {
    let wanted = std::env::var("TUTTI_LANGUAGES").ok();
    let is_wanted = |language: &&Language| {
        let names = wanted
            .as_deref()
            .map(|names| names.split_whitespace().any(|name| name == language.name));
        names.unwrap_or(true)
            && (cases.is_empty() || cases.iter().any(|(case, _)| language.has(case)))
    };
    LANGUAGES.iter().filter(is_wanted).collect()
}

/// A server with an application of each of these languages, which has its language's name.
pub(crate) struct Suite {
    pub(crate) server: Server,
    ports: Vec<u16>,
    _turn: MutexGuard<'static, ()>,
}

/// Held by the one suite that runs: the applications of all languages, each under load, leave no processor to those of another.
static TURN: Mutex<()> = Mutex::new(());

impl Suite {
    /// Starts it; each application gets `members`.
    pub(crate) fn start(members: &Value, languages: &[&'static Language]) -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        for language in languages {
            // The server looks for some hosts' libraries when it starts.
            (language.prepare)();
        }
        let server = Server::start(&ServerOptions::default());
        let ports: Vec<u16> = languages.iter().map(|_| free_port()).collect();
        let mut configuration = json!({"settings": {"http": {"max_body_size": 16 << 20}}, "listeners": {}, "applications": {}});
        let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../conformance/contract");
        for (language, port) in languages.iter().zip(&ports) {
            let place = ContractSite {
                root: server.folder().join(language.name).join("site"),
                work: server.folder().join(language.name).join("work"),
            };
            files::copy(&source, &place.root);
            for folder in [&place.work, &place.root] {
                fs::create_dir_all(folder).unwrap();
                fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
            }
            let mut application = (language.application)(&place);
            application["environment"] = json!({"WORK": place.work});
            set_members(&mut application, members);
            configuration["applications"][language.name] = application;
            let pass = json!({"pass": format!("applications/{}", language.name)});
            configuration["listeners"][format!("127.0.0.1:{port}")] = pass;
        }
        server.put("/config", &configuration);
        Self {
            server,
            ports,
            _turn: turn,
        }
    }
}

/// Runs each case on each language that does not lack it, and fails with all that went wrong: the language, the case and the reason.
pub(crate) fn check(members: &Value, cases: &[Case]) {
    let languages = chosen(cases);
    let suite = Suite::start(members, &languages);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for (language, port) in languages.iter().zip(&suite.ports) {
            let application = Application {
                language,
                server: &suite.server,
                address: SocketAddr::from(([127, 0, 0, 1], *port)),
            };
            let failures = &failures;
            let run = move || {
                for (name, case) in cases.iter().filter(|(name, _)| language.has(name)) {
                    let Err(reason) = catch_unwind(AssertUnwindSafe(|| case(&application))) else {
                        continue;
                    };
                    let text = reason.downcast_ref::<String>().map(String::as_str);
                    let text = text.or_else(|| reason.downcast_ref::<&str>().copied());
                    let text = format!("{}: {name}: {}", language.name, text.unwrap_or_default());
                    failures.lock().unwrap().push(text);
                }
            };
            let thread = std::thread::Builder::new().name(language.name.to_owned());
            thread.spawn_scoped(scope, run).unwrap();
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(
        failures.is_empty(),
        "{}\n\n{}",
        failures.join("\n\n"),
        suite.server.log()
    );
}

/// The application of one language, while it runs.
#[derive(Clone, Copy)]
pub(crate) struct Application<'a> {
    pub(crate) language: &'static Language,
    pub(crate) server: &'a Server,
    pub(crate) address: SocketAddr,
}

impl Application<'_> {
    pub(crate) fn get(&self, target: &str) -> Reply {
        self.send("GET", target, "", b"")
    }

    /// A request with more header lines, each with its line end, and a body, which has a length unless the lines say otherwise.
    pub(crate) fn send(&self, method: &str, target: &str, fields: &str, body: &[u8]) -> Reply {
        let length = match body.is_empty() || fields.contains("chunked") {
            true => String::new(),
            false => format!("Content-Length: {}\r\n", body.len()),
        };
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{length}{fields}\r\n"
        );
        let reply = client::request(self.address, &[head.as_bytes(), body].concat());
        reply.unwrap_or_else(|error| panic!("{method} {target}: {error}"))
    }

    /// Sends `GET target` and leaves the reply to be read.
    pub(crate) fn open(&self, target: &str) -> Client {
        let mut client = Client::to(self.address);
        client.send(format!(
            "GET {target} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"
        ));
        client
    }

    /// A page under load; each answer is checked.
    pub(crate) fn load(&self, connections: usize) -> Load {
        Load::start(&LoadOptions {
            expect: |body| body.starts_with(b"Hello from ") || body.starts_with(b"Howdy from "),
            ..LoadOptions::get(self.address, "/", connections)
        })
    }

    /// A part of its entry in `/status`.
    pub(crate) fn status(&self, part: &str) -> Value {
        self.server
            .status(&format!("/applications/{}{part}", self.language.name))
    }

    /// The numbers of the processes that serve requests, in order.
    pub(crate) fn processes(&self) -> Vec<i32> {
        let status = self.status("/pids");
        let all = status.as_array().into_iter().flatten();
        let mut all: Vec<i32> = all
            .filter_map(|pid| i32::try_from(pid.as_i64()?).ok())
            .collect();
        all.sort_unstable();
        all
    }

    /// Waits until it serves with `count` processes, none of which is one of `before`.
    pub(crate) fn wait_for_others(&self, count: usize, before: &[i32]) {
        wait_until(&format!("{count} other processes than {before:?}"), || {
            let now = self.processes();
            now.len() == count && now.iter().all(|pid| !before.contains(pid))
        });
    }

    /// The endpoint of the control API that restarts it; the answer must be 200.
    pub(crate) fn restart(&self) {
        self.server.restart(self.language.name);
    }

    /// True if a line of the log has this text, and the name of the application.
    pub(crate) fn has_logged(&self, text: &str) -> bool {
        let name = format!("\"{}\"", self.language.name);
        let log = self.server.log();
        log.lines()
            .any(|line| line.contains(&name) && line.contains(text))
    }

    /// Waits until such a line is there.
    pub(crate) fn wait_for_log(&self, text: &str) {
        wait_until(
            &format!("a line of the application's with `{text}`"),
            || self.has_logged(text),
        );
    }

    /// The folder that it may write to.
    pub(crate) fn work(&self) -> PathBuf {
        self.server.folder().join(self.language.name).join("work")
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.server.folder().join(self.language.name).join("site")
    }

    /// Puts the next edition in place of the file that the application was made of, as a deployment does: at no moment is there half a file.
    pub(crate) fn deploy(&self) {
        let (from, to) = EDITION;
        let file = self.root().join(self.language.artifact);
        let mut bytes = fs::read(&file).unwrap();
        let at = bytes
            .windows(from.len())
            .position(|part| part == from)
            .expect("the text of the first edition");
        bytes[at..at + to.len()].copy_from_slice(to);
        let new = self.root().join("next edition");
        fs::write(&new, bytes).unwrap();
        files::install(&new, &file);
    }
}
