//! Starts PHP in a process of its own, feeds it requests, and collects what it answers.

use std::{
    fs::File,
    io::{BufRead, BufReader, Write},
    os::{
        fd::AsRawFd,
        unix::fs::FileExt,
        unix::{net::UnixStream, process::CommandExt},
    },
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
};

use serde_json::{Value, json};

/// The folder of the scripts.
pub(crate) fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/conformance/php")
        .canonicalize()
        .expect("the scripts are there")
}

/// A request to be sent.
#[derive(Clone)]
pub(crate) struct Request(Value);

/// `GET` of `target`.
pub(crate) fn get(target: &str) -> Request {
    method("GET", target)
}

pub(crate) fn method(method: &str, target: &str) -> Request {
    Request(json!({"method": method, "target": target, "fields": [["Host", "example.test:8080"]]}))
}

/// `POST` with a body of known length.
pub(crate) fn post(target: &str, content_type: &str, body: &[u8]) -> Request {
    let length = body.len().to_string();
    method("POST", target)
        .field("Content-Type", content_type)
        .field("Content-Length", &length)
        .with("body", body.into())
        .with("has_length", true.into())
}

impl Request {
    pub(crate) fn field(mut self, name: &str, value: &str) -> Self {
        self.0["fields"]
            .as_array_mut()
            .expect("fields")
            .push(json!([name, value]));
        self
    }

    pub(crate) fn with(mut self, name: &str, value: Value) -> Self {
        self.0[name] = value;
        self
    }
}

/// The response as it came back.
#[derive(Debug)]
pub(crate) struct HostResponse {
    pub(crate) status: u64,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Names of the events in order: `start`, `write`, `flush`, `finish`.
    pub(crate) events: Vec<String>,
    pub(crate) recycle: bool,
}

impl HostResponse {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The values of a field, in order; its name as it was sent.
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        self.fields
            .iter()
            .filter(|(field, _)| field == name)
            .map(|(_, value)| value.as_str())
            .collect()
    }
}

/// A process with PHP in it.
pub(crate) struct Host {
    child: Child,
    requests: Option<ChildStdin>,
    events: BufReader<UnixStream>,
    errors: File,
}

impl Host {
    /// The scripts under `tests/conformance/php`, one by one.
    pub(crate) fn start() -> Self {
        Self::with(&json!({"root": scripts()}))
    }

    pub(crate) fn with(config: &Value) -> Self {
        Self::with_environment(config, &[])
    }

    pub(crate) fn with_environment(config: &Value, environment: &[(&str, &str)]) -> Self {
        let (ours, theirs) = UnixStream::pair().expect("a socket pair");
        let errors = tempfile::tempfile().expect("a file");
        let fd = theirs.as_raw_fd();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tutti-php-driver"));
        command
            .arg(config.to_string())
            .env_clear()
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(errors.try_clone().expect("the file again"))
            .stderr(errors.try_clone().expect("the file again"));
        let pass = move || {
            // SAFETY: both are numbers; `fd` is open.
            if unsafe { libc::dup2(fd, 3) } == -1 {
                Err(std::io::Error::last_os_error())
            } else {
                Ok(())
            }
        };
        // SAFETY: dup2 may be called between fork and exec, and the closure does nothing else.
        unsafe { command.pre_exec(pass) };
        let mut child = command.spawn().expect("the driver starts");
        let requests = child.stdin.take();
        Self {
            child,
            requests,
            events: BufReader::new(ours),
            errors,
        }
    }

    /// Sends a request that must be answered.
    pub(crate) fn send(&mut self, request: &Request) -> HostResponse {
        self.try_send(request)
            .unwrap_or_else(|status| panic!("PHP died: {status}\n{}", self.errors()))
    }

    pub(crate) fn get(&mut self, target: &str) -> HostResponse {
        self.send(&get(target))
    }

    /// Sends a request that may be the end of the process.
    pub(crate) fn try_send(&mut self, request: &Request) -> Result<HostResponse, ExitStatus> {
        let mut answer = HostResponse {
            status: 0,
            fields: Vec::new(),
            body: Vec::new(),
            events: Vec::new(),
            recycle: false,
        };
        let sent = self
            .requests
            .as_mut()
            .map(|requests| writeln!(requests, "{}", request.0));
        if !matches!(sent, Some(Ok(()))) {
            return Err(self.wait());
        }
        loop {
            let mut line = String::new();
            if self.events.read_line(&mut line).unwrap_or(0) == 0 {
                return Err(self.wait());
            }
            let event: Value = serde_json::from_str(&line).expect("an event");
            let (name, value) = match &event {
                Value::String(name) => (name.clone(), Value::Null),
                Value::Object(map) => map
                    .iter()
                    .next()
                    .map(|(name, value)| (name.clone(), value.clone()))
                    .expect("one member"),
                other => panic!("what is {other}?"),
            };
            match name.as_str() {
                "start" => {
                    assert_eq!(answer.status, 0, "the head comes once");
                    answer.status = value["status"].as_u64().expect("a status");
                    answer.fields =
                        serde_json::from_value(value["fields"].clone()).expect("fields");
                }
                "write" => answer.body.extend(
                    value
                        .as_array()
                        .expect("bytes")
                        .iter()
                        .map(|byte| byte.as_u64().expect("a byte") as u8),
                ),
                "done" => {
                    answer.recycle = value["recycle"] == true;
                    return Ok(answer);
                }
                // A resident script has booted.
                "ready" => continue,
                _ => {}
            }
            answer.events.push(name);
        }
    }

    /// Everything PHP wrote to its log so far.
    pub(crate) fn errors(&self) -> String {
        // Not by reading on: the position is PHP's, which may be writing.
        let length = self.errors.metadata().expect("a file").len();
        let mut text = vec![0; usize::try_from(length).expect("a length")];
        self.errors.read_exact_at(&mut text, 0).expect("a file");
        String::from_utf8_lossy(&text).into_owned()
    }

    fn wait(&mut self) -> ExitStatus {
        self.requests = None;
        self.child.wait().expect("its end")
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.wait();
    }
}
