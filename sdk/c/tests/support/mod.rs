//! Support of the tests: a C compiler.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles a program against the library that cargo has built for this test.
pub(crate) fn compile(source: &str) -> (PathBuf, tempfile::TempDir) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let place = tempfile::tempdir().unwrap();
    let program = place.path().join("program");
    let test = std::env::current_exe().unwrap();
    let library = test.parent().unwrap().join("libtutti_worker_c.a");
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
        .arg(library)
        .args(["-lpthread", "-ldl", "-lm"])
        .status()
        .unwrap();
    assert!(status.success(), "{source} does not compile");
    (program, place)
}
