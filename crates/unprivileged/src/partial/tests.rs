use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value as Json, json};
use tutti_config::table::{Object, ROOT, TYPES, Text, ValueKind};
use tutti_config::validate;
use tutti_script::{Modules, ScriptModule};

use super::*;

fn parsed(text: &str) -> Document {
    let mut document = tutti_config::parse(text.as_bytes()).unwrap();
    document.forget_source();
    document
}

/// Disables parts until the rest is valid. Returns the rest and all faults.
fn pruned(mut document: Document, context: &ValidationContext) -> (Json, Vec<Diagnostic>) {
    let mut all = Vec::new();
    for _ in 0..9 {
        match validate(&document, context) {
            Ok(_) => return (serde_json::from_str(&document.to_json()).unwrap(), all),
            Err(faults) => {
                let dependent = prune(&mut document, &faults);
                all.extend(faults.0);
                all.extend(dependent.expect("nothing can be disabled").0);
            }
        }
    }
    panic!("never sound: {}", document.to_json());
}

fn left(text: &str) -> Json {
    pruned(
        parsed(text),
        &ValidationContext::with_modules([("php", "8.2.0")]),
    )
    .0
}

#[test]
fn what_is_sound_stays_and_nothing_is_opened() {
    let left = left(
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
            },
            "settings": {"maintenance": {"except": 7}}
        }"#,
    );
    assert_eq!(
        left,
        json!({
            "listeners": {"*:80": {"pass": "routes"}},
            "routes": [
                {"action": {"return": 503}},
                {"match": {"uri": "/old/*"}, "action": {"return": 503}},
                {"action": {"pass": "applications/site"}}
            ],
            "applications": {"site": {"type": "php", "root": "/site"}},
            "settings": {"maintenance": {}}
        })
    );
}

#[test]
fn named_routes_settings_and_logs_are_taken_one_by_one() {
    let left = left(
        r#"{
            "listeners": {"*:80": {"pass": "routes/a"}, "*:81": {"pass": "routes/0"}},
            "routes": {"a": [{"action": {"retrun": 1}}], "b": [], "0": [{"action": {"return": 200}}, {"action": {"return": "no"}}]},
            "settings": {"http": {"nonsense": 1, "max_body_size": 7}, "listen_threads": 2},
            "access_log": ["/a.log", 7, "/b.log", 8]
        }"#,
    );
    assert_eq!(
        left,
        json!({
            "listeners": {"*:80": {"pass": "routes/a"}, "*:81": {"pass": "routes/0"}},
            "routes": {
                "a": [{"action": {"return": 503}}], "b": [],
                "0": [{"action": {"return": 200}}, {"action": {"return": 503}}]
            },
            "settings": {"http": {"max_body_size": 7}, "listen_threads": 2},
            "access_log": ["/a.log", "/b.log"]
        })
    );
}

/// Issue 28, 1.2: without a module that a spooler needed, no site was served.
#[test]
fn a_spooler_or_a_schedule_without_its_application_takes_nothing_else_with_it() {
    let left = left(
        r#"{
            "listeners": {"*:80": {"pass": "routes", "error_pages": {"404": {"pass": "applications/gone"}, "403": {"return": 404}}}},
            "routes": [{"match": {"uri": "/post"}, "action": {"pass": "spoolers/mail"}}, {"action": {"share": "/www$uri", "fallback": {"pass": "applications/gone"}}}],
            "applications": {"gone": {"type": "ruby", "script": "/app.ru"}},
            "spoolers": {"mail": {"pass": "applications/gone"}},
            "schedules": {"nightly": {"every": 60, "command": ["x"], "application": "gone"}}
        }"#,
    );
    assert_eq!(
        left,
        json!({
            "listeners": {"*:80": {"pass": "routes", "error_pages": {"403": {"return": 404}}}},
            "routes": [
                {"match": {"uri": "/post"}, "action": {"return": 503}},
                {"action": {"share": "/www$uri", "fallback": {"return": 503}}}
            ],
            "applications": {}, "spoolers": {}, "schedules": {}
        })
    );
}

