//! Finds the PHP to build for, compiles the C half of the host, and links the embed library.
//!
//! `PHP_CONFIG` names the `php-config` to ask; else the newest of Debian's is taken.

#[path = "../seam/build/c_half.rs"]
mod c_half;

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

fn main() -> Result<(), String> {
    println!("cargo::rerun-if-env-changed=PHP_CONFIG");
    let php_config = match env::var("PHP_CONFIG") {
        Ok(given) => given,
        Err(_) => newest().ok_or("no `php-config` found: install php-dev, or set PHP_CONFIG")?,
    };
    let version =
        ask(&php_config, "--version").ok_or_else(|| format!("`{php_config} --version` failed"))?;
    let includes = ask(&php_config, "--includes").unwrap_or_default();

    let mut build = c_half::c_half().map_err(|error| format!("cannot read `csrc`: {error}"))?;
    for flag in includes.split_whitespace() {
        // System headers: their warnings are PHP's, not ours.
        if let Some(path) = flag.strip_prefix("-I") {
            build.flag("-isystem").flag(path);
        }
    }
    build.compile("tutti_php");

    let short: String = version.splitn(3, '.').take(2).collect::<Vec<_>>().join(".");
    let (directory, name) = library(&php_config, &short)
        .ok_or_else(|| format!("no PHP {short} embed library: install libphp{short}-embed"))?;
    println!("cargo::rustc-link-search=native={}", directory.display());
    println!("cargo::rustc-link-lib=dylib={name}");
    // The functions of timer.c stand before those of libphp: the loader must see them.
    for symbol in ["zend_set_timeout", "zend_unset_timeout"] {
        println!("cargo::rustc-link-arg-bins=-Wl,--export-dynamic-symbol={symbol}");
    }
    println!(
        "cargo::rustc-env=TUTTI_PHP_VERSION={}",
        version.split(['-', '+']).next().unwrap_or(&version)
    );
    println!(
        "cargo::rustc-env=TUTTI_PHP_DEPENDENCIES={}",
        dependencies(&php_config).join(":")
    );
    // Tests run the programs of the profile `dev`, without the files that `make build` installs. No other program contains the path of its build.
    if PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default())
        .iter()
        .any(|part| part == "debug")
    {
        let source = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
        println!("cargo::rustc-env=TUTTI_PHP_SOURCE={source}/resident");
    }
    Ok(())
}

/// The newest `php-configX.Y` on `PATH` (Debian's names), else `php-config`.
fn newest() -> Option<String> {
    let path = env::var_os("PATH")?;
    let entries = env::split_paths(&path).filter_map(|folder| folder.read_dir().ok());
    let names = entries
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let versioned = names.filter_map(|name| {
        let (major, minor) = name.strip_prefix("php-config")?.split_once('.')?;
        let version: (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
        Some((version, name))
    });
    let named = versioned.max().map(|(_, name)| name);
    named.or_else(|| {
        ask("php-config", "--version")?;
        Some("php-config".to_owned())
    })
}

/// Folders that PHP reads while it runs: extensions, php.ini of every interface (Debian links between them).
fn dependencies(php_config: &str) -> Vec<String> {
    let ini = ask(php_config, "--ini-path").and_then(|path| {
        let folder = Path::new(&path).parent()?.to_str()?.to_owned();
        // An own build has it in `/usr/local/lib`, whose parent would be far too much.
        Some(if folder.starts_with("/etc/") {
            folder
        } else {
            path
        })
    });
    let folders = [ask(php_config, "--extension-dir"), ini];
    folders
        .into_iter()
        .flatten()
        .filter(|path| path.starts_with('/'))
        .collect()
}

/// The folder and the link name of the embed library of this version.
fn library(php_config: &str, short: &str) -> Option<(PathBuf, String)> {
    let prefix = ask(php_config, "--prefix").unwrap_or_else(|| "/usr".to_owned());
    let multiarch = env::var("TARGET")
        .unwrap_or_default()
        .replace("-unknown", "");
    let folders = [
        format!("{prefix}/lib"),
        format!("{prefix}/lib/{multiarch}"),
        format!("{prefix}/lib64"),
    ];
    for folder in folders.iter().map(PathBuf::from) {
        for name in [format!("php{short}"), "php".to_owned()] {
            if folder.join(format!("lib{name}.so")).exists() {
                return Some((folder, name));
            }
        }
    }
    None
}

fn ask(php_config: &str, option: &str) -> Option<String> {
    c_half::output(Command::new(php_config).arg(option))
}
