//! The check of a configuration that was made: a part that a server would reject is closed, and reported.
//!
//! Such a part is a fault of the importer. Must never: leave a condition or a guard out because it would be rejected.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::finding::{Findings, SourceLocation};

/// Checks before the whole configuration is given up: closing a part may show faults in another.
const MOST_CHECKS: usize = 16;

/// Closes the parts of a configuration that a server would reject.
pub(crate) fn make_acceptable(configuration: &mut Value, file: &Path, findings: &mut Findings) {
    let place = SourceLocation {
        file: file.display().to_string().into(),
        line: 1,
    };
    for _ in 0..MOST_CHECKS {
        let Err(faults) = tutti_ctl::accepted(&configuration.to_string()) else {
            return;
        };
        let before = configuration.clone();
        for fault in &faults.0 {
            let way: Vec<String> = fault.pointer.segments().collect();
            let outcome = close(configuration, &way);
            let problem = format!("{}: {outcome}", fault.detail());
            let hint = "write this part by hand, and please report this fault of the importer";
            findings.lost(&place, "import", &problem, hint);
        }
        if *configuration == before {
            break;
        }
    }
    let hint = "please report this fault of the importer";
    findings.lost(
        &place,
        "import",
        "the result would be rejected: it is empty",
        hint,
    );
    *configuration = json!({});
}

/// Closes the part at the end of a way; returns the outcome.
fn close(configuration: &mut Value, way: &[String]) -> &'static str {
    let way: Vec<&str> = way.iter().map(String::as_str).collect();
    match way.as_slice() {
        ["routes", route, rest @ ..] => {
            let refusal = json!({"return": 403});
            let steps = configuration.pointer_mut(&format!("/routes/{}", escaped(route)));
            let Some(steps) = steps else {
                return "it has been left out";
            };
            let index = rest.first().and_then(|index| index.parse::<usize>().ok());
            let step = match index {
                Some(index) => steps.get_mut(index),
                None => None,
            };
            match step.and_then(Value::as_object_mut) {
                Some(step) => {
                    // A condition that cannot be checked may be for every request.
                    if rest.get(1) == Some(&"match") {
                        step.remove("match");
                    }
                    step.insert("action".to_owned(), refusal);
                }
                None => *steps = json!([{"action": refusal}]),
            }
            "requests there get 403"
        }
        [section @ ("upstreams" | "applications"), name, ..] => {
            remove(configuration, &[*section, *name]);
            let destination = format!("{section}/{name}");
            refuse(configuration, 503, &|action| {
                ["pass", "to"].iter().any(|option| {
                    let to = action
                        .get(*option)
                        .and_then(Value::as_str)
                        .unwrap_or_default();
                    let rest = to.strip_prefix(&destination);
                    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                })
            });
            "requests for it get 503"
        }
        ["maps", name, ..] => {
            // Its users are rejected and closed next.
            remove(configuration, &["maps", *name]);
            "it is left out, and requests that need it are refused"
        }
        ["limits", name, ..] => {
            remove(configuration, &["limits", *name]);
            let is_it = |limit: &Value| limit.as_str() == Some(*name);
            refuse(configuration, 403, &|action| match action.get("limit") {
                Some(Value::Array(limits)) => limits.iter().any(is_it),
                Some(limit) => is_it(limit),
                None => false,
            });
            "requests that it limits get 403"
        }
        ["streams", name, ..] => {
            // Listeners that need it are rejected and closed next.
            remove(configuration, &["streams", *name]);
            "Tutti does not listen there"
        }
        ["listeners", name, ..] => {
            remove(configuration, &["listeners", *name]);
            "Tutti does not listen there"
        }
        ["settings", ..] => {
            let end = way.len().min(3);
            remove(configuration, way.get(..end).unwrap_or_default());
            "it has been left out"
        }
        [section, ..] => {
            remove(configuration, &[*section]);
            "it has been left out"
        }
        [] => "it has been left out",
    }
}

fn escaped(segment: &str) -> String {
    segment.replace('~', "~0").replace('/', "~1")
}

/// Removes the member at the end of a way, and objects around it that become empty.
fn remove(configuration: &mut Value, way: &[&str]) {
    let Some((name, around)) = way.split_last() else {
        return;
    };
    let pointer: String = around
        .iter()
        .map(|segment| format!("/{}", escaped(segment)))
        .collect();
    let Some(Value::Object(members)) = configuration.pointer_mut(&pointer) else {
        return;
    };
    members.remove(*name);
    if members.is_empty() && !around.is_empty() {
        remove(configuration, around);
    }
}

/// Puts a status in the place of actions. The depth is that of actions within actions, which the importer makes itself.
fn refuse(value: &mut Value, status: u16, is_meant: &dyn Fn(&Map<String, Value>) -> bool) {
    match value {
        Value::Object(members) => {
            if is_meant(members) {
                *members = Map::from_iter([("return".to_owned(), status.into())]);
                return;
            }
            for member in members.values_mut() {
                refuse(member, status, is_meant);
            }
        }
        Value::Array(elements) => {
            for element in elements {
                refuse(element, status, is_meant);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(mut configuration: Value) -> (Value, usize) {
        let mut findings = Findings::default();
        make_acceptable(&mut configuration, Path::new("nginx.conf"), &mut findings);
        (configuration, findings.into_list().len())
    }

    #[test]
    fn what_would_be_rejected_is_closed_and_reported() {
        let whole = json!({
            "listeners": {"*:80": {"pass": "routes/a"}},
            "routes": {"a": [{"match": {"uri": "/x"}, "action": {"return": 200}}]},
        });
        assert_eq!(accepted(whole.clone()), (whole.clone(), 0));
        let mut wrong = whole.clone();
        wrong["routes"]["a"][0]["match"]["uri"] = json!("~(");
        wrong["settings"] = json!({"http": {"max_body_size": "x"}});
        let (closed, findings) = accepted(wrong);
        assert_eq!(
            closed,
            json!({
                "listeners": {"*:80": {"pass": "routes/a"}},
                "routes": {"a": [{"action": {"return": 403}}]},
            })
        );
        assert_eq!(findings, 2);
        let mut wrong = whole;
        wrong["routes"]["a"][0]["action"] = json!({"pass": "upstreams/u"});
        wrong["upstreams"] = json!({"u": {"servers": {"not an address": {}}}});
        let (closed, _) = accepted(wrong);
        assert_eq!(
            closed["routes"]["a"][0],
            json!({"match": {"uri": "/x"}, "action": {"return": 503}})
        );
    }
}
