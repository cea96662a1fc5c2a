//! Tutti with WebAssembly components and modules: those of `tests/conformance/wasm`, which the tests build.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use serde_json::{Value, json};
use tutti_testkit::server::binaries;
use tutti_testkit::{ServerOptions, Site};

use crate::external::source;
use crate::node::packages_of;
use crate::python::{environment, run};

/// The folder of the components' sources.
const SOURCES: &str = "tests/conformance/wasm";

/// The target of Rust that components are built for.
const TARGET: &str = "wasm32-wasip2";

/// Removes the settings of this repository's own build from a command that builds a component.
pub fn without_our_settings(command: &mut Command) -> &mut Command {
    command
        .env_remove("CARGO_TARGET_DIR")
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_BUILD_RUSTFLAGS")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
}

/// The component in Rust.
pub fn rust() -> PathBuf {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().expect("no holder panics");
    let built = binaries().join("components/rust");
    // In the sources' folder: the settings of this repository's folder are not theirs either.
    let mut command = Command::new("cargo");
    command
        .args([
            "build",
            "--quiet",
            "--locked",
            "--release",
            "--target",
            TARGET,
        ])
        .current_dir(source(SOURCES).join("rust"));
    let output = without_our_settings(&mut command)
        .env("CARGO_TARGET_DIR", &built)
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "is the target there? `rustup target add {TARGET}`\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    built.join(TARGET).join("release/conformance.wasm")
}

/// The component in Python; made anew when its source changes.
pub fn python() -> PathBuf {
    let folder = source(SOURCES).join("python");
    let requirements =
        fs::read_to_string(folder.join("requirements.txt")).expect("the requirements");
    let tools = environment("componentize-py", &requirements);
    let text = fs::read_to_string(folder.join("app.py")).expect("the source");
    let built = binaries().join("components/python");
    let (component, mark) = (built.join("app.wasm"), built.join("app.py"));
    if fs::read_to_string(&mark).is_ok_and(|made| made == text) {
        return component;
    }
    fs::create_dir_all(&built).expect("a folder");
    run(Command::new(tools.join("bin/componentize-py"))
        .arg("--wit-path")
        .arg(interfaces())
        .args([
            "--world",
            "wasi:http/proxy@0.2.12",
            "componentize",
            "--python-path",
        ])
        .arg(&folder)
        .args(["app", "--output"])
        .arg(&component));
    fs::write(mark, text).expect("a mark");
    component
}

/// The component in JavaScript; made anew when its source changes.
pub fn javascript() -> PathBuf {
    let folder = source(SOURCES).join("javascript");
    let packages = packages_of(&folder, "wasm");
    let installed = packages.parent().expect("a folder").to_path_buf();
    let text = fs::read_to_string(folder.join("app.js")).expect("the source");
    let (component, mark) = (installed.join("app.wasm"), installed.join("made-of"));
    if fs::read_to_string(&mark).is_ok_and(|made| made == text) {
        return component;
    }
    for name in ["app.js", "build.js"] {
        fs::copy(folder.join(name), installed.join(name)).expect("a copy");
    }
    run(Command::new("node")
        .arg(installed.join("build.js"))
        .arg(interfaces())
        .arg(&component));
    fs::write(mark, text).expect("a mark");
    component
}

/// The module in C, of Unit's SDK: with a function that no server has, if `STRANGER` is defined.
pub fn module(definitions: &[&str]) -> PathBuf {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().expect("no holder panics");
    let folder = source(SOURCES).join("module");
    let sdk = package(&folder, "unit-wasm-sys").join("libunit-wasm");
    let built = binaries().join("components/module");
    fs::create_dir_all(&built).expect("a folder");
    let module = built.join(format!("app{}.wasm", definitions.concat()));
    let output = Command::new("clang")
        .args(["--target=wasm32-wasi", "--sysroot=/usr", "-O1", "-g1"])
        .args(["-Wall", "-Wextra", "-mexec-model=reactor"])
        .args(definitions.iter().map(|name| format!("-D{name}")))
        .arg("-I")
        .arg(sdk.join("include"))
        .arg("-o")
        .arg(&module)
        .arg(folder.join("app.c"))
        .arg(sdk.join("libunit-wasm.a"))
        .output()
        .expect("clang is there: `packaging/install-deps test` installs it");
    assert!(
        output.status.success(),
        "are clang, lld, wasi-libc and clang's own library for wasm32 there? `packaging/install-deps test` installs them\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    module
}

/// The texts of the interfaces of WASI, which the crate of the Rust component has with it.
fn interfaces() -> PathBuf {
    package(&source(SOURCES).join("rust"), "wasip2").join("wit")
}

/// The folder of a crate that the one in `folder` depends on.
fn package(folder: &Path, name: &str) -> PathBuf {
    let output = Command::new("cargo")
        .args(["metadata", "--locked", "--format-version", "1"])
        .current_dir(folder)
        .output()
        .expect("cargo runs");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("the crate's metadata");
    let packages = metadata["packages"].as_array().expect("packages");
    let package = packages.iter().find(|package| package["name"] == name);
    let manifest = package.and_then(|package| package["manifest_path"].as_str());
    let manifest = Path::new(manifest.expect("the place of the crate"));
    manifest.parent().expect("a folder").to_path_buf()
}

crate::site! {
    /// A server with the application `wasm`, a component or a module.
    WasmSite
}

impl WasmSite {
    /// Starts it with this component; `extra` replaces members of the application.
    pub fn start(component: &Path, extra: &Value) -> Self {
        let site = Self::bare(component);
        site.configure(extra);
        site
    }

    /// The same for a component that takes long to compile: an interpreter, on a busy machine, by a compiler that is not optimised. So
    /// nothing is waited for with a limit.
    pub fn start_slowly(component: &Path) -> Self {
        let site = Self::bare(component);
        let extra = json!({"limits": {"start_timeout": 3600}});
        let body = site.configuration(&extra).to_string();
        let mut control = UnixStream::connect(site.server.control()).expect("the control socket");
        write!(
            control,
            "PUT /config HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .expect("the request goes out");
        let mut reply = String::new();
        control.read_to_string(&mut reply).expect("a reply");
        assert!(reply.starts_with("HTTP/1.1 200 "), "{reply}");
        site
    }

    /// The same, not configured yet.
    pub fn bare(component: &Path) -> Self {
        let mut site = Site::new("wasm", &ServerOptions::default());
        let bytes = fs::read(component).expect("the component");
        let component = site.server.write("app.wasm", bytes);
        site.application = json!({"type": "wasm-wasi-component", "component": component});
        Self(site)
    }

    /// Starts it with the module in C; `extra` replaces members of the application.
    pub fn start_module(extra: &Value) -> Self {
        let site = Self::bare_module(&module(&[]));
        site.configure(extra);
        site
    }

    /// The same with a module, not configured yet.
    pub fn bare_module(module: &Path) -> Self {
        let mut site = Self::bare(module);
        site.application = json!({
            "type": "wasm", "module": site.application["component"],
            "request_handler": "handle", "malloc_handler": "luw_malloc_handler", "free_handler": "luw_free_handler",
            "module_init_handler": "begin_module", "module_end_handler": "end_module",
            "request_init_handler": "begin_request", "request_end_handler": "end_request",
            "response_end_handler": "end_response"
        });
        site
    }
}
