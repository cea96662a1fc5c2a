//! `tutti run` in folders of applications: each is really started, and none of its sources is handed out.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;
use tutti_testkit::server::binaries;
use tutti_testkit::{client, free_port, processes, wait_until};

/// A folder that the applications' user may enter, with these files.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::Builder::new()
        .prefix("tutti-run-")
        .tempdir()
        .unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

/// The language hosts that were built for this test.
fn modules() -> TempDir {
    let modules = folder(&[]);
    for host in [
        "tutti-php",
        "tutti-python",
        "tutti-perl",
        "tutti-ruby",
        "tutti-external",
        "tutti-node",
        "tutti-wasm",
    ] {
        symlink(binaries().join(host), modules.path().join(host)).unwrap();
    }
    modules
}

/// Ends it as Ctrl-C does, also when the test fails.
struct Running(Child);

impl Running {
    fn start(modules: &Path, folder: &Path, port: u16) -> Running {
        let child = Command::new(binaries().join("tutti"))
            .args(["run", "--quiet", "--processes", "2", "--listen"])
            .arg(port.to_string())
            .arg("--modulesdir")
            .arg(modules)
            .arg(folder)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Running(child)
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = tutti_sys::signal::send(self.pid(), libc::SIGINT);
        let _ = self.0.wait();
    }
}

/// Runs what is in the folder: `/` is answered with `expected`, the sources are not, and nothing stays behind.
fn runs(files: &[(&str, &str)], expected: &str) {
    let folder = folder(files);
    runs_there(folder.path(), files, expected);
}

/// The same of a folder or a file that is there, with these sources.
fn runs_there(what: &Path, files: &[(&str, &str)], expected: &str) {
    let modules = modules();
    let port = free_port();
    let address = ([127, 0, 0, 1], port).into();
    let mut running = Running::start(modules.path(), what, port);
    wait_until("it answers", || {
        assert!(running.0.try_wait().unwrap().is_none(), "it has ended");
        client::get(address, "/").is_ok_and(|reply| reply.text() == expected)
    });
    for (name, text) in files {
        let reply = client::get(address, &format!("/{name}")).unwrap();
        assert_ne!(reply.text(), *text, "{name}");
    }
    let all = processes::tree(running.pid());
    assert!(all.len() >= 5, "{all:?}");
    tutti_sys::signal::send(running.pid(), libc::SIGINT).unwrap();
    assert!(running.0.wait().unwrap().success());
    wait_until("nothing stays behind", || {
        all.iter()
            .all(|process| !processes::is_running(process.pid))
    });
}

/// Issue 10, 1.11: `tutti run` served the sources of such folders as files.
#[test]
fn a_python_application_is_run() {
    let text = "def application(environ, start_response):\n    \
                start_response('200 OK', [('Content-Type', 'text/plain')])\n    return [b'by WSGI']\n";
    runs(&[("wsgi.py", text), ("requirements.txt", "")], "by WSGI");
}

#[test]
fn a_perl_application_is_run() {
    let text = "sub { [200, ['Content-Type' => 'text/plain'], ['by PSGI']] };\n";
    runs(&[("app.psgi", text)], "by PSGI");
}

#[test]
fn a_ruby_application_is_run() {
    let text = "run ->(_) { [200, {'content-type' => 'text/plain'}, ['by Rack']] }\n";
    runs(&[("config.ru", text)], "by Rack");
}

/// By its own name, and in a folder with its sources.
#[test]
fn a_webassembly_component_is_run() {
    let files = [("Cargo.toml", "[package]\n")];
    let folder = folder(&files);
    let component = folder.path().join("app.wasm");
    fs::copy(tutti_e2e::wasm::rust(), &component).unwrap();
    fs::set_permissions(&component, Permissions::from_mode(0o644)).unwrap();
    for what in [folder.path(), &component] {
        runs_there(what, &files, "Hello from a component\n");
    }
}

#[test]
fn a_node_application_is_run_wherever_it_listens() {
    let package = r#"{"scripts": {"start": "node server.js"}}"#;
    let server = "require('http').createServer((request, response) => response.end('by Node'))\
                  .listen(3000)\n";
    runs(
        &[("package.json", package), ("server.js", server)],
        "by Node",
    );
}

#[test]
fn a_program_that_speaks_http_is_run() {
    let package = r#"{"scripts": {"start": "node --no-warnings server.js"}}"#;
    let server = "require('http').createServer((request, response) => response.end('by Node'))\
                  .listen(process.env.PORT, process.env.HOST)\n";
    runs(
        &[("package.json", package), ("server.js", server)],
        "by Node",
    );
}

#[test]
fn a_php_site_is_run() {
    runs(&[("index.php", "<?php echo 'by PHP';")], "by PHP");
}
