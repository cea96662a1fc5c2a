//! Which crate may depend on which: `ARCHITECTURE.md`, "Layout". Arrows point one way.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::{Breach, name_of};

/// What each crate may use. `control` and `server` meet only through a trait; only `daemon` sees everything.
/// A crate that is not listed may use nothing of the house, which makes adding one a decision.
const ALLOWED: &[(&str, &[&str])] = &[
    ("script", &[]),
    ("config", &["script"]),
    ("http", &[]),
    ("gateway", &[]),
    ("wire", &[]),
    ("sys", &[]),
    ("routing", &["config", "script"]),
    ("tls", &["config"]),
    ("pool", &["config", "http", "wire", "sys"]),
    ("upstream", &["config", "tls"]),
    ("telemetry", &["config"]),
    (
        "server",
        &[
            "config",
            "http",
            "gateway",
            "wire",
            "sys",
            "routing",
            "pool",
            "upstream",
            "tls",
            "telemetry",
        ],
    ),
    ("control", &["config", "http", "wire", "sys"]),
    ("worker", &["wire", "sys"]),
    (
        "daemon",
        &[
            "config",
            "http",
            "wire",
            "sys",
            "routing",
            "pool",
            "upstream",
            "server",
            "control",
            "tls",
            "script",
            "telemetry",
        ],
    ),
    ("testkit", &["sys", "wire"]),
    ("sdk/c", &["worker", "wire", "sys", "testkit"]),
    ("sdk/external", &["worker", "http", "sys"]),
    ("sdk/perl", &["worker", "wire", "sys"]),
    ("sdk/php", &["worker", "wire", "sys", "gateway"]),
    ("sdk/python", &["worker", "wire", "sys"]),
    ("sdk/rust", &["worker", "wire", "sys", "testkit"]),
];

pub(crate) fn check(root: &Path, crates: &[PathBuf]) -> Result<Vec<Breach>> {
    let mut breaches = Vec::new();
    for folder in crates {
        let name = name_of(root, folder);
        let manifest = folder.join("Cargo.toml");
        let text = std::fs::read_to_string(&manifest)
            .with_context(|| format!("{} cannot be read", manifest.display()))?;
        let allowed = ALLOWED
            .iter()
            .find(|(listed, _)| *listed == name)
            .map_or(&[][..], |(_, uses)| uses);
        for used in house_dependencies(&text) {
            if !allowed.contains(&used.as_str()) {
                let place = manifest
                    .strip_prefix(root)
                    .unwrap_or(&manifest)
                    .display()
                    .to_string();
                breaches.push(Breach::new(
                    place,
                    format!(
                        "`{name}` must not depend on `{used}`; it may use: {}",
                        allowed.join(", ")
                    ),
                ));
            }
        }
    }
    Ok(breaches)
}

/// `tutti-*` under `[dependencies]`, target-specific ones too; development and build dependencies are free.
fn house_dependencies(manifest: &str) -> Vec<String> {
    let mut section = "";
    let mut found = Vec::new();
    for line in manifest.lines() {
        if let Some(header) = line.trim().strip_prefix('[') {
            section = header.trim_end_matches(']');
            continue;
        }
        let counts = section == "dependencies"
            || (section.starts_with("target.") && section.ends_with(".dependencies"));
        if let Some(rest) = line.strip_prefix("tutti-").filter(|_| counts) {
            let end = rest
                .find(|letter: char| !letter.is_alphanumeric() && letter != '-')
                .unwrap_or(rest.len());
            found.push(rest.get(..end).unwrap_or_default().to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::house_dependencies;

    #[test]
    fn only_production_dependencies_of_the_house_count() {
        let manifest = "[package]\nname = \"tutti-x\"\n[dependencies]\ntutti-wire.workspace = true\nserde = \"1\"\n\
                        [target.'cfg(unix)'.dependencies]\ntutti-sys = { path = \"../sys\" }\n[dev-dependencies]\ntutti-testkit.workspace = true\n";
        assert_eq!(house_dependencies(manifest), ["wire", "sys"]);
    }
}
