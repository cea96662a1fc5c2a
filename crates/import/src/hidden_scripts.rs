//! The last look at a configuration that was made: no share in it serves scripts that the old server ran.

use std::path::Path;

use serde_json::{Map, Value, json};
use tutti_config::Format;

use crate::finding::{Findings, SourceLocation};
use crate::sources::Sources;

/// Each round denies all scripts that the last search has found; another share may serve one of them.
const MOST_ROUNDS: usize = 40;

/// Names of a folder that are searched for scripts.
const MOST_NAMES: usize = 2_000;

/// Keeps shares from serving scripts, if the old server ran any: with [`tutti_config::exposed_scripts`], which follows the routes of
/// requests. A share that leads no request to a script is left as it is.
pub(crate) fn hide_scripts(
    configuration: &mut Value,
    file: &Path,
    sources: &dyn Sources,
    findings: &mut Findings,
) {
    if !runs_scripts(configuration) {
        return;
    }
    let names_in = |folder: &Path| -> Vec<String> {
        let names = sources.names_in(folder).into_iter().take(MOST_NAMES);
        names
            .map(
                |name| match sources.names_in(&folder.join(&name)).is_empty() {
                    true => name,
                    false => format!("{name}/"),
                },
            )
            .collect()
    };
    for _ in 0..MOST_ROUNDS {
        let read = tutti_config::read(configuration.to_string().as_bytes(), Format::Json);
        let Ok(document) = read else {
            return;
        };
        let exposed = tutti_config::exposed_scripts(&document, &names_in);
        let mut is_changed = false;
        for script in exposed {
            // The pointer is that of the option; its action is the object around it.
            let around = script.share.as_str().rsplit_once('/');
            let action = around.and_then(|(action, _)| configuration.pointer_mut(action));
            let Some(action) = action.and_then(Value::as_object_mut) else {
                continue;
            };
            is_changed |= deny(action, &script.pattern);
            let problem = format!(
                "`GET {}` would have served the source of a script, because other scripts of the folder are run: such paths get 404",
                script.uri
            );
            let place = SourceLocation {
                file: file.display().to_string().into(),
                line: 1,
            };
            let hint = "move the scripts out of the folder, or remove `deny` of the share if they are meant to be downloaded";
            findings.note(&place, "(result)", &problem, hint);
        }
        if !is_changed {
            return;
        }
    }
}

/// True if a configuration runs scripts, or has another server run them.
fn runs_scripts(configuration: &Value) -> bool {
    let has = |part: &str| {
        let part = configuration.get(part).and_then(Value::as_object);
        part.is_some_and(|part| !part.is_empty())
    };
    has("applications")
        || ["fastcgi", "uwsgi", "scgi"]
            .iter()
            .any(|name| mentions(configuration, name))
}

/// True if an option with this name, or a server with this scheme, is somewhere below. The depth is that of a configuration.
fn mentions(value: &Value, name: &str) -> bool {
    match value {
        Value::Object(members) => members
            .iter()
            .any(|(member, inner)| member == name || mentions(inner, name)),
        Value::Array(elements) => elements.iter().any(|element| mentions(element, name)),
        Value::String(text) => text
            .strip_prefix(name)
            .is_some_and(|rest| rest.starts_with("://")),
        _ => false,
    }
}

/// Adds a pattern to `deny` of a share; false if it is there.
fn deny(share: &mut Map<String, Value>, pattern: &str) -> bool {
    let pattern = Value::from(pattern);
    match share.get_mut("deny") {
        Some(Value::Array(known)) if known.contains(&pattern) => false,
        Some(Value::Array(known)) => {
            known.push(pattern);
            true
        }
        Some(known) if *known == pattern => false,
        Some(known) => {
            let former = known.take();
            *known = json!([former, pattern]);
            true
        }
        None => {
            share.insert("deny".to_owned(), json!([pattern]));
            true
        }
    }
}
