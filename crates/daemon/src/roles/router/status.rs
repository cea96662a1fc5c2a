//! Parts of `/status` as documented for Unit.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tutti_pool::{AppStatus, StartFailure};

use crate::protocol::Module;

/// One of `applications`.
pub(super) fn application_status(status: &AppStatus) -> Value {
    json!({
        "processes": { "running": status.running, "starting": status.starting, "idle": status.idle },
        "requests": { "active": status.active, "queued": status.queued, "total": status.requests },
        "restarts": status.restarts,
        "failures": {
            "total": status.failures,
            "last": status.last_failure.as_deref().map(failure_status),
        },
    })
}

/// A failed start that has not been made good since.
fn failure_status(failure: &StartFailure) -> Value {
    json!({
        "pointer": failure.pointer,
        "step": failure.step,
        "message": failure.message,
        "hint": failure.hint,
        "output": failure.stderr,
    })
}

/// One object for a language with one version, an array for one with more: as documented for Unit.
pub(super) fn modules_status(modules: &[Module]) -> Value {
    let mut by_kind: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for module in modules {
        let entry = json!({ "version": module.version, "lib": module.path.to_string_lossy() });
        by_kind.entry(&module.kind).or_default().push(entry);
    }
    let single = |mut list: Vec<Value>| {
        if list.len() == 1 {
            list.remove(0)
        } else {
            Value::Array(list)
        }
    };
    by_kind
        .into_iter()
        .map(|(kind, list)| (kind.to_owned(), single(list)))
        .collect::<Map<_, _>>()
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(kind: &str, version: &str) -> Module {
        Module {
            kind: kind.into(),
            version: version.into(),
            path: format!("/m/{kind}{version}").into(),
            dependencies: Vec::new(),
        }
    }

    #[test]
    fn several_versions_of_a_language_are_an_array() {
        let modules = [
            module("php", "8.2.1"),
            module("php", "8.3.0"),
            module("go", "1"),
        ];
        let expected = json!({
            "go": {"version": "1", "lib": "/m/go1"},
            "php": [{"version": "8.2.1", "lib": "/m/php8.2.1"}, {"version": "8.3.0", "lib": "/m/php8.3.0"}],
        });
        assert_eq!(modules_status(&modules), expected);
    }
}
