//! Rules that hold for every document and every change.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::Index;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Map, Value, json};
use tutti_config::model::{Action, ActionKind};
use tutti_config::table::{
    HttpConnectionOptions, HttpOptions, HttpRequestOptions, MaintenanceOptions, Opt,
    RequestIdOptions, ServerOptions, SlowLogOptions, ValueKind,
};
use tutti_config::{
    Config, Diagnostics, Document, FaultKind, ValidationContext, model, parse, validate,
};
use tutti_options::Options;

fn context() -> ValidationContext {
    ValidationContext::with_modules([("php", "8.2.35"), ("external", "")])
}

/// Returns all request bodies of the cases.
fn corpus() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/config");
    let mut corpus = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        if let Some((_, rest)) = text.split_once("=== put /\n") {
            corpus.push(rest.split("=== ").next().unwrap().to_owned());
        }
    }
    assert!(corpus.len() > 100);
    corpus
}

static CORPUS: LazyLock<Vec<String>> = LazyLock::new(corpus);
static VALID: LazyLock<Vec<Value>> = LazyLock::new(valid_corpus);

fn valid_corpus() -> Vec<Value> {
    let valid = |text: &String| {
        let document = parse(text.as_bytes()).ok()?;
        validate(&document, &context()).ok()?;
        serde_json::from_str(&document.to_json()).ok()
    };
    let corpus: Vec<Value> = CORPUS.iter().filter_map(valid).collect();
    assert!(corpus.len() > 25, "{}", corpus.len());
    corpus
}

fn check_faults(faults: &Diagnostics, document: Option<&Document>, sent: &[u8]) {
    assert!(!faults.0.is_empty());
    for fault in &faults.0 {
        if let Some(document) = document {
            assert!(
                document.at(&fault.pointer).is_some(),
                "{} does not exist: {}",
                fault.pointer,
                fault.message
            );
        }
        if let Some(location) = fault.location {
            assert!(location.offset + location.length <= sent.len());
            assert!(location.line >= 1 && location.column >= 1);
        }
    }
    let _ = faults.to_json().to_string();
    for coloured in [false, true] {
        let _ = tutti_config::excerpt(faults, &[("sent", sent)], coloured);
    }
}

fn try_bytes(sent: &[u8]) {
    match parse(sent) {
        Err(faults) => {
            assert_eq!(faults.kind(), FaultKind::Syntax);
            check_faults(&faults, None, sent);
        }
        Ok(document) => {
            assert_eq!(parse(document.to_json().as_bytes()).unwrap(), document);
            if let Err(faults) = validate(&document, &context()) {
                check_faults(&faults, Some(&document), sent);
            }
        }
    }
}

fn json() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        Just("pass".to_owned()),
        Just("routes".to_owned()),
        Just("applications/site".to_owned()),
        Just("*:80".to_owned()),
        Just("~(".to_owned()),
        Just("$uri".to_owned()),
        Just("%zz".to_owned()),
        Just(String::new()),
        Just("php".to_owned()),
        Just("return".to_owned()),
        Just("match".to_owned()),
        Just("action".to_owned()),
        Just("share".to_owned()),
        any::<String>(),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1000.0..1000.0_f64).prop_map(Value::from),
        word.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((word.clone(), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Pointers of all values, as serde_json writes them.
fn pointers(value: &Value, at: String, all: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                pointers(
                    value,
                    format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")),
                    all,
                );
            }
        }
        Value::Array(elements) => {
            for (index, value) in elements.iter().enumerate() {
                pointers(value, format!("{at}/{index}"), all);
            }
        }
        _ => {}
    }
    all.push(at);
}

#[derive(Clone, Debug)]
enum Edit {
    Replace(Index, Value),
    Remove(Index),
    Rename(Index, String),
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        (any::<Index>(), json()).prop_map(|(place, value)| Edit::Replace(place, value)),
        any::<Index>().prop_map(Edit::Remove),
        (any::<Index>(), "[a-z_]{0,12}").prop_map(|(place, name)| Edit::Rename(place, name)),
    ]
}

