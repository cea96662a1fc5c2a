//! The crates of the workspace, as `cargo metadata` tells them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// A crate of the workspace.
pub(crate) struct Member {
    /// Its folder: `wire` for `crates/wire`, else as it is, such as `sdk/php`.
    pub(crate) name: String,
    /// Where its sources are.
    pub(crate) folder: PathBuf,
    /// The files that its library and programs begin with, relative to the repository.
    pub(crate) roots: Vec<String>,
    /// Nothing in it is built but a library for others.
    pub(crate) is_library: bool,
    /// The crates of the workspace that it is built with: not those of its tests and of its build script.
    pub(crate) uses: Vec<String>,
}

impl Member {
    /// True for what is shipped: not for tests, benchmarks and this program.
    pub(crate) fn is_shipped(&self) -> bool {
        !["tests/", "bench/", "xtask"]
            .iter()
            .any(|folder| self.name.starts_with(folder))
    }

    /// Its folder in the repository.
    pub(crate) fn path(&self) -> String {
        match self.name.starts_with("sdk/") {
            true => self.name.clone(),
            false => format!("crates/{}", self.name),
        }
    }
}

/// The folder that holds this crate's folder.
pub(crate) fn root() -> Result<PathBuf> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(manifest
        .parent()
        .context("xtask has no parent folder")?
        .to_path_buf())
}

/// The output of cargo for these arguments.
pub(crate) fn cargo(root: &Path, arguments: &[&str]) -> Result<Vec<u8>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let command = arguments.first().copied().unwrap_or_default();
    let output = Command::new(cargo)
        .args(arguments)
        .current_dir(root)
        .output()
        .with_context(|| format!("`cargo {command}` cannot be run"))?;
    ensure!(
        output.status.success(),
        "`cargo {command}` failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(output.stdout)
}

/// All crates of the workspace, sorted by folder.
pub(crate) fn crates(root: &Path) -> Result<Vec<Member>> {
    let told = cargo(
        root,
        &[
            "metadata",
            "--format-version",
            "1",
            "--no-deps",
            "--offline",
        ],
    )?;
    let metadata: Value =
        serde_json::from_slice(&told).context("`cargo metadata` wrote no JSON")?;
    let mut members: Vec<Member> = list(&metadata, "packages")
        .iter()
        .filter_map(|package| member(root, package))
        .collect();
    members.sort_by(|one, other| one.folder.cmp(&other.folder));
    Ok(members)
}

pub(crate) fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value
        .get(key)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

fn member(root: &Path, package: &Value) -> Option<Member> {
    let folder = Path::new(package.get("manifest_path")?.as_str()?).parent()?;
    let is_built = |target: &&Value| {
        list(target, "kind").iter().any(|kind| {
            matches!(
                kind.as_str(),
                Some("lib" | "rlib" | "cdylib" | "staticlib" | "bin" | "proc-macro")
            )
        })
    };
    let roots = list(package, "targets")
        .iter()
        .filter(is_built)
        .filter_map(|target| target.get("src_path")?.as_str())
        .map(|path| relative(root, Path::new(path)))
        .collect();
    let uses = list(package, "dependencies")
        .iter()
        .filter(|dependency| dependency.get("kind").is_none_or(Value::is_null))
        .filter_map(|dependency| dependency.get("path")?.as_str())
        .map(|path| name_of(root, Path::new(path)))
        .collect();
    let is_for_others = |target: &Value| {
        !list(target, "kind")
            .iter()
            .any(|kind| matches!(kind.as_str(), Some("bin" | "cdylib" | "staticlib")))
    };
    Some(Member {
        name: name_of(root, folder),
        is_library: list(package, "targets").iter().all(is_for_others),
        folder: folder.to_path_buf(),
        roots,
        uses,
    })
}

/// `crates/wire` → `wire`, `sdk/php` → `sdk/php`.
fn name_of(root: &Path, folder: &Path) -> String {
    let relative = relative(root, folder);
    match relative.strip_prefix("crates/") {
        Some(name) => name.to_owned(),
        None => relative,
    }
}

/// A path as it is written in the repository.
pub(crate) fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root)
        .unwrap_or(path)
        .to_string_lossy()
        .into_owned()
}
