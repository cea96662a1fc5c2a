//! Files made from the option table, and the C library's header, made from its code: written by `cargo xtask generate`, compared by `cargo xtask check`.

use std::path::Path;

use anyhow::{Context, Result, anyhow};

use crate::breach::Breach;

/// Path and content of every generated file.
fn files(root: &Path) -> Result<Vec<(&'static str, String)>> {
    let printed = |value: &serde_json::Value| {
        serde_json::to_string_pretty(value)
            .map(|text| text + "\n")
            .context("a description is no JSON")
    };
    Ok(vec![
        ("spec/config.schema.json", printed(&tutti_config::schema())?),
        ("spec/openapi.json", printed(&tutti_config::openapi())?),
        ("docs/reference.md", tutti_config::reference_markdown()),
        ("sdk/c/include/tutti_worker.h", header(&root.join("sdk/c"))?),
    ])
}

/// The declarations of `sdk/c` for C; its modules are followed from `lib.rs`.
fn header(folder: &Path) -> Result<String> {
    let config = folder.join("cbindgen.toml");
    let config = cbindgen::Config::from_file(&config)
        .map_err(|error| anyhow!("{}: {error}", config.display()))?;
    let builder = cbindgen::Builder::new()
        .with_config(config)
        .with_src(folder.join("src/lib.rs"));
    let bindings = builder.generate().context("`sdk/c` has no C interface")?;
    let mut text = Vec::new();
    bindings.write(&mut text);
    String::from_utf8(text).context("the header is no text")
}

pub(crate) fn check(root: &Path) -> Result<Vec<Breach>> {
    let mut breaches = Vec::new();
    for (path, content) in files(root)? {
        if std::fs::read_to_string(root.join(path)).ok().as_deref() != Some(content.as_str()) {
            breaches.push(Breach::new(
                path,
                "is not what it is made from says; run `cargo xtask generate`",
            ));
        }
    }
    Ok(breaches)
}

pub(crate) fn write(root: &Path) -> Result<()> {
    for (path, content) in files(root)? {
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
