//! Faults of scripts are found when they are configured, with their place.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use tutti_script::{Module, check_module, check_template};

fn fault(source: &str) -> (String, Option<(usize, usize)>) {
    let fault = check_template(source).unwrap_err();
    (fault.message, fault.place)
}

#[test]
fn templates_that_cannot_be_compiled_tell_line_and_column() {
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

fn module(name: &str, source: &str) -> Result<(), (String, Option<(usize, usize)>)> {
    check_module(&Module {
        name: name.into(),
        source: source.into(),
    })
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
