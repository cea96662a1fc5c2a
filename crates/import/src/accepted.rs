//! The last look at a configuration that was made: a server must accept it, and no share in it hands out scripts that the old server ran.
//!
//! A part that would be refused is a fault of the importer. The rest is written all the same: the part is left out, and reported. Must
//! never: open a place by leaving something out. A step loses its action, not its conditions.

use std::path::Path;

use serde_json::{Map, Value, json};
use tutti_config::{Format, Pointer};

use crate::finding::{Findings, SourceLocation};
use crate::sources::Sources;

/// Each round leaves out all parts that the last check has named; what they were referred to by is found in the next one.
const MOST_ROUNDS: usize = 40;

/// Names of a folder that are looked at for scripts.
const MOST_NAMES: usize = 2_000;

/// Leaves out the parts that a server would refuse.
pub(crate) fn acceptable(configuration: &mut Value, file: &Path, findings: &mut Findings) {
    for _ in 0..MOST_ROUNDS {
        let Err(faults) = tutti_ctl::accepted(&configuration.to_string()) else {
            return;
        };
        for fault in &faults.0 {
            let message = fault.detail();
            report(
                file,
                "(result)",
                &format!("a part of the result would be refused, and is left out: {message}"),
                findings,
            );
            leave_out(configuration, &fault.pointer);
        }
    }
    report(
        file,
        "(result)",
        "the result would be refused: it has no listeners and routes",
        findings,
    );
    *configuration = json!({});
}

fn report(file: &Path, name: &str, problem: &str, findings: &mut Findings) {
    let place = SourceLocation {
        file: file.display().to_string().into(),
        line: 1,
    };
    findings.lost(
        &place,
        name,
        problem,
        "write it by hand, and please report this bug of the importer",
    );
}

/// Leaves out what a pointer leads to: an action becomes a refusal, a step loses its action, other parts are removed.
fn leave_out(configuration: &mut Value, pointer: &Pointer) {
    let segments: Vec<String> = pointer.segments().collect();
    let names: Vec<&str> = segments.iter().map(String::as_str).collect();
    let refusal = json!({"return": 403});
    match names.as_slice() {
        ["routes", route, step, rest @ ..] => {
            let steps = configuration
                .get_mut("routes")
                .and_then(|routes| match routes {
                    Value::Array(_) => None,
                    all => all.get_mut(*route),
                });
            let number = step.parse::<usize>().ok();
            let step = steps
                .zip(number)
                .and_then(|(steps, number)| steps.get_mut(number));
            let Some(step) = step.and_then(Value::as_object_mut) else {
                remove(configuration, &names);
                return;
            };
            // A step whose conditions are not known refuses every request.
            if rest.first() != Some(&"action") {
                step.remove("match");
            }
            step.insert("action".to_owned(), refusal);
        }
        [
            "listeners" | "applications" | "upstreams" | "spoolers" | "schedules",
            _,
            ..,
        ] => {
            remove(configuration, names.get(..2).unwrap_or_default());
        }
        _ => remove(configuration, &names),
    }
}

/// Removes the member or the element that the names lead to, or the nearest one above it that exists.
fn remove(value: &mut Value, names: &[&str]) {
    let Some((first, rest)) = names.split_first() else {
        *value = json!({});
        return;
    };
    let inner = match value {
        Value::Object(members) => members.get_mut(*first),
        Value::Array(elements) => first
            .parse::<usize>()
            .ok()
            .and_then(|number| elements.get_mut(number)),
        _ => None,
    };
    if let Some(inner) = inner.filter(|_| !rest.is_empty()) {
        remove(inner, rest);
        return;
    }
    match value {
        Value::Object(members) => drop(members.remove(*first)),
        Value::Array(elements) => {
            if let Some(number) = first
                .parse::<usize>()
                .ok()
                .filter(|number| *number < elements.len())
            {
                elements.remove(number);
            }
        }
        _ => {}
    }
}

/// Keeps shares from handing out scripts, if the old server ran any: with [`tutti_config::exposed_scripts`], which knows the ways of
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
                "`GET {}` would have served a script, in a folder beside scripts that were run: such paths get 404",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_be_refused_is_left_out_and_opens_nothing() {
        let mut configuration = json!({
            "listeners": {"*:80": {"pass": "routes/a"}, "no address": {"pass": "routes/a"}},
            "routes": {"a": [
                {"match": {"uri": "/closed"}, "action": {"return": 99_999}},
                {"match": {"uri": "~("}, "action": {"return": 200}},
                {"action": {"pass": "upstreams/none"}},
            ]},
            "settings": {"http": {"no_such_option": 1}},
        });
        let mut findings = Findings::default();
        acceptable(&mut configuration, Path::new("/x"), &mut findings);
        assert_eq!(
            tutti_ctl::accepted(&configuration.to_string())
                .err()
                .map(|faults| faults.to_string()),
            None
        );
        assert_eq!(
            configuration["routes"]["a"],
            json!([{"match": {"uri": "/closed"}, "action": {"return": 403}}, {"action": {"return": 403}}, {"action": {"return": 403}}])
        );
        assert!(findings.into_list().len() >= 4);
    }
}
