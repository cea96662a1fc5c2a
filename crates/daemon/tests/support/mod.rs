//! Shared by the tests of the daemon: the sample host as a language, and starts that may fail.

#![allow(dead_code, reason = "each test program uses its part")]

pub(crate) mod terminal;

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use tutti_testkit::{ServerOptions, client, files, server};

/// The program under test.
pub(crate) const TUTTI: &str = env!("CARGO_BIN_EXE_tutti");

/// Creates a folder of modules in which the sample host claims to be PHP; the shell runs `before` first.
pub(crate) fn modules(folder: &Path, before: &str) -> PathBuf {
    let modules = folder.join("sample-modules");
    std::fs::create_dir_all(&modules).unwrap();
    let host = modules.join("tutti-php-sample");
    let describe = r#"[ "$1" = --describe ] && echo '{"type":"php","version":"8.2.0"}' && exit 0"#;
    let sample = server::built("tutti-sample");
    let text = format!(
        "#!/bin/sh\n{describe}\n{before}\nexec {} \"$@\"\n",
        sample.display()
    );
    files::script(&host, &text);
    modules
}

/// Returns options of a server whose PHP is the sample host, and the folder they refer to.
pub(crate) fn with_sample(before: &str) -> (ServerOptions, TempDir) {
    let folder = files::public_folder();
    let modules = modules(folder.path(), before);
    let flags = vec!["--modulesdir".to_owned(), modules.display().to_string()];
    (
        ServerOptions {
            flags,
            ..ServerOptions::default()
        },
        folder,
    )
}

/// Returns a configuration in which all requests of a listener at `port` go to an application of the sample host.
pub(crate) fn sample_configuration(port: u16) -> Value {
    json!({
        "listeners": {format!("127.0.0.1:{port}"): {"pass": "applications/sample"}},
        "applications": {"sample": {"type": "php", "root": "/tmp", "processes": 2}},
    })
}

/// Returns a configuration that responds 200 without any application.
pub(crate) fn plain_configuration(port: u16) -> Value {
    json!({
        "listeners": {format!("127.0.0.1:{port}"): {"pass": "routes"}},
        "routes": [{"action": {"return": 200}}],
    })
}

/// A start that the test observes from outside: it may fail, or go to the background.
pub(crate) struct Start {
    pub(crate) folder: TempDir,
    pub(crate) command: Command,
}

impl Start {
    /// Starts with all paths in a separate folder, and no other flags.
    pub(crate) fn new(program: impl AsRef<Path>) -> Start {
        Start::in_folder(program.as_ref(), files::public_folder(), &[])
    }

    /// Starts as another, unprivileged user.
    pub(crate) fn as_user(user: &str) -> Start {
        let words = [
            "setpriv",
            "--reuid",
            user,
            "--regid",
            "nogroup",
            "--clear-groups",
            "--inh-caps=-all",
            "--",
        ];
        Start::in_folder(Path::new(TUTTI), files::public_folder(), &words)
    }

    fn in_folder(program: &Path, folder: TempDir, wrapper: &[&str]) -> Start {
        let mut command = match wrapper.split_first() {
            Some((first, rest)) => {
                let mut command = Command::new(first);
                command.args(rest).arg(program);
                command
            }
            None => Command::new(program),
        };
        command.arg("--control").arg(format!(
            "unix:{}",
            folder.path().join("control.sock").display()
        ));
        for (flag, name) in [
            ("--pid", "pid"),
            ("--log", "log"),
            ("--state", "state"),
            ("--tmp", "tmp"),
        ] {
            command.arg(flag).arg(folder.path().join(name));
        }
        command.arg("--modulesdir").arg(modules(folder.path(), ""));
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0);
        Start { folder, command }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    pub(crate) fn is_answering(&self) -> bool {
        client::control(&self.path("control.sock"), "GET", "/status", b"").is_ok()
    }

    /// Returns the process id in the pid file.
    pub(crate) fn pid(&self) -> i32 {
        std::fs::read_to_string(self.path("pid"))
            .unwrap()
            .trim()
            .parse()
            .unwrap()
    }

    /// Runs it to its end; returns its exit status and standard error.
    pub(crate) fn finish(&mut self) -> (ExitStatus, String) {
        let mut child = self.command.spawn().unwrap();
        finish(&mut child)
    }
}

/// Waits for the end of a process; returns its standard error.
pub(crate) fn finish(child: &mut Child) -> (ExitStatus, String) {
    let mut text = String::new();
    if let Some(mut pipe) = child.stderr.take() {
        pipe.read_to_string(&mut text).unwrap();
    }
    (child.wait().unwrap(), text)
}
