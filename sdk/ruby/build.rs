//! Finds the ruby to build for, compiles the C half of the host, and links libruby.
//!
//! `RUBY` names the ruby to ask; else Debian's. It must have been built with a shared libruby (Debian: ruby-dev).

#[path = "../seam/build/c_half.rs"]
mod c_half;

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// The folders of ruby's own files, besides those that packages add to the load path.
const FOLDERS: &str = "rubylibdir rubyarchdir rubylibprefix sitedir vendordir";

fn main() -> Result<(), String> {
    println!("cargo::rerun-if-env-changed=RUBY");
    let ruby = env::var("RUBY").unwrap_or_else(|_| "/usr/bin/ruby".to_owned());
    println!("cargo::rerun-if-changed={ruby}");
    let ask = |name: &str| ask(&ruby, name);
    let version = ask("ruby_version")
        .ok_or_else(|| format!("`{ruby}` does not run: install ruby, or set RUBY"))?;
    let [header, machine] =
        ["rubyhdrdir", "rubyarchhdrdir"].map(|name| PathBuf::from(ask(name).unwrap_or_default()));
    if !header.join("ruby.h").exists() {
        return Err(format!(
            "no `{}`: install ruby-dev",
            header.join("ruby.h").display()
        ));
    }

    let mut build = c_half::c_half().map_err(|error| format!("cannot read `csrc`: {error}"))?;
    build.flag("-isystem").flag(&header);
    build.flag("-isystem").flag(&machine);
    build.compile("tutti_ruby");

    let name = ask("RUBY_SO_NAME").unwrap_or_default();
    let folders = [ask("libdir"), ask("archlibdir"), ask("sitearchlibdir")];
    let folder = folders
        .iter()
        .flatten()
        .map(Path::new)
        .find(|folder| folder.join(format!("lib{name}.so")).exists())
        .ok_or_else(|| format!("no `lib{name}.so`: install ruby-dev"))?;
    println!("cargo::rustc-link-search=native={}", folder.display());
    println!("cargo::rustc-link-lib=dylib={name}");
    // A ruby outside the system's own folders.
    if env::var_os("RUBY").is_some() {
        println!("cargo::rustc-link-arg=-Wl,-rpath,{}", folder.display());
    }
    println!("cargo::rustc-env=TUTTI_RUBY_VERSION={version}");
    let mut files: Vec<_> = FOLDERS.split(' ').filter_map(ask).collect();
    files.extend(run(
        &ruby,
        "print [*$:, *(Gem.path - [Gem.user_dir]), Gem.default_specifications_dir].join(':')",
    ));
    println!("cargo::rustc-env=TUTTI_RUBY_FOLDERS={}", files.join(":"));
    Ok(())
}

/// A value of ruby's configuration.
fn ask(ruby: &str, name: &str) -> Option<String> {
    let program = match name {
        "ruby_version" => "print RUBY_VERSION".to_owned(),
        _ => format!("print RbConfig::CONFIG['{name}']"),
    };
    let text = run(ruby, &program)?;
    (!text.is_empty()).then_some(text)
}

fn run(ruby: &str, program: &str) -> Option<String> {
    c_half::output(
        Command::new(ruby)
            .args(["-rrbconfig", "-e", program])
            .env_remove("RUBYOPT")
            .stderr(std::process::Stdio::null()),
    )
}