/// A configuration with every kind of reference.
const EVERYTHING: &str = r#"{
    "listeners": {
        "*:80": {"pass": "routes/main", "error_pages": {"404": {"pass": "applications/pages"}, "403": {"return": 404}}},
        "*:81": {"application": "old"},
        "*:443": {"pass": "upstreams/up", "tls": {"certificate": ["one", "two", {"acme": "ca", "names": ["a.example"]}]}},
        "*:444": {"pass": "upstreams/up", "tls": {"certificate": "two", "client_ca": "three"}},
        "*:445": {"stream": "streams/names"}
    },
    "streams": {"names": [{"match": {"server_name": "a.example"}, "action": {"pass": "upstreams/up"}}, {"action": {"pass": "upstreams/copies"}}]},
    "routes": {
        "main": [
            {"match": {"uri": "/limit"}, "action": {"pass": "applications/site", "limit": "few"}},
            {"match": {"uri": "/limits"}, "action": {"pass": "applications/site", "limit": ["few"]}},
            {"match": {"uri": "/cache"}, "action": {"pass": "applications/site", "cache": "pages"}},
            {"match": {"uri": "/store"}, "action": {"pass": "applications/site", "cache": {"store": "pages"}}},
            {"match": {"uri": "/mirror"}, "action": {"return": 200, "mirror": {"to": "upstreams/copies"}}},
            {"match": {"uri": "/job"}, "action": {"pass": "spoolers/mail"}},
            {"match": {"uri": "/forward"}, "action": {"return": 200, "authenticate": {"forward": {"pass": "applications/auth"}}}},
            {"match": {"uri": "/jwt"}, "action": {"return": 200, "authenticate": {"jwt": {"algorithms": ["RS256"], "jwks": {"pass": "upstreams/copies"}}}}},
            {"match": {"uri": "/share"}, "action": {"share": "/www$uri", "found": {"pass": "applications/auth"}, "fallback": {"pass": "applications/pages"}}},
            {"match": {"uri": "/page"}, "action": {"return": 404, "error_pages": {"404": {"pass": "applications/pages"}}}},
            {"match": {"uri": "/internal"}, "action": {"pass": "upstreams/up", "internal": "routes/inner"}},
            {"match": {"uri": "/internals"}, "action": {"pass": "upstreams/up", "internal": {"/x": "routes/inner"}}},
            {"match": {"uri": "/script", "if": "`${first.ok(uri)}`"}, "action": {"return": 200}},
            {"match": {"uri": "/other"}, "action": {"return": 302, "location": "`${second.ok(uri)}`"}},
            {"match": {"uri": "/proxy"}, "action": {"proxy": "https://127.0.0.1:9", "proxy_options": {"tls": {"ca": "three", "certificate": "two"}}}},
            {"action": {"pass": "routes/last"}}
        ],
        "last": [{"action": {"return": 204}}],
        "inner": [{"action": {"return": 200}}]
    },
    "applications": {
        "site": {"type": "php", "root": "/site"},
        "pages": {"type": "perl", "script": "/pages.psgi"},
        "auth": {"type": "ruby", "script": "/auth.ru"},
        "old": {"type": "php", "root": "/old"},
        "worker": {"type": "php", "root": "/worker", "mules": {"queue": {"command": ["x"]}}}
    },
    "upstreams": {
        "up": {"servers": {"127.0.0.1:9": {}}},
        "copies": {"servers": {"127.0.0.1:9": {}}},
        "tls": {"servers": {"127.0.0.1:9": {}}, "tls": {"ca": ["three"], "certificate": "two"}}
    },
    "spoolers": {"mail": {"pass": "applications/worker"}},
    "schedules": {
        "request": {"every": 60, "pass": "applications/worker"},
        "command": {"every": 60, "command": ["x"], "application": "worker"}
    },
    "limits": {"few": {"rate": "5r/s", "store": "shared"}},
    "settings": {
        "cache": {"pages": {}},
        "limit_stores": {"shared": {"valkey": {"url": "valkey://127.0.0.1"}}},
        "acme": {"ca": {"contact": "a@example.org"}},
        "js_module": ["first", "second"]
    }
}"#;

