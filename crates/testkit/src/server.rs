//! A server of its own for a test.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::client::{self, Reply};
use crate::processes::{self, Process};
use crate::{PATIENCE, free_port, wait_until};

/// Options of a test's server.
#[derive(Debug, Default, Clone)]
pub struct ServerOptions {
    /// Further flags.
    pub flags: Vec<String>,
    /// State folder to use instead of a new one; it must outlive the server.
    pub state: Option<PathBuf>,
    /// Folder of temporary files to use instead of a new one.
    pub temporary: Option<PathBuf>,
    /// The server's program, instead of the one that was built.
    pub program: Option<PathBuf>,
    /// Words before the program: `prlimit --nofile=64` and the like.
    pub wrapper: Vec<String>,
}

/// A running server on temporary folders. Dropping it ends it.
#[derive(Debug)]
pub struct Server {
    folder: tempfile::TempDir,
    child: Child,
    control: PathBuf,
    port: u16,
}

/// The folder with the programs that cargo built for this test, `target/PROFILE`, unless `TUTTI_BIN_DIR` says another.
pub fn binaries() -> PathBuf {
    if let Some(folder) = std::env::var_os("TUTTI_BIN_DIR") {
        return folder.into();
    }
    let test = std::env::current_exe().expect("the path of this test");
    let folder = test
        .parent()
        .and_then(Path::parent)
        .expect("target/PROFILE/deps/TEST");
    folder.to_path_buf()
}

/// A program that cargo has built: `tutti`, `tutti-sample`, a language host.
pub fn built(name: &str) -> PathBuf {
    let path = binaries().join(name);
    assert!(
        path.exists(),
        "{} is not built: run `cargo build --workspace --bins` first",
        path.display()
    );
    path
}

/// Fills `folder` with links to the language hosts that were built; `TUTTI_PYTHON_HOST` names another for Python, and so on.
fn link_modules(folder: &Path) {
    fs::create_dir_all(folder).expect("a folder for modules");
    for built in [
        "tutti-php",
        "tutti-python",
        "tutti-perl",
        "tutti-ruby",
        "tutti-sample",
        "tutti-external",
        "tutti-cgi",
        "tutti-node",
        "tutti-java",
        // Its jars.
        "java",
        "tutti-wasm",
    ] {
        let variable = format!("{}_HOST", built.replace('-', "_").to_uppercase());
        let program = match std::env::var_os(variable) {
            Some(host) => PathBuf::from(host),
            None => binaries().join(built),
        };
        if program.exists() {
            std::os::unix::fs::symlink(&program, folder.join(built)).expect("a link to a module");
        }
    }
}

