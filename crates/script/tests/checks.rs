//! Faults of scripts are found when they are configured, with their place.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use tutti_script::{Modules, ScriptModule, check_module, check_modules, check_template};

fn fault(source: &str) -> (String, Option<(usize, usize)>) {
    let fault = check_template(source).unwrap_err();
    (fault.message, fault.place)
}

#[test]
fn templates_that_cannot_be_compiled_are_reported_with_line_and_column() {
    for good in ["`a`", "``", "`${uri}`", "`a\n${[1].map(x => `n${x}`)}`"] {
        assert_eq!(check_template(good), Ok(()), "{good}");
    }
    assert_eq!(fault("`a").0, "the template literal is not closed");
    assert_eq!(fault("`").0, "the template literal is not closed");
    assert_eq!(
        fault("`${uri +}`"),
        (
            "SyntaxError: unexpected token in expression: '}'".to_owned(),
            Some((1, 9))
        )
    );
    let (_, place) = fault("`line\n${(}`");
    assert_eq!(place.map(|place| place.0), Some(2));
    assert!(fault("`a`; `b`").0.starts_with("SyntaxError"));
}

fn new(name: &str, source: &str) -> ScriptModule {
    ScriptModule {
        name: name.into(),
        source: source.into(),
    }
}

fn module(name: &str, source: &str) -> Result<(), (String, Option<(usize, usize)>)> {
    check_module(&new(name, source), &Modules::default())
        .map_err(|fault| (fault.message, fault.place))
}

#[test]
fn modules_are_loaded_to_see_whether_they_can_be() {
    assert_eq!(module("http", "export default {}"), Ok(()));
    let (message, place) = module("http", "var a = 1;\nvar b = ;\nexport default a").unwrap_err();
    assert!(message.starts_with("SyntaxError"), "{message}");
    assert_eq!(place.map(|place| place.0), Some(2));
    let (message, _) = module("http", "var a = 1").unwrap_err();
    assert!(message.contains("no default export"), "{message}");
    let (message, place) = module("http", "export default {};\nnothing()").unwrap_err();
    assert_eq!(message, "ReferenceError: nothing is not defined");
    assert_eq!(place.map(|place| place.0), Some(2));
    let (message, _) = module("http", "for (;;); export default 1").unwrap_err();
    assert!(message.contains("took more than"), "{message}");
    let (message, _) = module("http", "import fs from 'fs'; export default 1").unwrap_err();
    assert!(message.contains("fs"), "{message}");
    for name in ["", "my-module", "1a", "class", "uri", "a b", "../x"] {
        assert!(module(name, "export default 1").is_err(), "{name}");
    }
}

#[test]
fn modules_import_each_other_in_any_order() {
    let site = new(
        "site",
        "import words, {plural} from 'words';\nexport default {say: () => plural(words.one)};",
    );
    let words = new(
        "words",
        "export const plural = (word) => word + 's';\nexport default {one: 'page'};",
    );
    let both = Modules::new(vec![site.clone(), words.clone()]);
    assert_eq!(check_modules(&both), Ok(()));
    assert_eq!(check_module(&site, &Modules::new(vec![words])), Ok(()));
    let alone = check_modules(&Modules::new(vec![site.clone()])).unwrap_err();
    assert_eq!(
        alone.message,
        "ReferenceError: `site` imports `words`, and there is no module of that name"
    );
    assert_eq!(alone.module.as_deref(), Some("site"));
    let broken = new(
        "words",
        "export const plural = 1;\nexport default {one: throws()};",
    );
    let fault = check_modules(&Modules::new(vec![site, broken])).unwrap_err();
    assert_eq!(fault.module.as_deref(), Some("words"));
    assert_eq!(fault.place.map(|place| place.0), Some(2));
}

#[test]
fn limits_are_for_all_modules_together() {
    let source = "const kept = new Uint8Array(3 << 20); export default {kept};";
    let many = |count: usize| {
        let named = |number: usize| new(&format!("m{number}"), source);
        check_modules(&Modules::new((1..=count).map(named).collect()))
    };
    assert_eq!(many(2), Ok(()));
    let fault = many(4).unwrap_err();
    assert!(fault.message.contains("of memory"), "{}", fault.message);
    assert_eq!(fault.module.as_deref(), Some("m3"));
}

#[test]
fn places_are_offsets_too() {
    let source = "// ж\nvar a = ;\nexport default a";
    let fault = check_module(&new("a", source), &Modules::default()).unwrap_err();
    assert_eq!(fault.place, Some((2, 9)));
    assert_eq!(fault.offset(source), source.find(';'));
    let fault = check_module(&new("a", "/* ж */ var a = ;"), &Modules::default()).unwrap_err();
    assert_eq!(fault.offset("/* ж */ var a = ;"), Some(17));
}
