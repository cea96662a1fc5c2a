//! The C half of a language host: how it is compiled. The hosts' build scripts have this file as a module.

use std::{env, fs, io, process::Command};

/// Begins to build the C half, all sources in `csrc`. It sees the seam's header, and `TUTTI_SOFTWARE` as a string.
pub(crate) fn c_half() -> io::Result<cc::Build> {
    println!("cargo::rerun-if-changed=csrc");
    println!("cargo::rerun-if-changed=../seam/include");
    let mut build = cc::Build::new();
    build
        .include("../seam/include")
        .flag("-Wall")
        .flag("-Wextra")
        .flag("-Wno-unused-parameter")
        .flag("-std=gnu11")
        .flag("-fno-omit-frame-pointer");
    let software = format!("\"Tutti/{}\"", env!("CARGO_PKG_VERSION"));
    build.define("TUTTI_SOFTWARE", &*software);
    if env::var("OPT_LEVEL").is_ok_and(|level| level == "0") {
        build.opt_level(1);
    }
    let entries: io::Result<Vec<_>> = fs::read_dir("csrc")?.collect();
    let mut sources: Vec<_> = entries?.iter().map(fs::DirEntry::path).collect();
    sources.retain(|path| path.extension().is_some_and(|extension| extension == "c"));
    // The same library from the same sources.
    sources.sort_unstable();
    build.files(sources);
    Ok(build)
}

/// The output of a program that succeeds, without the end of its line.
pub(crate) fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    output.status.success().then_some(text)
}
