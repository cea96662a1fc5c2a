//! The C half of a language host: how it is compiled. The hosts' build scripts have this file as a module.

use std::{env, path::Path};

/// Begins to build the C half from `sources`, files of `csrc`. It sees the seam's header, and `TUTTI_SOFTWARE` as a string.
pub(crate) fn c_half(sources: &[&str]) -> cc::Build {
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
    for source in sources {
        build.file(Path::new("csrc").join(source));
    }
    build
}
