//! Tutti with Node.js applications: those of `tests/conformance/node`, and packages from npm.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use serde_json::{Value, json};
use tutti_testkit::Site;
use tutti_testkit::server::binaries;

use crate::python::run;

/// A folder of the tests' sources.
fn source(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../conformance/node")
        .join(folder)
}

/// The packages that `package-lock.json` in a folder of `tests/conformance/node` names, installed beside cargo's programs, and anew when that file
/// changes.
pub fn packages(folder: &str) -> PathBuf {
    packages_of(&source(folder), folder)
}

/// The same for the file in `source`, installed under this name.
///
/// # Panics
/// When npm cannot install them.
pub fn packages_of(source: &Path, name: &str) -> PathBuf {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().expect("no holder panics");
    let installed = binaries().join("node-packages").join(name);
    let lock = fs::read_to_string(source.join("package-lock.json")).expect("a lock file");
    let mark = installed.join("installed");
    if !fs::read_to_string(&mark).is_ok_and(|text| text == lock) {
        let _ = fs::remove_dir_all(&installed);
        fs::create_dir_all(&installed).expect("a folder");
        for name in ["package.json", "package-lock.json"] {
            fs::copy(source.join(name), installed.join(name)).expect("a copy");
        }
        run(Command::new("npm")
            .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
            .args(["--loglevel", "error"])
            .current_dir(&installed));
        fs::write(mark, lock).expect("a mark");
    }
    installed.join("node_modules")
}

/// The first number of the version of Node.js that the applications run with.
pub fn version() -> u32 {
    let runtime = std::env::var_os("TUTTI_NODE_RUNTIME").unwrap_or_else(|| "node".into());
    let output = Command::new(runtime)
        .arg("--version")
        .output()
        .expect("node is installed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let number = text.trim_start_matches('v').split('.').next();
    number
        .and_then(|number| number.parse().ok())
        .expect("a version")
}

crate::site! {
    /// A server with one application of type `node`, `app`.
    NodeSite
}

impl NodeSite {
    /// Starts it; `extra` replaces members of the application, which is `app.js` otherwise.
    pub fn start(extra: &Value) -> Self {
        let site = Self::bare();
        site.configure(extra);
        site
    }

    /// Starts it without an application.
    pub fn bare() -> Self {
        Self::on("")
    }

    /// Starts it on the applications of a folder with packages, without an application.
    pub fn with_packages(folder: &str) -> Self {
        let installed = packages(folder);
        let site = Self::on(folder);
        std::os::unix::fs::symlink(installed, site.root().join("node_modules")).expect("a link");
        site
    }

    fn on(folder: &str) -> Self {
        let mut site = Site::on("app", &source(folder));
        let mut application =
            json!({"type": "node", "working_directory": site.root(), "script": "app.js"});
        // Another Node.js than the first in PATH.
        if let Some(runtime) = std::env::var_os("TUTTI_NODE_RUNTIME") {
            application["runtime"] = json!(runtime.to_string_lossy());
        }
        application["environment"] = json!({"WORK": site.work()});
        site.application = application;
        Self(site)
    }

    /// The numbers of the processes that run Node.js, children of the workers.
    pub fn programs(&self) -> Vec<i32> {
        let all = self.server.processes().into_iter();
        all.filter(|process| {
            let exe = fs::read_link(format!("/proc/{}/exe", process.pid));
            exe.is_ok_and(|exe| exe.file_name().is_some_and(|name| name == "node"))
        })
        .map(|process| process.pid)
        .collect()
    }
}
