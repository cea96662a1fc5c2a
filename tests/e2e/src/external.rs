//! Programs as applications of type `external`; those in Go also served by `net/http`.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, Once};

use serde_json::{Value, json};
use tutti_testkit::files::install;
use tutti_testkit::server::binaries;
use tutti_testkit::{ServerOptions, Site, client, free_port, wait_until};
use tutti_wire::Versions;

/// Sees that there is a `go` that the module can be built with.
pub fn need_go() {
    static CHECK: Once = Once::new();
    CHECK.call_once(|| {
        let version = Command::new("go").arg("version").output();
        let text = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        let minor = text.as_ref().ok().and_then(|text| {
            let (_, rest) = text.split_once("go1.")?;
            let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
            digits.parse::<u32>().ok()
        });
        assert!(
            minor.is_some_and(|minor| minor >= 23),
            "go 1.23 or later is needed in PATH (https://go.dev/dl); `go version` said {text:?}"
        );
    });
}

/// A folder of the source tree.
pub fn source(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(folder)
}

/// Builds the Go program in `folder` of the source tree as `to`. It is kept beside cargo's: `go` links it again only when it has
/// changed.
pub fn build(folder: &str, to: &Path) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().expect("no holder panics");
    let programs = binaries().join("go-programs");
    fs::create_dir_all(&programs).expect("a folder");
    let kept = programs.join(folder.replace('/', "-"));
    go_build(&source(folder), &kept);
    install(&kept, to);
}

/// Builds it with the SDK of other versions of the wire, which differs from ours in nothing else.
pub fn build_for(versions: Versions, folder: &str, to: &Path) {
    let place = tempfile::tempdir().expect("a folder");
    let file = source("sdk/go/segment.go");
    let file = file.canonicalize().expect("the SDK");
    let mut text = fs::read_to_string(&file).expect("the SDK");
    let own = Versions::OWN;
    for (name, ours, theirs) in [
        ("wireVersion", own.newest, versions.newest),
        ("wireOldest", own.oldest, versions.oldest),
    ] {
        let declared = format!("\t{name} = {ours}\n");
        assert_eq!(text.matches(&declared).count(), 1, "{declared}");
        text = text.replace(&declared, &format!("\t{name} = {theirs}\n"));
    }
    let other = place.path().join("segment.go");
    fs::write(&other, text).expect("a file");
    let overlay = place.path().join("overlay.json");
    let replaced = json!({"Replace": {file.to_str().expect("a path"): other}});
    fs::write(&overlay, replaced.to_string()).expect("a file");
    run_go_build(&source(folder), to, &[Path::new("-overlay"), &overlay]);
}

/// `go build` of a program in any folder.
pub fn go_build(folder: &Path, to: &Path) {
    run_go_build(folder, to, &[]);
}

fn run_go_build(folder: &Path, to: &Path, options: &[&Path]) {
    need_go();
    let output = Command::new("go")
        .arg("build")
        .args(options)
        .arg("-o")
        .arg(to)
        .arg(".")
        .current_dir(folder)
        .output()
        .expect("go runs");
    assert!(
        output.status.success(),
        "go build: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

crate::site! {
    /// Tutti with a program as its application `app`.
    ProgramSite
}

impl ProgramSite {
    /// Starts it with the program of `tests/conformance/go`; `extra` replaces members of the application.
    pub fn start(extra: &Value) -> Self {
        let site = Self::prepare("tests/conformance/go");
        site.configure(extra);
        site
    }

    /// A server with the program of a folder, not yet configured.
    pub fn prepare(folder: &str) -> Self {
        let site = Self::bare();
        build(folder, &site.program());
        site
    }

    /// A server with a program that is there already, not yet configured.
    pub fn with(program: &Path) -> Self {
        let site = Self::bare();
        install(program, &site.program());
        site
    }

    fn bare() -> Self {
        let mut site = Site::new("app", &ServerOptions::default());
        let program = site.server.folder().join("app");
        site.application = json!({"type": "external", "executable": program, "processes": 2});
        Self(site)
    }

    /// Where the program is.
    pub fn program(&self) -> PathBuf {
        self.server.folder().join("app")
    }

    /// The processes that run the program.
    pub fn workers(&self) -> Vec<i32> {
        let program = self.program();
        let all = self.server.processes().into_iter();
        all.filter(|process| {
            fs::read_link(format!("/proc/{}/exe", process.pid)).is_ok_and(|exe| exe == program)
        })
        .map(|process| process.pid)
        .collect()
    }

    /// Waits until `count` workers are there.
    pub fn wait_for_workers(&self, count: usize) {
        wait_until(&format!("{count} workers"), || {
            self.workers().len() == count
        });
    }
}

/// A program served by `net/http`. Dropping it ends it.
pub struct Plain {
    child: Child,
    port: u16,
}

impl Plain {
    /// Starts a program that listens on the address it is given.
    pub fn start(program: &Path) -> Self {
        let port = free_port();
        let child = Command::new(program)
            .arg(format!("127.0.0.1:{port}"))
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let plain = Self { child, port };
        wait_until("net/http to answer", || {
            client::get(plain.address(), "/").is_ok()
        });
        plain
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
