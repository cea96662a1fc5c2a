//! Tutti with one Java application: that of `tests/conformance/java`, compiled for `javax.servlet` or `jakarta.servlet`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use serde_json::{Value, json};
use tutti_testkit::files::copy;
use tutti_testkit::server::binaries;
use tutti_testkit::{Reply, Site};

use crate::python::run;

/// The folder of the sources.
fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../conformance/java")
        .join(name)
}

/// The jars of the host and the compiled applications, beside cargo's programs.
struct Built {
    jars: PathBuf,
    applications: PathBuf,
}

/// Built once in each process of tests; `packaging/build-java` keeps those of several apart, and does nothing the second time.
static BUILT: LazyLock<Built> = LazyLock::new(|| {
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    let work = binaries().join("java-build");
    run(Command::new(packaging.join("build-java"))
        .arg("--archives")
        .env("GENERATIONS", "ee8 ee10")
        .env("HOMES", java_home())
        .arg(binaries())
        .arg(&work));
    let jars = binaries().join("java");
    let applications = binaries().join(format!("java-tests-{}", std::process::id()));
    compile(&jars, &applications);
    Built { jars, applications }
});

/// The Java that the host takes when none is named.
fn java_home() -> PathBuf {
    let output = Command::new("sh")
        .args(["-c", "readlink -f \"$(command -v java)\""])
        .output()
        .expect("a shell");
    let program = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    let home = program.parent().and_then(Path::parent);
    home.expect("bin/java of a Java").to_path_buf()
}

/// The versions and folders of the Javas of this machine that run applications, as the host finds them.
pub fn homes() -> Vec<(u32, PathBuf)> {
    let output = Command::new(binaries().join("tutti-java"))
        .arg("--homes")
        .output()
        .expect("the host");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let home = |line: &str| {
        let (version, folder) = line.split_once(' ')?;
        let major = version.split(['.', '-', '+']).next()?;
        Some((major.parse().ok()?, PathBuf::from(folder)))
    };
    text.lines().filter_map(home).collect()
}

/// Compiles the application for both.
fn compile(jars: &Path, applications: &Path) {
    for (name, generation) in [("javax", "ee8"), ("jakarta", "ee10")] {
        let sources = applications.join(format!("{name}-sources"));
        fs::create_dir_all(&sources).expect("a folder");
        let mut files = Vec::new();
        for file in [
            "Questions.java",
            "Life.java",
            "Talk.java",
            "Room.java",
            "Marked.java",
            "Named.java",
        ] {
            let text = fs::read_to_string(source(file)).expect("a source");
            let text = text
                .replace("javax.servlet", &format!("{name}.servlet"))
                .replace("javax.websocket", &format!("{name}.websocket"));
            fs::write(sources.join(file), text).expect("a copy");
            files.push(sources.join(file));
        }
        // Jetty's own interface is another one in each.
        files.push(source(name).join("JettyTalk.java"));
        let classes = applications.join(name).join("WEB-INF/classes");
        compile_to(
            &classes,
            &format!(
                "{}/*:{}/*",
                jars.join(generation).display(),
                jars.join("core").display()
            ),
            &files,
        );
        copy(&source("webapp"), &applications.join(name));
    }
    let library = applications.join("library");
    compile_to(&library, "", &[source("Library.java")]);
}

/// Compiles these files into a folder.
pub fn compile_to(classes: &Path, class_path: &str, files: &[PathBuf]) {
    fs::create_dir_all(classes).expect("a folder");
    run(Command::new("javac")
        .args(["--release", "17", "-nowarn", "-cp", class_path, "-d"])
        .arg(classes)
        .args(files));
}

/// Packs a folder into an archive.
pub fn pack(folder: &Path, archive: &Path) {
    run(Command::new("jar")
        .args(["--create", "--no-manifest", "--file"])
        .arg(archive)
        .arg("-C")
        .arg(folder)
        .arg("."));
}

/// The folder of the compiled application for `javax` or `jakarta`, and `library` beside them.
pub fn application(name: &str) -> PathBuf {
    BUILT.applications.join(name)
}

/// The class path of what compiles against the servlet API of a generation: `ee8`, `ee10`.
pub fn class_path(generation: &str) -> String {
    format!("{}/*", BUILT.jars.join(generation).display())
}

crate::site! {
    /// A server with the application `java`.
    JavaSite
}

impl JavaSite {
    /// Starts it on the application of this name; `extra` replaces members.
    pub fn start(name: &str, extra: &Value) -> Self {
        let site = Self::bare(name);
        site.configure(extra);
        site
    }

    /// The same, not yet configured. The second compiler is left out: it is for who runs for hours, and takes half of what a test takes.
    pub fn bare(name: &str) -> Self {
        // The server looks for the jars when it starts.
        let application = application(name);
        let mut site = Site::on("java", &application);
        site.application = json!({
            "type": "java", "webapp": site.root(), "environment": {"WORK": site.work()}, "options": ["-XX:TieredStopAtLevel=1"]
        });
        Self(site)
    }

    /// `POST target` with this body.
    pub fn post(&self, target: &str, body: &[u8]) -> Reply {
        self.send("POST", target, "Content-Type: text/plain\r\n", body)
    }
}
