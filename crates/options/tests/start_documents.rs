//! A host reads the start document that the server writes.

#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use serde_json::{Map, Value, json};
use tutti_options::application::Common;
use tutti_options::isolation::Isolation;
use tutti_options::types::{Special, TYPES};
use tutti_options::{Complaints, Options};

fn applications() -> Vec<(&'static str, Value)> {
    vec![
        (
            "php",
            json!({"root": "/r", "mode": "resident", "script": "a.php"}),
        ),
        (
            "php",
            json!({"targets": {"b": {"root": "/b"}, "a": {"root": "/a", "index": "x.php"}},
                "options": {"file": "/php.ini", "admin": {"b": "1", "a": "2"}}}),
        ),
        (
            "python",
            json!({"module": "m", "path": "/one", "threads": 3, "protocol": "asgi"}),
        ),
        (
            "python",
            json!({"targets": {"t": {"module": "m", "factory": true, "prefix": "/p/"}}}),
        ),
        (
            "perl",
            json!({"script": "/a.psgi", "thread_stack_size": 65_536}),
        ),
        (
            "external",
            json!({"executable": "/bin/x", "arguments": ["a", ""], "protocol": "http", "probe": "/ready"}),
        ),
        (
            "node",
            json!({"script": "server.js", "arguments": ["a", ""], "runtime": "/opt/node"}),
        ),
        (
            "ruby",
            json!({"script": "/config.ru", "hooks": "/hooks.rb"}),
        ),
        (
            "java",
            json!({"webapp": "/a.war", "classpath": ["/b.jar"], "servlet": "6.0", "java_home": "/j"}),
        ),
        (
            "wasm",
            json!({"module": "/m", "request_handler": "r", "malloc_handler": "m", "free_handler": "f"}),
        ),
        (
            "wasm-wasi-component",
            json!({"component": "/c", "access": {"filesystem": ["/f"]}}),
        ),
        (
            "cgi",
            json!({"root": "/r", "script": "a.cgi", "prefix": "/cgi-bin"}),
        ),
        (
            "cgi",
            json!({"targets": {"a": {"root": "/a", "index": "x.pl", "extensions": [".pl", ".cgi"]}}}),
        ),
    ]
}

#[test]
fn every_type_is_read_as_it_was_written() {
    let applications = applications();
    for known in TYPES {
        assert!(applications.iter().any(|(name, _)| *name == known.name));
    }
    for (name, written) in applications {
        let special = Special::of(name, &written).unwrap();
        let mut members = Map::new();
        special.write(&mut members);
        let document = Value::Object(members);
        assert_eq!(Special::of(name, &document).unwrap(), special, "{document}");
        for (option, value) in written.as_object().unwrap() {
            let given = document.get(option);
            assert!(given.is_some(), "{name}: {option}: {value} is lost");
        }
    }
}

#[test]
fn defaults_are_written() {
    let document = serde_json::to_value(Common::default()).unwrap();
    assert_eq!(document["processes"], 1);
    assert_eq!(document["limits"]["start_timeout"], 60);
    assert_eq!(document["limits"]["queue"]["length"], 20_000);
    let again: Common = serde_json::from_value(document).unwrap();
    assert_eq!(again, Common::default());
}

/// Main has no other check between a grant and the namespaces that it makes: an unreadable part must not become a
/// default.
#[test]
fn unreadable_parts_are_refused_wherever_they_are() {
    for (written, place) in [
        (json!({"namespaces": {"pid": "yes"}}), "namespaces/pid"),
        (
            json!({"uidmap": [{"container": 0, "host": 0, "size": 1}, {"container": -1, "host": 0, "size": 1}]}),
            "uidmap/1/container",
        ),
        (
            json!({"gidmap": [{"container": 0, "size": 1}]}),
            "gidmap/0/host",
        ),
        (json!({"cgroup": {}}), "cgroup/path"),
        (json!({"rootfs": 1}), "rootfs"),
    ] {
        let unreadable = Isolation::from_json(&written).unwrap_err();
        assert_eq!(unreadable.member, place);
    }
    let text = r#"{"new_privs": 1}"#;
    let error = serde_json::from_str::<Isolation>(text)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("`new_privs` must be `true` or `false`"),
        "{error}"
    );
}

#[test]
fn a_process_is_killed_at_twice_the_limit_that_replaces_it_by_default() {
    let above = |limits: Value| {
        let common = Common::from_json(&json!({"limits": limits})).unwrap();
        common.limits.kill_above()
    };
    assert_eq!(above(json!({})), None);
    assert_eq!(above(json!({"memory": "1K"})), Some(2048));
    assert_eq!(above(json!({"memory": 1000, "memory_max": 0})), None);
    assert_eq!(above(json!({"memory_max": 5})), Some(5));
}

#[test]
fn complaints_say_where() {
    let written =
        json!({"targets": {"a": {"module": "m", "prefix": "p"}}, "thread_stack_size": 20_000});
    let special = Special::of("python", &written).unwrap();
    let is_written = |_: &[String]| true;
    let mut complaints = Complaints::new(&is_written);
    special.check(&mut complaints);
    let list = complaints.into_list();
    let places: Vec<String> = list.iter().map(|one| one.path.join("/")).collect();
    assert_eq!(places, ["thread_stack_size", "targets/a/prefix"]);
    assert!(list.iter().all(|one| one.hint.is_some()));
}
