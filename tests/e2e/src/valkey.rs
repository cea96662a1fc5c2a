//! A store of limits for tests that other people wrote: Debian's Valkey or Redis, on this machine.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tutti_testkit::{free_port, wait_until};

use crate::authority::{Authority, EC};

/// A server without a file of its data. Dropping it ends it.
pub struct Valkey {
    folder: tempfile::TempDir,
    port: u16,
    is_secure: bool,
    child: Option<Child>,
}

impl Drop for Valkey {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The user of [`Valkey::secure`], and the password.
pub const USER: &str = "limits";
const PASSWORD: &str = "correct-horse";

impl Valkey {
    /// Starts one, and waits until it answers.
    pub fn start() -> Valkey {
        Valkey::begin(false)
    }

    /// One that speaks TLS, asks for certificates of clients, and has a user with a password that may do no more than it has to.
    pub fn secure() -> Valkey {
        Valkey::begin(true)
    }

    fn begin(is_secure: bool) -> Valkey {
        let folder = tempfile::Builder::new().prefix("tutti-valkey-").tempdir();
        let folder = folder.expect("a folder");
        if is_secure {
            let authority = Authority::new(folder.path());
            authority.issue("server", EC, "ca", "subjectAltName=IP:127.0.0.1");
            authority.issue("client", EC, "ca", "subjectAltName=DNS:node");
            std::fs::write(folder.path().join("password"), format!("{PASSWORD}\n"))
                .expect("a file");
        }
        let mut valkey = Valkey {
            folder,
            port: free_port(),
            is_secure,
            child: None,
        };
        valkey.start_again();
        valkey
    }

    /// A file of its authority.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("ca").join(name)
    }

    /// The file with the password.
    pub fn password_file(&self) -> PathBuf {
        self.folder.path().join("password")
    }

    /// Starts it again, with nothing in it.
    pub fn start_again(&mut self) {
        self.kill();
        let mut command = Command::new(program("server"));
        command
            .args(["--save", "", "--appendonly", "no", "--bind", "127.0.0.1"])
            .arg("--dir")
            .arg(self.folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let port = self.port.to_string();
        match self.is_secure {
            false => command.args(["--port", &port]),
            true => command
                .args(["--port", "0", "--tls-port", &port])
                .arg("--tls-ca-cert-file")
                .arg(self.path("ca.pem"))
                .arg("--tls-cert-file")
                .arg(self.path("server.pem"))
                .arg("--tls-key-file")
                .arg(self.path("server.key"))
                .args(["--user", "default", "off"])
                .args(["--user", USER, "on", &format!(">{PASSWORD}")])
                // As the guide says.
                .args(["~tutti:*", "+evalsha", "+script|load"])
                .args(["+get", "+set", "+time"]),
        };
        self.child = Some(command.spawn().expect("a Valkey or a Redis starts"));
        wait_until("the store of limits listens", || {
            TcpStream::connect(("127.0.0.1", self.port)).is_ok()
        });
    }

    /// Kills it, if it runs.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: i32) {
        if let Some(child) = &self.child {
            let pid = i32::try_from(child.id()).expect("a process number");
            let _ = tutti_sys::signal::send(pid, signal);
        }
    }

    /// `valkey` of a store of limits.
    pub fn options(&self) -> Value {
        match self.is_secure {
            false => json!({"url": format!("valkey://127.0.0.1:{}", self.port)}),
            true => json!({
                "url": format!("valkeys://127.0.0.1:{}/0", self.port),
                "user": USER,
                "password_file": self.password_file(),
                "tls": {
                    "ca": self.path("ca.pem"),
                    "certificate": self.path("client.pem"),
                    "key": self.path("client.key"),
                },
            }),
        }
    }

    /// The lines of an answer to its own client.
    pub fn ask(&self, arguments: &[&str]) -> Vec<String> {
        let run = Command::new(program("cli"))
            .args(["-p", &self.port.to_string(), "--raw"])
            .args(arguments)
            .output()
            .expect("its client runs");
        let text = String::from_utf8_lossy(&run.stdout);
        text.lines().map(str::to_owned).collect()
    }
}

/// `valkey-server`, which Debian has since trixie, or `redis-server`.
fn program(which: &str) -> PathBuf {
    let valkey = Path::new("/usr/bin").join(format!("valkey-{which}"));
    match valkey.exists() {
        true => valkey,
        false => Path::new("/usr/bin").join(format!("redis-{which}")),
    }
}
