//! The rest of a stored configuration of which parts cannot be served on this machine, now.
//!
//! A module may have gone with an upgrade, a port may be another's, a disk may not be mounted. The rest is served. Called when a
//! stored configuration is restored; a change by a client is applied whole or not at all. What must never happen: that a
//! part which cannot be served opens what it was to close. So a step of a route with a fault is not left out: whom it is for is
//! answered 503, and where that cannot be told, everybody who gets there.

use tutti_config::{Config, Context, Diagnostics, Document};

/// A fault taken out can show others behind it; a document in which they do not come to an end is not worth more.
const MOST_ROUNDS: usize = 100;

/// As much of the document as is valid; `None` where nothing is.
pub fn sound(document: &Document, context: &Context) -> Option<Config> {
    let mut left = document.clone();
    for _ in 0..MOST_ROUNDS {
        match tutti_config::validate(&left, context) {
            Ok(config) => return Some(config),
            Err(faults) if prune(&mut left, &faults) => {}
            Err(_) => return None,
        }
    }
    None
}

/// Takes out of the document what the faults are about; false when that is not possible.
pub fn prune(document: &mut Document, faults: &Diagnostics) -> bool {
    let mut is_changed = false;
    for fault in &faults.0 {
        let path: Vec<String> = fault.pointer.segments().collect();
        let names: Vec<&str> = path.iter().map(String::as_str).collect();
        is_changed |= match names.as_slice() {
            [
                "listeners" | "applications" | "upstreams" | "limits",
                name,
                ..,
            ] => {
                let group = names.first().copied().unwrap_or_default();
                document.delete(&[group, name]).is_ok()
            }
            ["routes", index, "action", ..] if is_index(index) => {
                put(document, &["routes", index, "action"], REFUSAL)
            }
            ["routes", name, index, "action", ..] => {
                put(document, &["routes", name, index, "action"], REFUSAL)
            }
            ["routes", index, ..] if is_index(index) => {
                put(document, &["routes", index], REFUSING_STEP)
            }
            ["routes", name, index, ..] => put(document, &["routes", name, index], REFUSING_STEP),
            ["settings", "http", "body_temp_path"] => document
                .delete(&["settings", "http", "body_temp_path"])
                .is_ok(),
            ["settings", name, ..] => document.delete(&["settings", name]).is_ok(),
            [log @ ("access_log" | "slow_log"), ..] => document.delete(&[log]).is_ok(),
            _ => false,
        };
    }
    is_changed
}

fn is_index(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// An action, and a step for everybody.
const REFUSAL: &str = r#"{"return": 503}"#;
const REFUSING_STEP: &str = r#"{"action": {"return": 503}}"#;

fn put(document: &mut Document, path: &[&str], text: &str) -> bool {
    tutti_config::parse(text.as_bytes()).is_ok_and(|part| document.put(path, part).is_ok())
}

#[cfg(test)]
mod tests {
    use tutti_config::{Context, validate};

    use super::*;

    fn pruned(text: &str) -> serde_json::Value {
        let mut document = tutti_config::parse(text.as_bytes()).unwrap();
        document.forget_source();
        let context = Context::with_modules([("php", "8.2.0")]);
        for _ in 0..9 {
            match validate(&document, &context) {
                Ok(_) => return serde_json::from_str(&document.to_json()).unwrap(),
                Err(faults) => assert!(prune(&mut document, &faults), "{faults}"),
            }
        }
        panic!("never sound: {}", document.to_json());
    }

    #[test]
    fn what_is_sound_stays_and_nothing_is_opened() {
        let left = pruned(
            r#"{
                "listeners": {"*:80": {"pass": "routes"}, "*:81": {"pass": "applications/gone"}},
                "routes": [
                    {"match": {"uri": "/secret/*", "sorce": "10.0.0.1"}, "action": {"return": 403}},
                    {"match": {"uri": "/old/*"}, "action": {"pass": "applications/gone"}},
                    {"action": {"pass": "applications/site"}}
                ],
                "applications": {
                    "gone": {"type": "php 5", "root": "/old"},
                    "site": {"type": "php", "root": "/site"}
                }
            }"#,
        );
        assert_eq!(
            left,
            serde_json::json!({
                "listeners": {"*:80": {"pass": "routes"}},
                "routes": [
                    {"action": {"return": 503}},
                    {"match": {"uri": "/old/*"}, "action": {"return": 503}},
                    {"action": {"pass": "applications/site"}}
                ],
                "applications": {"site": {"type": "php", "root": "/site"}}
            })
        );
    }

    #[test]
    fn named_routes_settings_and_logs_are_taken_one_by_one() {
        let left = pruned(
            r#"{
                "listeners": {"*:80": {"pass": "routes/a"}},
                "routes": {"a": [{"action": {"retrun": 1}}], "b": []},
                "settings": {"http": {"nonsense": 1}, "listen_threads": 2},
                "access_log": 7
            }"#,
        );
        assert_eq!(
            left,
            serde_json::json!({
                "listeners": {"*:80": {"pass": "routes/a"}},
                "routes": {"a": [{"action": {"return": 503}}], "b": []},
                "settings": {"listen_threads": 2},
            })
        );
    }
}
