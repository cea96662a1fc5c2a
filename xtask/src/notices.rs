//! The libraries of others that are inside what we ship: each with its licence and its copyright notices, which packages carry, and as a bill of materials
//! (CycloneDX), which a release has.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::workspace::{self, list};

/// Crates of the workspace that packages contain; all else is for building and testing.
const SHIPPED: &[&str] = &[
    "tutti-daemon",
    "tutti-external",
    "tutti-cgi",
    "tutti-node",
    "tutti-node-addon",
    "tutti-php",
    "tutti-python",
    "tutti-perl",
    "tutti-ruby",
    "tutti-java",
    "tutti-wasm",
    "tutti-c",
];

/// Beginnings of the names of files that hold a licence or a notice.
const TEXTS: &[&str] = &[
    "license",
    "licence",
    "copying",
    "notice",
    "copyright",
    "unlicense",
];

/// Writes the file.
pub(crate) fn write(root: &Path, path: &Path) -> Result<()> {
    let metadata = metadata(root)?;
    let text = notices(&metadata)?;
    std::fs::write(path, text).with_context(|| format!("`{}` cannot be written", path.display()))
}

/// Writes the bill of materials.
pub(crate) fn write_bill(root: &Path, path: &Path) -> Result<()> {
    let lock = std::fs::read_to_string(root.join("Cargo.lock")).context("no Cargo.lock")?;
    let text = serde_json::to_string(&bill(&metadata(root)?, &checksums(&lock)))?;
    std::fs::write(path, text).with_context(|| format!("`{}` cannot be written", path.display()))
}

/// The checksum of each crate in Cargo.lock, by name and version.
fn checksums(lock: &str) -> BTreeMap<(&str, &str), &str> {
    let value = |text: &'static str, package| -> Option<&str> {
        let package: &str = package;
        package
            .lines()
            .find_map(|line| line.strip_prefix(text)?.strip_suffix('"'))
    };
    lock.split("[[package]]")
        .filter_map(|package| {
            let name = value("name = \"", package)?;
            let version = value("version = \"", package)?;
            Some(((name, version), value("checksum = \"", package)?))
        })
        .collect()
}

/// A component for each crate, ours first, and what each of them is built from. It has no time and no serial number, which would differ each time.
fn bill(metadata: &Value, checksums: &BTreeMap<(&str, &str), &str>) -> Value {
    let packages: BTreeMap<&str, &Value> = list(metadata, "packages")
        .iter()
        .map(|package| (field(package, "id"), package))
        .collect();
    let inside = inside(metadata);
    let is_ours = |package: &&Value| package.get("source").is_none_or(Value::is_null);
    let (ours, others): (Vec<&Value>, Vec<&Value>) = inside
        .keys()
        .filter_map(|id| packages.get(id).copied())
        .partition(is_ours);
    let version = ours
        .iter()
        .find(|package| field(package, "name") == "tutti-daemon")
        .map_or("unknown", |package| field(package, "version"));
    let mut components: Vec<Value> = [ours, others]
        .into_iter()
        .flat_map(|mut packages| {
            packages.sort_by_key(|package| (field(package, "name"), field(package, "version")));
            packages
        })
        .map(|package| component(package, checksums))
        .collect();
    components.dedup();
    let reference = |id: &str| packages.get(id).map(|package| purl(package));
    let dependencies: BTreeMap<String, BTreeSet<String>> = inside
        .iter()
        .filter_map(|(id, uses)| {
            Some((
                reference(id)?,
                uses.iter().filter_map(|id| reference(id)).collect(),
            ))
        })
        .collect();
    let dependencies: Vec<Value> = dependencies
        .into_iter()
        .map(|(name, uses)| json!({"ref": name, "dependsOn": uses}))
        .collect();
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "bom-ref": "tutti", "name": "tutti", "version": version}},
        "components": components,
        "dependencies": dependencies,
    })
}

fn component(package: &Value, checksums: &BTreeMap<(&str, &str), &str>) -> Value {
    let (name, version) = (field(package, "name"), field(package, "version"));
    let purl = purl(package);
    let mut component =
        json!({"type": "library", "bom-ref": purl, "name": name, "version": version});
    // Some are older than the grammar of licences.
    let licence = field(package, "license")
        .replace(" / ", " OR ")
        .replace('/', " OR ");
    component["licenses"] = json!([{"expression": licence}]);
    if let Some(checksum) = checksums.get(&(name, version)) {
        component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
    }
    component["purl"] = json!(purl);
    component
}

/// The name of a crate that all tools understand.
fn purl(package: &Value) -> String {
    format!(
        "pkg:cargo/{}@{}",
        field(package, "name"),
        field(package, "version")
    )
}

fn metadata(root: &Path) -> Result<Value> {
    let told = workspace::cargo(
        root,
        &[
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--filter-platform",
            &platform()?,
        ],
    )?;
    serde_json::from_slice(&told).context("`cargo metadata` wrote no JSON")
}

/// The kind of this machine, as the compiler names it: what is for others is not inside.
fn platform() -> Result<String> {
    let output = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .arg("-vV")
        .output()
        .context("`rustc` cannot be run")?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = said
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .context("`rustc -vV` names no host")?;
    Ok(host.to_owned())
}

