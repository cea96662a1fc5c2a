//! A C compiler, and the library that cargo has built for the test that uses it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::external::source;

/// `libtutti_worker`, of the crate `tutti-c`, on which the test depends.
///
/// # Panics
/// There is no path of this test.
pub fn library() -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    test.with_file_name("libtutti_worker_c.a")
}

/// Compiles a program of the source tree as `to`.
///
/// # Panics
/// It does not compile, or not without a warning.
pub fn compile(program: &str, to: &Path) {
    // `make test-sanitizers` has them.
    let flags = std::env::var("TUTTI_CFLAGS").unwrap_or_default();
    let status = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE"])
        .arg("-I")
        .arg(source("sdk/c/include"))
        .args(flags.split_ascii_whitespace())
        .arg("-o")
        .arg(to)
        .arg(source(program))
        .arg(library())
        .args(["-lpthread", "-ldl", "-lm"])
        .status()
        .expect("a C compiler");
    assert!(status.success(), "{program} does not compile");
}
