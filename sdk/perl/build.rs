//! Finds the perl to build for, compiles the C half of the host, and links libperl.
//!
//! `PERL` names the perl to ask; else the one on `PATH`. It must have been built with a shared libperl (Debian: libperl-dev).

#[path = "../seam/build/c_half.rs"]
mod c_half;

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

fn main() -> Result<(), String> {
    println!("cargo::rerun-if-env-changed=PERL");
    let perl = env::var("PERL").unwrap_or_else(|_| "/usr/bin/perl".to_owned());
    println!("cargo::rerun-if-changed={perl}");
    let ask = |name: &str| ask(&perl, name);
    let version = ask("version")
        .ok_or_else(|| format!("`{perl}` does not run: install perl, or set PERL"))?;
    let core = PathBuf::from(ask("archlibexp").unwrap_or_default()).join("CORE");
    if !core.join("perl.h").exists() {
        return Err(format!(
            "no `{}`: install libperl-dev",
            core.join("perl.h").display()
        ));
    }

    let mut build = c_half::c_half().map_err(|error| format!("cannot read `csrc`: {error}"))?;
    for flag in ask("ccflags").unwrap_or_default().split_whitespace() {
        build.flag(flag);
    }
    build.flag("-isystem").flag(&core);
    build.compile("tutti_perl");

    let folders = format!("{} {}", core.display(), ask("libpth").unwrap_or_default());
    let folder = folders
        .split_whitespace()
        .map(Path::new)
        .find(|folder| folder.join("libperl.so").exists())
        .ok_or("no `libperl.so`: install libperl-dev")?;
    println!("cargo::rustc-link-search=native={}", folder.display());
    println!("cargo::rustc-link-lib=dylib=perl");
    println!("cargo::rustc-env=TUTTI_PERL_VERSION={version}");
    let modules = "print join ':', grep { m{^/} } @INC";
    let output = Command::new(&perl).arg("-e").arg(modules).output();
    let folders = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    println!(
        "cargo::rustc-env=TUTTI_PERL_FOLDERS={}",
        folders.unwrap_or_default()
    );
    Ok(())
}

/// A value of perl's configuration.
fn ask(perl: &str, name: &str) -> Option<String> {
    let program = format!("use Config; print $Config{{{name}}}");
    c_half::output(Command::new(perl).arg("-e").arg(program))
}
