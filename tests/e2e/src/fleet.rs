//! Servers that follow one etcd, and `tutti fleet` for it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use tutti_testkit::server::built;
use tutti_testkit::{Server, ServerOptions, wait_until};

use crate::etcd::Etcd;

/// Servers, and the store that they follow.
pub struct Fleet {
    /// The store.
    pub etcd: Etcd,
    /// The servers.
    pub nodes: Vec<Server>,
    /// The file with the source, for commands.
    pub source: PathBuf,
    /// Words before commands, which put them on another host.
    pub wrapper: Vec<String>,
}

/// The life of a node's answer in the store, in seconds: longer than a busy machine delays a node's sign of life.
const LIFE: &str = "8";

/// The time that a member of the store has for an answer, in seconds.
const PATIENCE: &str = "2";

/// The environment of a server that notices silence soon.
pub fn environment() -> [String; 2] {
    [
        format!("TUTTI_FLEET_PATIENCE={PATIENCE}"),
        format!("TUTTI_FLEET_LIFE={LIFE}"),
    ]
}

/// Options of a server that follows this source, and notices silence soon.
pub fn options(source: &Path) -> ServerOptions {
    ServerOptions {
        flags: vec!["--source".to_owned(), source.display().to_string()],
        wrapper: ["env".to_owned()]
            .into_iter()
            .chain(environment())
            .collect(),
        ..ServerOptions::default()
    }
}

/// A document that answers so.
pub fn document(status: u16) -> String {
    json!({"routes": [{"action": {"return": status}}]}).to_string()
}

impl Drop for Fleet {
    /// A test that fails tells what the store has.
    fn drop(&mut self) {
        if std::thread::panicking() {
            for command in [
                &["get", "--prefix", "", "--write-out=json"][..],
                &["lease", "list"],
            ] {
                let run = self.etcd.run("etcdctl", command);
                eprintln!("etcdctl {}: {run:?}", command.join(" "));
            }
        }
    }
}

impl Fleet {
    /// A store of so many members, and nodes with these names.
    pub fn start(members: usize, names: &[&str]) -> Fleet {
        Fleet::on(Etcd::start(members), names, &json!({}))
    }

    /// Nodes with these names on a store; `more` is added to the source of each.
    pub fn on(etcd: Etcd, names: &[&str], more: &Value) -> Fleet {
        let sources = names.iter().map(|name| etcd.source(name, more));
        let sources: Vec<_> = sources.collect();
        // They start at the same time.
        let nodes = std::thread::scope(|scope| {
            let started: Vec<_> = sources
                .iter()
                .map(|source| scope.spawn(move || Server::start(&options(source))))
                .collect();
            let started = started.into_iter().map(|node| node.join().unwrap());
            started.collect()
        });
        let fleet = Fleet {
            source: etcd.source("administrator", more),
            etcd,
            nodes,
            wrapper: Vec::new(),
        };
        let count = names.len();
        wait_until("all nodes answer", || fleet.answers().len() >= count);
        fleet
    }

    /// `tutti fleet` for this store.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let program = built("tutti");
        let mut command = match self.wrapper.split_first() {
            Some((wrapper, words)) => {
                let mut command = Command::new(wrapper);
                command.args(words).arg(program);
                command
            }
            None => Command::new(program),
        };
        command
            .arg("fleet")
            .args(arguments)
            .env("TUTTI_SOURCE", &self.source)
            // Elections take a moment.
            .env("TUTTI_FLEET_PATIENCE", PATIENCE)
            .env("NO_COLOR", "1");
        command
    }

    /// Runs it.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// The output of a command that has to succeed.
    #[track_caller]
    pub fn succeed(&self, arguments: &[&str]) -> String {
        let run = self.run(arguments);
        let words = String::from_utf8_lossy(&run.stdout).into_owned();
        let errors = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success(), "{arguments:?}: {words}{errors}");
        words
    }

    /// The errors of a command that has to fail.
    #[track_caller]
    pub fn fail(&self, arguments: &[&str]) -> String {
        let run = self.run(arguments);
        let errors = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(!run.status.success(), "{arguments:?}: {run:?}");
        errors
    }

    /// A document in a file.
    pub fn file(&self, text: &str) -> String {
        let digest: u32 = text
            .bytes()
            .fold(7, |sum, byte| sum.wrapping_mul(31) + u32::from(byte));
        let path = self.etcd.write(&format!("document-{digest}.json"), text);
        path.display().to_string()
    }

    /// Rolls a document out, and waits for no time but that of nodes.
    #[track_caller]
    pub fn put(&self, text: &str) -> String {
        self.succeed(&["put", &self.file(text), "--wait", "0"])
    }

    /// Returns the answer of `tutti fleet status --json`; null if it fails.
    pub fn status(&self) -> Value {
        let run = self.run(&["status", "--json"]);
        serde_json::from_slice(&run.stdout).unwrap_or_default()
    }

    /// The nodes that answer.
    pub fn answers(&self) -> serde_json::Map<String, Value> {
        let status = self.status();
        status["nodes"].as_object().cloned().unwrap_or_default()
    }

    /// The configuration of a node.
    pub fn configuration(&self, number: usize) -> Value {
        self.nodes[number]
            .call("GET", "/config", &Value::Null)
            .json()
    }

    /// Waits until a node runs this document.
    #[track_caller]
    pub fn wait_for(&self, number: usize, text: &str) {
        let wanted: Value = serde_json::from_str(text).unwrap();
        wait_until("a node runs a document", || {
            self.configuration(number) == wanted
        });
    }

    /// Waits until all nodes run it.
    #[track_caller]
    pub fn wait_for_all(&self, text: &str) {
        for number in 0..self.nodes.len() {
            self.wait_for(number, text);
        }
    }

    /// `source` of a node's status.
    pub fn source_of(&self, number: usize) -> Value {
        self.nodes[number].status("/source")
    }
}