/// Everything else that is disabled if an object is missing, in the order of the document.
fn expected() -> BTreeMap<&'static str, Vec<&'static str>> {
    let site = [
        "/routes/main/0/action",
        "/routes/main/1/action",
        "/routes/main/2/action",
        "/routes/main/3/action",
    ];
    let worker = [
        "/routes/main/5/action",
        "/schedules/command",
        "/schedules/request",
        "/spoolers/mail",
    ];
    BTreeMap::from([
        ("/routes/main", vec!["/listeners/*:80"]),
        ("/routes/last", vec!["/routes/main/15/action"]),
        ("/streams/names", vec!["/listeners/*:445"]),
        (
            "/routes/inner",
            vec!["/routes/main/10/action", "/routes/main/11/action"],
        ),
        ("/applications/site", site.to_vec()),
        (
            "/applications/pages",
            vec![
                "/listeners/*:80/error_pages/404",
                "/routes/main/8/action/fallback",
                "/routes/main/9/action/error_pages/404",
            ],
        ),
        (
            "/applications/auth",
            vec!["/routes/main/6/action", "/routes/main/8/action/found"],
        ),
        ("/applications/old", vec!["/listeners/*:81"]),
        ("/applications/worker", worker.to_vec()),
        (
            "/upstreams/up",
            vec![
                "/listeners/*:443",
                "/listeners/*:444",
                "/routes/main/10/action",
                "/routes/main/11/action",
                "/listeners/*:445",
                "/streams/names",
            ],
        ),
        (
            "/upstreams/copies",
            vec![
                "/routes/main/4/action/mirror",
                "/routes/main/7/action",
                "/listeners/*:445",
                "/streams/names",
            ],
        ),
        ("/spoolers/mail", vec!["/routes/main/5/action"]),
        (
            "/limits/few",
            vec!["/routes/main/0/action", "/routes/main/1/action"],
        ),
        (
            "/settings/limit_stores/shared",
            vec![
                "/limits/few",
                "/routes/main/0/action",
                "/routes/main/1/action",
            ],
        ),
        (
            "/settings/cache/pages",
            vec!["/routes/main/2/action/cache", "/routes/main/3/action/cache"],
        ),
        (
            "/settings/acme/ca",
            vec!["/listeners/*:443/tls/certificate"],
        ),
        ("certificate one", vec!["/listeners/*:443/tls/certificate"]),
        (
            "certificate two",
            vec![
                "/listeners/*:443/tls/certificate",
                "/listeners/*:444",
                "/routes/main/14/action",
                "/upstreams/tls",
            ],
        ),
        (
            "certificate three",
            vec![
                "/listeners/*:444",
                "/routes/main/14/action",
                "/upstreams/tls",
            ],
        ),
        (
            "script first",
            vec!["/routes/main/12", "/settings/js_module"],
        ),
        (
            "script second",
            vec!["/routes/main/13/action", "/settings/js_module"],
        ),
        (
            "module php",
            [
                &[
                    "/applications/old",
                    "/applications/site",
                    "/applications/worker",
                    "/listeners/*:81",
                ][..],
                &site,
                &worker,
            ]
            .concat(),
        ),
        (
            "module perl",
            vec![
                "/applications/pages",
                "/listeners/*:80/error_pages/404",
                "/routes/main/8/action/fallback",
                "/routes/main/9/action/error_pages/404",
            ],
        ),
        (
            "module ruby",
            vec![
                "/applications/auth",
                "/routes/main/6/action",
                "/routes/main/8/action/found",
            ],
        ),
    ])
}

const MODULES: [(&str, &str); 3] = [("php", "8.2.0"), ("perl", "5.36.0"), ("ruby", "3.1.0")];

/// Returns the context of a machine without this object.
fn without(target: &ReferenceTarget) -> ValidationContext {
    let is_other = |other: ReferenceTarget| other != *target;
    let modules = MODULES.into_iter();
    let modules = modules.filter(|(kind, _)| is_other(ReferenceTarget::Module((*kind).to_owned())));
    let certificates = ["one", "two", "three"].into_iter();
    let certificates =
        certificates.filter(|name| is_other(ReferenceTarget::Certificate((*name).to_owned())));
    let scripts = ["first", "second"].into_iter();
    let scripts =
        scripts.filter(|name| is_other(ReferenceTarget::ScriptModule((*name).to_owned())));
    let script = |name: &str| ScriptModule {
        name: name.into(),
        source: "export default {ok(uri) { return '1'; }}".into(),
    };
    ValidationContext::with_modules(modules)
        .with_certificates(certificates)
        .with_js_modules(Modules::new(scripts.map(script).collect()))
}

fn name_of(target: &ReferenceTarget) -> Option<String> {
    Some(match target {
        ReferenceTarget::Part(part) => part.as_str().to_owned(),
        ReferenceTarget::Certificate(name) => format!("certificate {name}"),
        ReferenceTarget::ScriptModule(name) => format!("script {name}"),
        ReferenceTarget::Module(name) => format!("module {name}"),
        ReferenceTarget::File(_) => return None,
    })
}

