//! Several files in several languages, with variables of the environment, as one configuration.

#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use tutti_config::{Diagnostic, File, ValidationContext, combine, validate};

fn file(name: &str, text: &str) -> File {
    File {
        name: name.to_owned(),
        bytes: text.as_bytes().to_vec(),
    }
}

fn environment(name: &str) -> Option<String> {
    match name {
        "PORT" => Some("8081".to_owned()),
        "SITE" => Some("/srv/\"quoted\"".to_owned()),
        "YES" => Some("true".to_owned()),
        "EMPTY" => Some(String::new()),
        _ => None,
    }
}

fn json(files: &[File]) -> String {
    match combine(files, &environment) {
        Ok(document) => document.root().to_compact_json(),
        Err(faults) => panic!("{faults}"),
    }
}

fn faults(files: &[File]) -> Vec<Diagnostic> {
    let checked = combine(files, &environment)
        .and_then(|document| validate(&document, &ValidationContext::default()).map(|_| ()));
    checked.unwrap_err().0
}

#[test]
fn objects_of_all_files_are_joined_in_order() {
    let files = [
        file(
            "a.json",
            r#"{"$schema": "x", "settings": {"listen_threads": 1}} // one"#,
        ),
        file(
            "b.yaml",
            "settings:\n  http: {idle_timeout: 2}\nroutes: []\n",
        ),
        file("c.toml", "[settings.http]\nsend_timeout = 3\n"),
    ];
    assert_eq!(
        json(&files),
        r#"{"settings":{"listen_threads":1,"http":{"idle_timeout":2,"send_timeout":3}},"routes":[]}"#
    );
}

#[test]
fn an_option_set_in_two_files_is_reported_with_both_places() {
    let files = [
        file("a.json", "{\"routes\": [],\n \"access_log\": \"/a\"}"),
        file(
            "b.yaml",
            "access_log:\n  path: /b\nroutes:\n  - action: {return: 200}\n",
        ),
    ];
    let faults = faults(&files);
    let reported: Vec<String> = faults
        .iter()
        .map(|fault| format!("{}{}", fault.place(), fault.message))
        .collect();
    assert_eq!(
        reported,
        [
            "b.yaml:2:3: `/access_log` is set twice, first at a.json:2:16",
            "b.yaml:4:3: `/routes` is set twice, first at a.json:1:12",
        ]
    );
    assert!(
        faults[1]
            .suggestion
            .as_ref()
            .unwrap()
            .contains("named routes can each have a file")
    );
}

#[test]
fn faults_of_all_files_are_reported_each_in_its_own() {
    let files = [
        file("a.json", r#"{"listners": {}}"#),
        file("b.yaml", "settings:\n  listen_threads: 0\n"),
        file("c.toml", "[settings]\nhttp = 5\n"),
    ];
    let places: Vec<String> = faults(&files)
        .iter()
        .map(|fault| fault.place().trim_end_matches(": ").to_owned())
        .collect();
    assert_eq!(places, ["a.json:1:2", "b.yaml:2:19", "c.toml:2:8"]);
    let files = [file("a.json", "[]"), file("b.yaml", "a: [\n")];
    assert_eq!(faults_of(&files), 2);
    let files = [file("a.json", "{}"), file("b.json", "[]")];
    assert_eq!(faults_of(&files), 1);
}

fn faults_of(files: &[File]) -> usize {
    combine(files, &environment).unwrap_err().0.len()
}

#[test]
fn references_are_replaced_in_values_and_names() {
    let text = r#"{"listeners": {"*:${env:PORT}": {"pass": "routes/${env:NAME:-main}"}},
        "routes": {"main": [{"action": {"share": "${env:SITE}$uri${host}"}}]},
        "access_log": "/$${env:PORT}/${env:EMPTY}x${env:EMPTY:-y}"}"#;
    assert_eq!(
        json(&[file("a.json", text)]),
        r#"{"listeners":{"*:8081":{"pass":"routes/main"}},"routes":{"main":[{"action":{"share":"/srv/\"quoted\"$uri${host}"}}]},"access_log":"/${env:PORT}/xy"}"#
    );
}

#[test]
fn a_value_that_is_one_reference_takes_the_type_of_its_option() {
    let text = r#"{"applications": {"a": {"type": "php", "root": "/", "processes": "${env:N:-4}", "preload": "${env:YES}",
            "limits": {"memory": "${env:M:-64M}", "timeout": "${env:N:-4}0"}, "environment": {"N": "${env:N:-4}"}}},
        "settings": {"http": {"server_version": "${env:NO:-false}", "idle_timeout": "${env:SITE}"}}}"#;
    let document = combine(&[file("a.json", text)], &environment).unwrap();
    let at = |path: &[&str]| document.get(path).unwrap().to_compact_json();
    assert_eq!(at(&["applications", "a", "processes"]), "4");
    assert_eq!(at(&["applications", "a", "preload"]), "true");
    assert_eq!(at(&["applications", "a", "limits", "memory"]), "\"64M\"");
    // Text around it makes it a string, and so does an option of type string.
    assert_eq!(at(&["applications", "a", "limits", "timeout"]), "\"40\"");
    assert_eq!(at(&["applications", "a", "environment", "N"]), "\"4\"");
    assert_eq!(at(&["settings", "http", "server_version"]), "false");
    let faults = faults(&[file("a.json", text)]);
    assert!(
        faults
            .iter()
            .any(|fault| fault.pointer.as_str() == "/settings/http/idle_timeout")
    );
}

#[test]
fn a_reference_that_cannot_be_replaced_is_reported_with_its_place() {
    for (text, message) in [
        (
            "access_log: ${env:NONE}",
            "the environment variable `NONE` is not set",
        ),
        ("access_log: /x${env:PORT", "a `${env:` is not closed"),
        (
            "access_log: ${env:A B}",
            "`A B` is not the name of a variable",
        ),
        ("access_log: ${env:}", "`` is not the name of a variable"),
    ] {
        let faults = faults(&[file("a.yaml", text)]);
        assert_eq!(faults.len(), 1, "{text}");
        assert_eq!(faults[0].message, message);
        assert_eq!(faults[0].place(), "a.yaml:1:13: ");
        assert_eq!(faults[0].pointer.as_str(), "/access_log");
    }
    let twice = r#"{"applications": {"x": {"type": "php"}, "${env:NONE:-x}": {"type": "php"}}}"#;
    let faults = faults(&[file("a.json", twice)]);
    assert!(faults[0].message.contains("is repeated"));
}
