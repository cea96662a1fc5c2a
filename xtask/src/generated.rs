//! Files made from the option table: written by `cargo xtask generate`, compared by `cargo xtask check`.

use std::path::Path;

use anyhow::{Context, Result};

use crate::Breach;

/// Path and content of every generated file.
fn files() -> Result<Vec<(&'static str, String)>> {
    let mut schema =
        serde_json::to_string_pretty(&tutti_config::schema()).context("the schema is no JSON")?;
    schema.push('\n');
    Ok(vec![
        ("spec/config.schema.json", schema),
        ("docs/reference.md", tutti_config::reference_markdown()),
    ])
}

pub(crate) fn check(root: &Path) -> Result<Vec<Breach>> {
    let mut breaches = Vec::new();
    for (path, content) in files()? {
        if std::fs::read_to_string(root.join(path)).ok().as_deref() != Some(content.as_str()) {
            breaches.push(Breach::new(
                path,
                "is not what the option table says; run `cargo xtask generate`",
            ));
        }
    }
    Ok(breaches)
}

pub(crate) fn write(root: &Path) -> Result<()> {
    for (path, content) in files()? {
        let path = root.join(path);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("{} cannot be made", folder.display()))?;
        }
        std::fs::write(&path, content)
            .with_context(|| format!("{} cannot be written", path.display()))?;
    }
    Ok(())
}