/// The whole file: a line for each crate, then each text once, with the crates that it is of.
fn notices(metadata: &Value) -> Result<String> {
    let mut text =
        String::from("What Tutti's programs contain of others, and under which licences.\n\n");
    let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in shipped(metadata) {
        let name = format!("{} {}", field(package, "name"), field(package, "version"));
        let found = texts_of(package)?;
        let remark = if found.is_empty() {
            " (the package has no text of it)"
        } else {
            ""
        };
        let _ = writeln!(text, "{name}: {}{remark}", field(package, "license"));
        for found in found {
            texts.entry(found).or_default().insert(name.clone());
        }
    }
    for (licence, names) in texts {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let _ = write!(
            text,
            "\n{}\n{}\n\n{}\n",
            "-".repeat(80),
            names.join(", "),
            licence.trim_end()
        );
    }
    Ok(text)
}

fn field<'a>(package: &'a Value, name: &str) -> &'a str {
    package
        .get(name)
        .and_then(Value::as_str)
        .unwrap_or("unknown")
}

/// The packages of registries that the shipped crates are built from, sorted by name.
fn shipped(metadata: &Value) -> Vec<&Value> {
    let inside = inside(metadata);
    let mut found: Vec<&Value> = list(metadata, "packages")
        .iter()
        .filter(|package| inside.contains_key(field(package, "id")))
        .filter(|package| {
            package
                .get("source")
                .is_some_and(|source| !source.is_null())
        })
        .collect();
    found.sort_by_key(|package| (field(package, "name"), field(package, "version")));
    found
}

/// The packages that the shipped crates are built from, by their ids, those crates among them; each with what it uses itself.
fn inside(metadata: &Value) -> BTreeMap<&str, BTreeSet<&str>> {
    let packages: BTreeMap<&str, &Value> = list(metadata, "packages")
        .iter()
        .map(|package| (field(package, "id"), package))
        .collect();
    let resolve = metadata.get("resolve").unwrap_or(&Value::Null);
    let nodes: BTreeMap<&str, &Value> = list(resolve, "nodes")
        .iter()
        .map(|node| (field(node, "id"), node))
        .collect();
    let is_shipped = |id: &&str| {
        packages
            .get(id)
            .is_some_and(|package| SHIPPED.contains(&field(package, "name")))
    };
    let mut open: Vec<&str> = packages.keys().copied().filter(is_shipped).collect();
    let mut inside = BTreeMap::new();
    while let Some(id) = open.pop() {
        let uses: BTreeSet<&str> = nodes
            .get(id)
            .map_or(&[][..], |node| list(node, "deps"))
            .iter()
            .filter(|dependency| {
                list(dependency, "dep_kinds")
                    .iter()
                    .any(|kind| kind.get("kind").is_none_or(Value::is_null))
            })
            .map(|dependency| field(dependency, "pkg"))
            .collect();
        open.extend(uses.iter().filter(|id| !inside.contains_key(*id)));
        inside.insert(id, uses);
    }
    inside
}

/// The texts that come with a package.
fn texts_of(package: &Value) -> Result<Vec<String>> {
    let manifest = PathBuf::from(field(package, "manifest_path"));
    let folder = manifest.parent().context("a package without a folder")?;
    let mut texts = Vec::new();
    for entry in std::fs::read_dir(folder)
        .with_context(|| format!("`{}` cannot be read", folder.display()))?
    {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .to_lowercase();
        if path.is_file() && TEXTS.iter().any(|beginning| name.starts_with(beginning)) {
            texts.push(String::from_utf8_lossy(&std::fs::read(&path)?).into_owned());
        }
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_crate_is_there_and_tests_are_not() {
        let root = crate::workspace::root().unwrap();
        let metadata = metadata(&root).unwrap();
        for name in SHIPPED {
            assert!(
                list(&metadata, "packages")
                    .iter()
                    .any(|package| field(package, "name") == *name),
                "{name}"
            );
        }
        let text = notices(&metadata).unwrap();
        assert!(text.contains("\nrustls 0."), "a library of the server");
        assert!(
            !text.contains("\ntempfile ") || !text.contains("\nloom "),
            "a library of the tests alone"
        );
    }

    #[test]
    fn the_bill_names_each_crate_with_its_checksum_and_what_uses_it() {
        let root = crate::workspace::root().unwrap();
        let lock = std::fs::read_to_string(root.join("Cargo.lock")).unwrap();
        let bill = bill(&metadata(&root).unwrap(), &checksums(&lock));
        let components = list(&bill, "components");
        let rustls = components
            .iter()
            .find(|component| field(component, "name") == "rustls")
            .unwrap();
        assert!(lock.contains(rustls["hashes"][0]["content"].as_str().unwrap()));
        let names: BTreeSet<&str> = components
            .iter()
            .map(|component| field(component, "bom-ref"))
            .collect();
        assert_eq!(names.len(), components.len(), "each name once");
        let dependencies = list(&bill, "dependencies");
        assert_eq!(dependencies.len(), names.len());
        for dependency in dependencies {
            assert!(names.contains(field(dependency, "ref")));
        }
        assert!(components.iter().all(|component| {
            !component["licenses"][0]["expression"]
                .as_str()
                .unwrap()
                .contains('/')
        }));
    }
}