/// Collects the places where two documents differ. A missing member, a value of another kind and an array of another
/// length count as a whole.
fn differences(before: &Json, after: &Json, place: &str, found: &mut BTreeSet<String>) {
    match (before, after) {
        // A step that is replaced as a whole.
        _ if before.get("match").is_some() && *after == json!({"action": {"return": 503}}) => {
            found.insert(place.to_owned());
        }
        (Json::Object(before), Json::Object(after))
            if before.get("return") == after.get("return") =>
        {
            for (name, value) in before {
                let place = format!("{place}/{}", name.replace('/', "~1"));
                match after.get(name) {
                    Some(after) => differences(value, after, &place, found),
                    None => drop(found.insert(place)),
                }
            }
        }
        (Json::Array(before), Json::Array(after)) if before.len() == after.len() => {
            for (index, (before, after)) in before.iter().zip(after).enumerate() {
                differences(before, after, &format!("{place}/{index}"), found);
            }
        }
        _ if before == after => {}
        _ => drop(found.insert(place.to_owned())),
    }
}

/// Issue 28, 1.2: each referenced object is removed once. Dependent parts are disabled and reported, and the rest
/// stays.
#[test]
fn without_any_one_thing_the_rest_is_served_and_the_reason_is_reported() {
    let whole = parsed(EVERYTHING);
    let everything = without(&ReferenceTarget::Part(Pointer::root()));
    let faults = validate(&whole, &everything).err();
    assert!(faults.is_none(), "{}", faults.unwrap());
    let expected = expected();
    let (mut seen, mut wrong) = (BTreeSet::new(), Vec::new());
    for reference in references(&whole) {
        let Some(name) = name_of(&reference.target) else {
            continue;
        };
        let Some(disabled) = expected.get(name.as_str()) else {
            panic!("what `{name}` is needed for is not written down here");
        };
        if !seen.insert(name.clone()) {
            continue;
        }
        let mut document = whole.clone();
        if let ReferenceTarget::Part(part) = &reference.target {
            let path: Vec<String> = part.segments().collect();
            document.delete(&path).unwrap();
        }
        let before: Json = serde_json::from_str(&document.to_json()).unwrap();
        let (after, faults) = pruned(document, &without(&reference.target));
        let mut differing = BTreeSet::new();
        differences(&before, &after, "", &mut differing);
        let differing: Vec<&str> = differing.iter().map(String::as_str).collect();
        let mut disabled = disabled.clone();
        disabled.sort_unstable();
        if differing != disabled {
            wrong.push(format!("without `{name}`: {differing:?}, not {disabled:?}"));
        }
        for place in disabled {
            let is_here = |fault: &Diagnostic| fault.pointer.as_str().starts_with(place);
            if !faults.iter().any(is_here) {
                wrong.push(format!("without `{name}`, `{place}` is not reported"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(expected.keys().all(|name| seen.contains(*name)), "{seen:?}");
}

/// Collects the options of this kind, of this object, that can contain a name.
fn naming(
    option: (&'static str, &'static str),
    kind: &ValueKind,
    seen: &mut Vec<&'static str>,
    found: &mut BTreeSet<(&'static str, &'static str)>,
) {
    match kind {
        ValueKind::String(Text::Name(_) | Text::Pass | Text::Module) => drop(found.insert(option)),
        ValueKind::Array(kind) | ValueKind::Map(_, kind) => naming(option, kind, seen, found),
        ValueKind::OneOf(kinds) => {
            for kind in *kinds {
                naming(option, kind, seen, found);
            }
        }
        ValueKind::Object(table) => naming_of(table(), seen, found),
        ValueKind::Application => {
            for known in TYPES {
                naming_of(known.object, seen, found);
            }
        }
        _ => {}
    }
}

fn naming_of(
    table: &'static Object,
    seen: &mut Vec<&'static str>,
    found: &mut BTreeSet<(&'static str, &'static str)>,
) {
    if seen.contains(&table.name) {
        return;
    }
    seen.push(table.name);
    for option in table.all() {
        naming((table.name, option.name), &option.kind, seen, found);
    }
}

#[test]
fn the_example_has_every_option_that_is_a_name() {
    let mut options = BTreeSet::new();
    naming_of(&ROOT, &mut Vec::new(), &mut options);
    let document = parsed(EVERYTHING);
    let used: BTreeSet<_> = references(&document)
        .iter()
        .map(|reference| reference.option)
        .collect();
    // The module is an option of each type of application.
    let is_type = |option: &&(&str, &str)| option.1 == "type";
    let missing: Vec<_> = options
        .difference(&used)
        .filter(|option| !is_type(option))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}