impl Server {
    /// Starts a server in the foreground and waits until its control socket answers.
    pub fn start(options: &ServerOptions) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("tutti-test-")
            .tempdir()
            .expect("a temporary folder");
        // Started by root, applications run as another user and must get in.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))
            .expect("mode of the folder");
        link_modules(&folder.path().join("modules"));
        let control = folder.path().join("control.sock");
        let child = Self::spawn(options, folder.path(), &control);
        let mut server = Self {
            folder,
            child,
            control,
            port: free_port(),
        };
        server.wait_until_up();
        server
    }

    fn spawn(options: &ServerOptions, folder: &Path, control: &Path) -> Child {
        let program = options.program.clone();
        let program = program.unwrap_or_else(|| built("tutti"));
        let mut words = options.wrapper.iter();
        let mut command = match words.next() {
            Some(wrapper) => {
                let mut command = Command::new(wrapper);
                command.args(words).arg(program);
                command
            }
            None => Command::new(program),
        };
        let path = |given: &Option<PathBuf>, name: &str| {
            let path = given.clone().unwrap_or_else(|| folder.join(name));
            fs::create_dir_all(&path).expect("a folder");
            path
        };
        command
            .arg("--no-daemon")
            .arg("--control")
            .arg(format!("unix:{}", control.display()))
            .arg("--pid")
            .arg(folder.join("tutti.pid"))
            .arg("--log")
            .arg(folder.join("tutti.log"))
            .arg("--modulesdir")
            .arg(folder.join("modules"))
            .arg("--statedir")
            .arg(path(&options.state, "state"))
            .arg("--tmpdir")
            .arg(path(&options.temporary, "tmp"))
            .args(&options.flags)
            // They belong to the test run: the server would pass them on to its applications.
            .env_remove("TUTTI_SKIPPED")
            .env_remove("TUTTI_TIMES")
            .env_remove("TUTTI_TESTS")
            .stdin(Stdio::null())
            .spawn()
            .expect("tutti can be started")
    }

    fn wait_until_up(&mut self) {
        let end = Instant::now() + PATIENCE;
        while client::control(&self.control, "GET", "/status", b"").is_err() {
            if let Ok(Some(status)) = self.child.try_wait() {
                panic!(
                    "the server ended at start, {status}; its log:\n{}",
                    self.log()
                );
            }
            assert!(
                Instant::now() < end,
                "the server does not answer; its log:\n{}",
                self.log()
            );
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }

    /// Ends this server's main process if it still runs, waits for the end of what it had started, and starts another on the same
    /// folders.
    pub fn start_again(&mut self, options: &ServerOptions) {
        let before = self.processes();
        let _ = self.child.kill();
        let _ = self.child.wait();
        // They see the end of main a moment later, and hold its sockets until then.
        wait_until("the end of its processes", || {
            before.iter().all(|process| {
                !process.title.starts_with("tutti: ") || !processes::is_running(process.pid)
            })
        });
        self.child = Self::spawn(options, self.folder.path(), &self.control);
        self.wait_until_up();
    }

    /// The temporary folder, readable by all: a place for sites.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file below the folder, with the folders on the way, readable by all.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.folder().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(&path, bytes).expect("a file");
        path
    }

    /// The port that [`Server::address`] names, for the test's listener.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where the test's listener is to be.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// The control socket.
    pub fn control(&self) -> &Path {
        &self.control
    }

    /// The log so far.
    pub fn log(&self) -> String {
        let bytes = fs::read(self.folder().join("tutti.log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Waits until the log has `text`.
    #[track_caller]
    pub fn wait_for_log(&self, text: &str) {
        let end = Instant::now() + PATIENCE;
        while !self.log().contains(text) {
            assert!(
                Instant::now() < end,
                "`{text}` is not in the log:\n{}",
                self.log()
            );
            std::thread::park_timeout(Duration::from_millis(2));
        }
    }

    /// One control request.
    pub fn call(&self, method: &str, path: &str, body: &Value) -> Reply {
        let body = if body.is_null() {
            Vec::new()
        } else {
            body.to_string().into_bytes()
        };
        client::control(&self.control, method, path, &body)
            .unwrap_or_else(|error| panic!("{method} {path}: {error}; log:\n{}", self.log()))
    }

    /// Runs a command of `tutti` on this server.
    pub fn command(&self, arguments: &[&str]) -> Output {
        let control = format!("unix:{}", self.control.display());
        let mut command = Command::new(built("tutti"));
        command.args(arguments).args(["--control", &control]);
        command.output().expect("tutti runs")
    }

    /// A change that has to succeed.
    pub fn put(&self, path: &str, value: &Value) {
        let reply = self.call("PUT", path, value);
        assert_eq!(
            reply.status,
            200,
            "PUT {path}: {}; log:\n{}",
            reply.text(),
            self.log()
        );
    }

    /// Restarts an application, which has to succeed.
    pub fn restart(&self, application: &str) {
        let path = format!("/control/applications/{application}/restart");
        let reply = self.call("POST", &path, &Value::Null);
        assert_eq!(reply.status, 200, "{}; log:\n{}", reply.text(), self.log());
    }

    /// `/status`, or a part of it.
    pub fn status(&self, path: &str) -> Value {
        self.call("GET", &format!("/status{path}"), &Value::Null)
            .json()
    }

    /// `GET target` from the test's listener.
    pub fn get(&self, target: &str) -> Reply {
        client::get(self.address(), target)
            .unwrap_or_else(|error| panic!("GET {target}: {error}; log:\n{}", self.log()))
    }

    /// Number of the main process.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a process number")
    }

    /// All processes of the server.
    pub fn processes(&self) -> Vec<Process> {
        processes::tree(self.pid())
    }

    /// The numbers of its processes with exactly this title.
    pub fn pids(&self, title: &str) -> Vec<i32> {
        let all = self.processes().into_iter();
        all.filter(|process| process.title == title)
            .map(|process| process.pid)
            .collect()
    }

    /// The router.
    pub fn router(&self) -> i32 {
        let mut found = Vec::new();
        wait_until("a router runs", || {
            found = self.pids("tutti: router");
            found.len() == 1
        });
        found[0]
    }

    /// Kills the router and waits until it has gone; its number. Another one comes by itself.
    pub fn kill_router(&self) -> i32 {
        let router = self.router();
        let _ = tutti_sys::signal::send(router, libc::SIGKILL);
        wait_until("the killed router is gone", || {
            !processes::is_running(router)
        });
        router
    }

    /// The workers of an application.
    pub fn workers(&self, application: &str) -> Vec<i32> {
        self.pids(&format!("tutti: \"{application}\" application"))
    }

    /// Waits until an application has this many workers; their numbers.
    pub fn wait_for_workers(&self, application: &str, count: usize) -> Vec<i32> {
        let mut found = Vec::new();
        wait_until(&format!("{count} workers of {application}"), || {
            found = self.workers(application);
            found.len() == count
        });
        found
    }

    /// The prototypes of an application: one, or two while one replaces the other.
    pub fn prototypes(&self, application: &str) -> Vec<i32> {
        let mut found = self.pids(&format!("tutti: \"{application}\" prototype"));
        // A worker that has just been forked has its prototype's title for a moment.
        let forked: Vec<i32> = found
            .iter()
            .flat_map(|&pid| processes::children(pid))
            .collect();
        found.retain(|pid| !forked.contains(pid));
        found
    }

    /// Sends a signal to the main process.
    pub fn signal(&self, signal: i32) {
        let _ = tutti_sys::signal::send(self.pid(), signal);
    }

    /// Kills the main process, and waits until the system has ended all that it had with it.
    pub fn kill(&self) {
        // Those that have lost their parent are found below it no more.
        let before = self.processes();
        self.signal(libc::SIGKILL);
        wait_until("all processes are gone", || {
            !before
                .iter()
                .any(|process| processes::is_running(process.pid))
        });
    }

    /// Has the server replaced by the program that is at its path now, which has to succeed.
    pub fn upgrade(&self) {
        let reply = self.call("POST", "/control/upgrade", &Value::Null);
        assert_eq!(
            reply.status,
            200,
            "upgrade: {}; log:\n{}",
            reply.text(),
            self.log()
        );
    }

    /// Stops the server by this signal, and waits for its end, which has to be a good one.
    pub fn stop(&mut self, signal: i32) {
        self.signal(signal);
        let status = self.wait_for_end();
        assert!(status.success(), "{status}; log:\n{}", self.log());
    }

    /// Waits until the main process has ended, and every process it had with it.
    pub fn wait_for_end(&mut self) -> ExitStatus {
        let before = self.processes();
        let mut status = None;
        wait_until("the main process ends", || {
            status = self.child.try_wait().expect("waiting for a child");
            status.is_some()
        });
        wait_until("no process stays behind", || {
            before.iter().all(|process| {
                !processes::is_running(process.pid)
                    || processes::title(process.pid) != process.title
            })
        });
        status.expect("it has ended")
    }
}

/// Fails if a sanitizer of `make test-sanitizers` has found something in a host: its worker may have been replaced
/// without any test noticing.
fn check_sanitizers(log: &str) {
    let mut reports = log.lines().filter(|line| {
        ["Sanitizer: ", ": runtime error: "]
            .iter()
            .any(|mark| line.contains(mark))
    });
    if let Some(report) = reports.next() {
        panic!("{report}; log:\n{log}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let tail: Vec<_> = log.lines().rev().take(40).collect();
            eprintln!("--- the end of the server's log ---");
            for line in tail.iter().rev() {
                eprintln!("{line}");
            }
        }
        let processes = self.processes();
        self.signal(libc::SIGTERM);
        let end = Instant::now() + PATIENCE;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < end {
            std::thread::park_timeout(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        // A failing test must not leave its processes to the next one.
        for process in processes {
            if process.pid != self.pid() && processes::title(process.pid) == process.title {
                let _ = tutti_sys::signal::send(process.pid, libc::SIGKILL);
            }
        }
        if !std::thread::panicking() {
            check_sanitizers(&self.log());
        }
    }
}
