//! Support of the tests: a C compiler.

#![allow(dead_code, reason = "each test program uses its part")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// The library that cargo has built for this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().join("libtutti_worker_c.a")
}

/// Compiles the first sample by the command that the guide has, with the places of this build.
pub(crate) fn compile_as_in_guide() -> (PathBuf, tempfile::TempDir) {
    let page = include_str!("../../../../docs/languages/sdk.md");
    let command = page.lines().find(|line| line.starts_with("cc ")).unwrap();
    let command = command.replace("dist/include", "sdk/c/include").replace(
        "dist/lib/libtutti_worker.a",
        &library().display().to_string(),
    );
    let place = tempfile::tempdir().unwrap();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sdk");
    std::os::unix::fs::symlink(sources, place.path().join("sdk")).unwrap();
    let status = Command::new("sh")
        .args(["-c", &command])
        .current_dir(place.path())
        .status()
        .unwrap();
    assert!(status.success(), "{command}");
    (place.path().join("hello"), place)
}

/// Compiles a program against the library that cargo has built for this test.
pub(crate) fn compile(source: &str) -> (PathBuf, tempfile::TempDir) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let place = tempfile::tempdir().unwrap();
    let program = place.path().join("program");
    // `make test-sanitizers` has them.
    let flags = std::env::var("TUTTI_CFLAGS").unwrap_or_default();
    let status = Command::new("cc")
        .args([
            "-std=c11",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-D_GNU_SOURCE",
            "-I",
        ])
        .arg(folder.join("include"))
        .args(flags.split_ascii_whitespace())
        .arg("-o")
        .arg(&program)
        .arg(folder.join(source))
        .arg(library())
        .args(["-lpthread", "-ldl", "-lm"])
        .status()
        .unwrap();
    assert!(status.success(), "{source} does not compile");
    (program, place)
}
