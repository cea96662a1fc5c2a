//! The JSON Schema compared with the checks that it is made from, by an independent validator (python3-jsonschema).

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod modules;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use modules::context;
use serde_json::{Value, json};
use tutti_config::{parse, reference_markdown, schema, validate};

/// Prints for each document whether it is valid. The schema itself is checked first.
const VALIDATOR: &str = "
import json, sys
from jsonschema import Draft202012Validator as Validator
schema, documents = json.load(sys.stdin)
Validator.check_schema(schema)
validator = Validator(schema)
json.dump([validator.is_valid(document) for document in documents], sys.stdout)
";

fn is_valid(documents: &[Value]) -> Vec<bool> {
    // Debian's own Python has Debian's packages.
    let mut child = Command::new("/usr/bin/python3")
        .args(["-c", VALIDATOR])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3");
    let mut input = child.stdin.take().unwrap();
    input
        .write_all(json!([schema(), documents]).to_string().as_bytes())
        .unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "is python3-jsonschema installed?");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Whole documents of the goldens that are JSON.
fn goldens() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/config");
    let mut goldens = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let sent = text
            .strip_prefix("=== put /\n")
            .and_then(|rest| rest.split("\n=== ").next());
        if let Some(sent) = sent {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            goldens.push((name, sent.to_owned()));
        }
    }
    goldens.sort();
    goldens
}

/// The rules that a schema can express: names, types, ranges, required members and members that exclude each other.
fn is_for_a_schema(message: &str) -> bool {
    let beginnings = [
        "unknown option",
        "the value is ",
        "the number is ",
        "the required option",
        "one of the options",
    ];
    beginnings
        .iter()
        .any(|beginning| message.starts_with(beginning))
        || message.contains("exclude each other")
        // A rule that depends on the value of another option is not in this schema.
        || (message.contains("has no effect without") && !message.contains("without `\""))
}

#[test]
fn the_schema_accepts_what_the_server_accepts_and_refuses_what_a_schema_can_refuse() {
    let mut cases = Vec::new();
    for (name, text) in goldens() {
        let Ok(document) = parse(text.as_bytes()) else {
            continue;
        };
        let faults = validate(&document, &context(&name)).err();
        let json: Value = serde_json::from_str(&document.to_json()).unwrap();
        cases.push((name, json, faults));
    }
    let documents: Vec<Value> = cases.iter().map(|(_, json, _)| json.clone()).collect();
    let mut wrong = Vec::new();
    let mut counted = (0, 0);
    for ((name, _, faults), is_valid) in cases.iter().zip(is_valid(&documents)) {
        match faults {
            None => {
                counted.0 += 1;
                if !is_valid {
                    wrong.push(format!(
                        "{name}: accepted by the server, refused by the schema"
                    ));
                }
            }
            Some(faults) if faults.0.iter().any(|fault| is_for_a_schema(&fault.message)) => {
                counted.1 += 1;
                if is_valid {
                    wrong.push(format!("{name}: accepted by the schema, refused: {faults}"));
                }
            }
            Some(_) => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(counted.0 > 30 && counted.1 > 20, "{counted:?}");
}

#[test]
fn schema_and_reference_name_every_option() {
    fn names(table: &'static tutti_config::table::Object, page: &str, schema: &Value) {
        for option in table.all() {
            assert!(
                page.contains(&format!("| `{}` |", option.name)),
                "{}",
                option.name
            );
            let property = &schema["$defs"][table.name]["properties"][option.name];
            assert!(
                property["description"].is_string(),
                "{} of {}",
                option.name,
                table.name
            );
        }
    }
    let (page, schema) = (reference_markdown(), schema());
    for table in [
        &tutti_config::table::ROOT,
        &tutti_config::table::ACTION,
        &tutti_config::table::HTTP,
    ] {
        names(table, &page, &schema);
    }
    for known in tutti_config::table::TYPES {
        names(known.object, &page, &schema);
    }
}

#[test]
fn places_that_share_a_path_item_have_the_parameters_of_their_path() {
    let shared = tutti_config::openapi(serde_json::Map::new(), serde_json::Map::new());
    let served = tutti_config::without_shared_paths(shared.clone());
    let at = |reference: &Value| shared.pointer(&reference.as_str().unwrap()[1..]);
    for (path, place) in shared["paths"].as_object().unwrap() {
        let item = at(&place["$ref"]).unwrap();
        assert!(item.get("parameters").is_none(), "{path}");
        let parameters = place.get("parameters").and_then(Value::as_array);
        let parameters = parameters.into_iter().flatten();
        let reported: Vec<_> = parameters
            .map(|one| at(&one["$ref"]).unwrap()["name"].as_str().unwrap())
            .collect();
        let segments = path.split('/');
        let named: Vec<_> = segments
            .filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
            .collect();
        assert_eq!(reported, named, "{path}");

        let one = &served["paths"][path];
        assert!(one.get("$ref").is_none(), "{path}");
        assert_eq!(one["get"], item["get"], "{path}");
        assert_eq!(one.get("parameters"), place.get("parameters"), "{path}");
    }
}
