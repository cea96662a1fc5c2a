//! Tutti with Python applications: those of `tests/conformance/python`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tutti_testkit::server::binaries;
use tutti_testkit::{Site, client, is_root, wait_until};

/// Runs a command, which must succeed.
pub fn run(command: &mut Command) {
    let output = command.output().expect("it runs");
    assert!(
        output.status.success(),
        "{command:?}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A virtual environment with these requirements (a file of pip's), kept beside cargo's programs and made anew when they change. Tests
/// that ask for it at the same time wait for the first one.
pub fn environment(name: &str, requirements: &str) -> PathBuf {
    let environments = binaries().join("environments");
    let folder = environments.join(name);
    fs::create_dir_all(&environments).expect("a folder for environments");
    let lock = fs::File::create(environments.join(format!("{name}.lock"))).expect("a file to lock");
    lock.lock().expect("a lock");
    let mark = folder.join("requirements.txt");
    if fs::read_to_string(&mark).is_ok_and(|text| text == requirements) {
        return folder;
    }
    let _ = fs::remove_dir_all(&folder);
    run(Command::new("/usr/bin/python3")
        .args(["-m", "venv"])
        .arg(&folder));
    let list = folder.join("wanted.txt");
    fs::write(&list, requirements).expect("a list");
    run(Command::new(folder.join("bin/pip"))
        .args(["--disable-pip-version-check", "install", "--quiet", "-r"])
        .arg(&list));
    fs::write(mark, requirements).expect("a mark");
    folder
}

/// An [`environment`] whose folder has the source of `package` too, one of the requirements: as it was released it has the tests, and what
/// is installed has not.
pub fn environment_with_source(name: &str, requirements: &str, package: &str) -> PathBuf {
    let folder = environment(name, requirements);
    let source = folder.join("source");
    if source.exists() {
        return folder;
    }
    let wanted = requirements
        .lines()
        .find(|line| line.starts_with(&format!("{package}==")))
        .expect("the package is a requirement");
    run(Command::new(folder.join("bin/pip"))
        .args(["--disable-pip-version-check", "download", "--quiet"])
        .args(["--no-deps", "--no-binary", package, wanted, "--dest"])
        .arg(&folder));
    let archive = fs::read_dir(&folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .find(|path| path.extension().is_some_and(|end| end == "gz"))
        .expect("an archive");
    let unpacked = folder.join("unpacked");
    fs::create_dir_all(&unpacked).expect("a folder");
    run(Command::new("tar")
        .arg("xf")
        .arg(archive)
        .args(["--strip-components=1", "--no-same-owner", "-C"])
        .arg(&unpacked));
    fs::rename(unpacked, source).expect("the source");
    folder
}

crate::site! {
    /// A server with one Python application, `app`.
    PythonSite
}

impl PythonSite {
    /// Starts it; `extra` replaces members of the application, which is `application.py` otherwise.
    pub fn start(extra: &Value) -> Self {
        let site = Self::bare();
        site.configure(extra);
        site
    }

    /// Starts it without an application.
    pub fn bare() -> Self {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/python");
        let mut site = Site::on("app", &source);
        site.application = json!({"type": "python", "path": site.root(), "module": "application"});
        // Another Python than the system's may be one that only root can read.
        if std::env::var_os("TUTTI_PYTHON_HOST").is_some() && is_root() {
            site.application["user"] = json!("root");
            site.application["group"] = json!("root");
        }
        Self(site)
    }

    /// The configuration with other members of the application; of its targets the field `Target` names one.
    pub fn configuration(&self, extra: &Value) -> Value {
        let mut configuration = self.0.configuration(extra);
        if extra.get("targets").is_some_and(Value::is_object) {
            if let Some(members) = configuration["applications"]["app"].as_object_mut() {
                members.remove("module");
            }
            let listener = format!("127.0.0.1:{}", self.server.port());
            configuration["listeners"][listener]["pass"] = json!("applications/app/$header_target");
        }
        configuration
    }

    /// Puts the configuration with other members of the application.
    pub fn configure(&self, extra: &Value) {
        self.server.put("/config", &self.configuration(extra));
    }

    /// The reply to a configuration that cannot be applied.
    pub fn refused(&self, extra: &Value) -> Value {
        let configuration = self.configuration(extra);
        let reply = self.server.call("PUT", "/config", &configuration);
        assert_ne!(reply.status, 200, "{}", reply.text());
        reply.json()
    }

    /// Copies what [`environment_with_source`] has made to where users can read it that cannot look into the sources: the environment
    /// and the source.
    pub fn copied(&self, prepared: &Path) -> (PathBuf, PathBuf) {
        let home = self.server.folder().join("venv");
        run(Command::new("cp").arg("-a").arg(prepared).arg(&home));
        run(Command::new("chmod").args(["-R", "a+rX"]).arg(&home));
        let source = home.join("source");
        (home, source)
    }

    /// All bytes of the answer to `GET target`.
    pub fn raw(&self, target: &str) -> String {
        let request = format!("GET {target} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
        let bytes = client::raw(self.server.address(), request.as_bytes()).expect("an answer");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Creates a file that an application waits for.
    pub fn touch(&self, name: &str) {
        fs::write(self.work().join(name), "").expect("a file");
    }

    /// Waits until the application has written `name`.
    pub fn wait_for_file(&self, name: &str) -> String {
        let path = self.work().join(name);
        wait_until(name, || path.exists());
        fs::read_to_string(path).expect("a file")
    }
}