fn apply(value: &mut Value, edit: &Edit) {
    let mut all = Vec::new();
    pointers(value, String::new(), &mut all);
    match edit {
        Edit::Replace(place, new) => {
            if let Some(old) = value.pointer_mut(place.get::<String>(&all)) {
                *old = new.clone();
            }
        }
        Edit::Remove(place) | Edit::Rename(place, _) => {
            let Some((parent, name)) = place.get(&all).rsplit_once('/') else {
                return;
            };
            let name = name.replace("~1", "/").replace("~0", "~");
            match (value.pointer_mut(parent), edit) {
                (Some(Value::Object(members)), Edit::Rename(_, new)) => {
                    if let Some(value) = members.shift_remove(&name) {
                        members.insert(new.clone(), value);
                    }
                }
                (Some(Value::Object(members)), _) => drop(members.shift_remove(&name)),
                (Some(Value::Array(elements)), Edit::Remove(_)) => {
                    drop(elements.remove(name.parse().unwrap()))
                }
                _ => {}
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn printing_and_parsing_give_the_same(value in json()) {
        let sent = value.to_string();
        let document = parse(sent.as_bytes()).unwrap();
        let printed = document.to_json();
        let again = parse(printed.as_bytes()).unwrap();
        prop_assert_eq!(&again, &document);
        prop_assert_eq!(again.to_json(), printed.as_str());
        prop_assert_eq!(document.root().to_compact_json(), sent.as_str());
        // Both read by the same parser: it does not read every float exactly.
        let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        prop_assert_eq!(read(&printed), read(&sent));
    }

    #[test]
    fn any_bytes_are_parsed_or_refused(sent in prop::collection::vec(any::<u8>(), 0..200)) {
        try_bytes(&sent);
    }

    #[test]
    fn json_like_bytes_are_parsed_or_refused(sent in r#"[{}\[\],:"'\\/*#a-fu0-9.eE+\- \n\tö]{0,80}"#) {
        try_bytes(sent.as_bytes());
    }

    #[test]
    fn damaged_configurations_are_refused_in_place(
        which in any::<Index>(), at in any::<Index>(), length in 0..6_usize, new in r#"[{}\[\],:"'\\a-z0-9 \n]{0,4}"#,
    ) {
        let mut sent = which.get(&CORPUS).clone().into_bytes();
        let start = at.index(sent.len() + 1);
        let end = (start + length).min(sent.len());
        sent.splice(start..end, new.bytes());
        try_bytes(&sent);
    }

    #[test]
    fn edited_configurations_are_valid_or_refused_in_place(
        which in any::<Index>(), edits in prop::collection::vec(edit(), 1..4),
    ) {
        let mut value = which.get(&VALID).clone();
        for edit in &edits {
            apply(&mut value, edit);
        }
        try_bytes(value.to_string().as_bytes());
    }

    #[test]
    fn edits_by_path_keep_locations_in_what_was_sent(
        which in any::<Index>(), place in any::<Index>(), part in json(), kind in 0..3_u8,
    ) {
        let before = which.get(&VALID).clone();
        let mut all = Vec::new();
        pointers(&before, String::new(), &mut all);
        let pointer = tutti_config::Pointer::from_escaped(place.get::<String>(&all));
        let path: Vec<String> = pointer.segments().collect();
        let mut document = parse(before.to_string().as_bytes()).unwrap();
        let sent = part.to_string();
        let part = parse(sent.as_bytes()).unwrap();
        let changed = match kind {
            0 => document.put(&path, part),
            1 => document.post(&path, part),
            _ => document.delete(&path),
        };
        let result = changed.and_then(|()| validate(&document, &context()).map(drop));
        if let Err(faults) = result {
            check_faults(&faults, Some(&document), if kind == 2 { b"" } else { sent.as_bytes() });
        }
    }
}

/// The table is the only place with defaults; the types' own must agree with it.
#[test]
fn defaults_of_types_are_those_of_the_table() {
    let config = validate(&Document::empty(), &context()).unwrap();
    assert_eq!(config.settings, model::Settings::default());
    let log = validate(
        &parse(br#"{"access_log": {"path": "/l"}}"#).unwrap(),
        &context(),
    )
    .unwrap()
    .access_logs
    .remove(0);
    let table: String = serde_json::from_str(
        tutti_config::table::ACCESS_LOG
            .option("format")
            .unwrap()
            .default,
    )
    .unwrap();
    assert!(matches!(log.format, model::LogFormat::Text(format) if format.source() == table));
}

#[test]
fn unchanged_applications_are_equal() {
    let application = |processes: u32| {
        let text = format!(
            r#"{{"applications": {{"a": {{"type": "php", "root": "/r", "processes": {processes}}}}}}}"#
        );
        let config = validate(&parse(text.as_bytes()).unwrap(), &context()).unwrap();
        config.applications["a"].clone()
    };
    assert_eq!(application(1), application(1));
    assert_ne!(application(1), application(2));
}

#[test]
fn every_default_is_json_of_the_right_kind() {
    for known in tutti_config::table::TYPES {
        for option in known
            .object
            .all()
            .filter(|option| !option.default.is_empty())
        {
            assert!(
                serde_json::from_str::<Value>(option.default).is_ok(),
                "{}",
                option.name
            );
        }
    }
}

/// A document with so many routes and applications, and a name of so many KiB.
fn large(count: usize) -> String {
    let mut text =
        String::from("{\n\"listeners\": {\"*:80\": {\"pass\": \"routes\"}},\n\"routes\": [\n");
    for number in 0..count {
        let comma = if number == 0 { "" } else { ",\n" };
        let _ = write!(
            text,
            "{comma}{{\n\"match\": {{\n\"host\": \"h{number}.example.com\",\n\"uri\": \"/x{number}/*\"\n}},\n\
             \"action\": {{\"pass\": \"applications/a{number}\"}}\n}}"
        );
    }
    text.push_str("],\n\"applications\": {\n");
    for number in 0..count {
        let comma = if number == 0 { "" } else { ",\n" };
        let _ = write!(
            text,
            "{comma}\"a{number}\": {{\"type\": \"php\", \"root\": \"/r\"}}"
        );
    }
    let _ = write!(
        text,
        ",\n\"{}\": {{\"type\": \"php\", \"root\": \"/r\"}}",
        "n".repeat(count << 10)
    );
    text.push_str("}}\n");
    text
}

/// The processor time that a document takes to be read and checked.
fn cost(text: &str, applications: usize) -> Duration {
    let began = processor_time();
    let document = parse(text.as_bytes()).unwrap();
    let config = validate(&document, &context()).unwrap();
    let took = processor_time() - began;
    assert_eq!(config.applications.len(), applications);
    took
}

fn processor_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap()
}

/// Names of a megabyte and documents of 10,000 lines are nothing special: four times the document takes four times the time, and quadratic
/// work sixteen times. Measured again if other work of the machine may have disturbed it.
#[test]
fn large_documents_take_time_in_proportion_to_their_size() {
    let (small, large) = (large(350), large(1400));
    assert!(large.lines().count() > 10_000);
    let ratios = (0..8).map(|_| cost(&large, 1401).as_secs_f64() / cost(&small, 351).as_secs_f64());
    let mut seen = Vec::new();
    let is_in_proportion = ratios
        .inspect(|ratio| seen.push(*ratio))
        .any(|ratio| ratio < 8.0);
    assert!(is_in_proportion, "{seen:?}");
}

/// A value of a number or switch that is not its default.
fn other_value(row: &Opt) -> Option<Value> {
    let default: Value = serde_json::from_str(row.default).unwrap_or(Value::Null);
    let candidates = match row.kind {
        ValueKind::Boolean => [json!(true), json!(false)],
        ValueKind::Integer(least, _) | ValueKind::Size(least, _) => {
            [json!(least + 1), json!(least + 2)]
        }
        ValueKind::Number(least, _) => [json!(least.max(0.0) + 0.5), json!(least.max(0.0) + 0.25)],
        _ => return None,
    };
    candidates.into_iter().find(|value| *value != default)
}

/// Asserts that each number and switch of `T` is in the part of the model that `part` finds, when `document` has it.
fn each_reaches<T: Options>(document: impl Fn(Value) -> Value, part: impl Fn(&Config) -> &T) {
    let mut tried = 0;
    for row in T::ROWS {
        let Some(value) = other_value(row) else {
            continue;
        };
        let text = document(json!({row.name: value})).to_string();
        let config = validate(&parse(text.as_bytes()).unwrap(), &context());
        let config = config.unwrap_or_else(|faults| panic!("{text}: {faults:?}"));
        let mut members = Map::new();
        part(&config).write(&mut members);
        assert_eq!(
            members[row.name],
            value,
            "{} of {}",
            row.name,
            T::TABLE.name
        );
        tried += 1;
    }
    assert!(tried > 0, "{} has no number", T::TABLE.name);
}

#[test]
fn every_number_and_switch_of_http_reaches_each_level() {
    let settings = |more| json!({"settings": {"http": more}});
    each_reaches::<HttpConnectionOptions>(settings, |config| {
        &config.settings.http.options.connection
    });
    each_reaches::<HttpRequestOptions>(settings, |config| &config.settings.http.options.request);
    let listener =
        |more| json!({"routes": [], "listeners": {"*:80": {"pass": "routes", "http": more}}});
    each_reaches::<HttpConnectionOptions>(listener, |config| {
        &config.scopes[0].http.options.connection
    });
    each_reaches::<HttpRequestOptions>(listener, |config| &config.scopes[0].http.options.request);
    each_reaches::<HttpRequestOptions>(
        |more| json!({"routes": [{"action": {"return": 200, "http": more}}]}),
        |config| &config.scopes[0].http.options.request,
    );
}

/// Adding a number or a switch takes its row, and nothing that copies it.
#[test]
fn every_number_and_switch_reaches_the_model() {
    let merged = |mut object: Value, more: Value| {
        let members = object.as_object_mut().unwrap();
        members.extend(more.as_object().unwrap().clone());
        object
    };
    each_reaches(
        |more| json!({"routes": [], "listeners": {"*:80": merged(json!({"pass": "routes"}), more)}}),
        |config| &config.listeners[0].options,
    );
    let server = || json!({"192.0.2.1:80": {}});
    let upstream = |more| json!({"upstreams": {"u": merged(json!({"servers": server()}), more)}});
    each_reaches(upstream, |config| &config.upstreams["u"].group);
    each_reaches(upstream, |config| &config.upstreams["u"].options);
    each_reaches(
        |more| {
            let listener = json!({"stream": "upstreams/u", "udp": more});
            merged(
                upstream(json!({})),
                json!({"listeners": {"udp:*:53": listener}}),
            )
        },
        |config| config.listeners[0].options.udp.as_ref().unwrap(),
    );
    each_reaches(
        |more| upstream(json!({"health_check": more})),
        |config| config.upstreams["u"].group.health_check.as_ref().unwrap(),
    );
    each_reaches::<ServerOptions>(
        |more| json!({"upstreams": {"u": {"servers": {"192.0.2.1:80": more}}}}),
        |config| &config.upstreams["u"].servers[0].options,
    );
    each_reaches::<HttpOptions>(
        |more| json!({"settings": {"http": more}}),
        |config| &config.settings.http.options,
    );
    each_reaches::<SlowLogOptions>(
        |more| json!({"slow_log": merged(json!({"path": "/slow.log"}), more)}),
        |config| &config.slow_log.as_ref().unwrap().options,
    );
    each_reaches(
        |more| {
            let forwarded = json!({"source": "192.0.2.1", "client_ip": "X-Forwarded-For"});
            let listener = json!({"pass": "routes", "forwarded": merged(forwarded, more)});
            json!({"routes": [], "listeners": {"*:80": listener}})
        },
        |config| &config.listeners[0].forwarded.as_ref().unwrap().options,
    );
    each_reaches::<RequestIdOptions>(
        |more| json!({"settings": {"http": {"request_id": more}}}),
        |config| &config.settings.http.request_id.as_ref().unwrap().options,
    );
    each_reaches(
        |more| {
            let telemetry = json!({"endpoint": "http://192.0.2.1", "protocol": "http"});
            json!({"settings": {"telemetry": merged(telemetry, more)}})
        },
        |config| &config.settings.telemetry.as_ref().unwrap().options,
    );
    each_reaches::<MaintenanceOptions>(
        |more| json!({"settings": {"maintenance": more}}),
        |config| &config.settings.maintenance.as_ref().unwrap().options,
    );
    fn action(config: &Config) -> &Action {
        &config.routes.list[0].steps[0].action
    }
    let with_action =
        |action| json!({"upstreams": {"u": {"servers": server()}}, "routes": [{"action": action}]});
    each_reaches(
        |more| {
            let share = json!({"share": "/www$uri", "precompressed": "gzip", "listing": "json"});
            with_action(merged(share, more))
        },
        |config| match &action(config).kind {
            ActionKind::Share(share) => &share.options,
            other => panic!("{other:?}"),
        },
    );
    each_reaches(
        |more| {
            let mirror = merged(json!({"to": "upstreams/u"}), more);
            with_action(json!({"return": 200, "mirror": mirror}))
        },
        |config| {
            let delivery = action(config).delivery.as_ref().unwrap();
            &delivery.mirror.as_ref().unwrap().options
        },
    );
    each_reaches(
        |more| {
            let cors = merged(json!({"origins": "https://app.example"}), more);
            with_action(json!({"return": 200, "cors": cors}))
        },
        |config| {
            let guard = action(config).guard.as_ref().unwrap();
            &guard.cors.as_ref().unwrap().options
        },
    );
}
