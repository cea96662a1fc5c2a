//! Files made from the option table, the families of metrics and the importer's table of directives, and the C library's header, made from its code: written by `cargo xtask generate`, compared by `cargo xtask check`.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use serde_json::Value;

use crate::breach::Breach;
use crate::lengths;

/// Path and content of every generated file.
fn files(root: &Path) -> Result<Vec<(&'static str, String)>> {
    let printed = |value: &Value| {
        serde_json::to_string_pretty(value)
            .map(|text| text + "\n")
            .context("a description is no JSON")
    };
    let mut files = vec![
        ("spec/config.schema.json", printed(&tutti_config::schema())?),
        (DESCRIPTION, compact(&tutti_control::openapi())),
        (
            "docs/reference/options.md",
            tutti_config::reference_markdown(),
        ),
        (
            "docs/reference/variables.md",
            tutti_config::variables_markdown(),
        ),
        (METRICS, metrics(root)?),
        ("sdk/c/include/tutti_worker.h", header(&root.join("sdk/c"))?),
    ];
    files.extend(tutti_import::reference_pages());
    Ok(files)
}

/// The description of the control API.
const DESCRIPTION: &str = "spec/openapi.json";

/// The page with the table of families.
const METRICS: &str = "docs/operate/metrics.md";

/// That page, with the table as the families are declared.
fn metrics(root: &Path) -> Result<String> {
    let page = std::fs::read_to_string(root.join(METRICS)).context(METRICS)?;
    let begin = "by `cargo xtask generate` -->\n";
    let split = page.split_once(begin).and_then(|(before, rest)| {
        let (_, after) = rest.split_once("<!-- end -->")?;
        Some((before, after))
    });
    let (before, after) = split.ok_or_else(|| anyhow!("{METRICS} has no place for its table"))?;
    let table = tutti_metrics::table();
    Ok(format!("{before}{begin}\n{table}\n<!-- end -->{after}"))
}

/// The longest line of a description that has one line for what belongs together: an operation, an option.
const LONGEST_LINE: usize = 300;

/// JSON in which a value has one line if it fits there.
fn compact(value: &Value) -> String {
    let mut text = String::new();
    print(value, 0, &mut text);
    text.push('\n');
    text
}

fn print(value: &Value, depth: usize, text: &mut String) {
    let (open, close, items): (_, _, Vec<(String, &Value)>) = match value {
        Value::Array(list) => (
            '[',
            ']',
            list.iter().map(|item| (String::new(), item)).collect(),
        ),
        Value::Object(members) => {
            let members = members.iter();
            let named =
                members.map(|(name, item)| (format!("{}: ", Value::from(name.as_str())), item));
            ('{', '}', named.collect())
        }
        _ => return text.push_str(&value.to_string()),
    };
    let line = value.to_string();
    // Objects of objects are lists: an entry has a line of its own.
    let is_list = depth < 2 && value.is_object();
    if line.len() + depth * 2 <= LONGEST_LINE && !is_list {
        return text.push_str(&line);
    }
    text.push(open);
    for (index, (name, item)) in items.into_iter().enumerate() {
        text.push_str(if index == 0 { "\n" } else { ",\n" });
        text.push_str(&"  ".repeat(depth + 1));
        text.push_str(&name);
        print(item, depth + 1, text);
    }
    text.push('\n');
    text.push_str(&"  ".repeat(depth));
    text.push(close);
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
        if path == DESCRIPTION {
            breaches.extend(lengths::check_description(path, &content));
        }
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
