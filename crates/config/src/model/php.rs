//! Options of a PHP application.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::pointer::Pointer;

/// Options of a PHP application.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Php {
    /// Without `targets` exactly one, under the name `None`.
    pub targets: Vec<PhpTarget>,
    /// `options.file`: path of php.ini.
    pub ini_file: Option<PathBuf>,
    /// `options.admin`: directives that a script cannot change, in order.
    pub admin: Vec<(String, String)>,
    /// `options.user`: directives that a script can change, in order.
    pub user: Vec<(String, String)>,
    /// `mode` is `resident`: the script loops on requests.
    pub resident: bool,
}

/// One entry point of a PHP application.
#[derive(Clone, Debug, PartialEq)]
pub struct PhpTarget {
    /// Where it was written.
    pub pointer: Pointer,
    /// `None`: the application itself, without targets.
    pub name: Option<String>,
    /// Base directory.
    pub root: PathBuf,
    /// Script that serves everything.
    pub script: Option<String>,
    /// File looked for in directories where there is no script.
    pub index: String,
}

impl Php {
    /// `targets` is always an object here; the application itself, without targets, is the one called ``.
    pub(super) fn start_config(&self) -> Value {
        let targets: serde_json::Map<String, Value> = self
            .targets
            .iter()
            .map(|target| {
                let value = json!({
                    "root": target.root.to_string_lossy(),
                    "script": target.script,
                    "index": target.index,
                });
                (target.name.clone().unwrap_or_default(), value)
            })
            .collect();
        json!({
            "targets": targets,
            "mode": if self.resident { "resident" } else { "classic" },
            "options": {
                "file": super::path(self.ini_file.as_ref()),
                "admin": pairs(&self.admin),
                "user": pairs(&self.user),
            },
        })
    }
}

fn pairs(pairs: &[(String, String)]) -> Value {
    Value::Object(
        pairs
            .iter()
            .map(|(name, value)| (name.clone(), Value::from(value.as_str())))
            .collect(),
    )
}
