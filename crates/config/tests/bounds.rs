//! Documents of any size are answered in time that grows with them, and not with their square (issue 10, 1.18 and 2.15: 300,000
//! faults kept the control API busy for minutes, and so did an object with a million members).

#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use std::fmt::Write as _;

use tutti_config::{Diagnostics, Document, ValidationContext, parse, validate};

/// So many that a linear search for each would be ten thousand million steps.
const MANY: usize = 100_000;

/// All on one line, as programs write it.
fn many(each: impl Fn(usize) -> String) -> String {
    let mut text = String::new();
    for number in 0..MANY {
        let comma = if number == 0 { "" } else { ", " };
        write!(text, "{comma}{}", each(number)).unwrap();
    }
    text
}

fn faults(text: &str) -> Diagnostics {
    let document = parse(text.as_bytes()).unwrap();
    validate(
        &document,
        &ValidationContext::with_modules([("php", "8.2")]),
    )
    .unwrap_err()
}

fn assert_bounded(faults: &Diagnostics, count: usize) {
    assert_eq!(faults.0.len(), 101);
    assert_eq!(faults.count(), count);
    let last = faults.0.last().unwrap();
    assert_eq!(
        last.message,
        format!("{} more errors are not listed", count - 100)
    );
    let reported = faults.to_json();
    assert_eq!(reported["errors"].as_array().unwrap().len(), 101);
}

#[test]
fn of_many_faults_a_hundred_are_reported_and_the_rest_is_counted() {
    let options = many(|number| format!("\"x{number}\": 1"));
    let found = faults(&format!(
        r#"{{"applications": {{"a": {{"type": "php", "root": "/a", {options}}}}}}}"#
    ));
    assert_bounded(&found, MANY);
    // In the order of the document, each at its place.
    for (number, fault) in found.0.iter().take(100).enumerate() {
        assert_eq!(fault.pointer.as_str(), format!("/applications/a/x{number}"));
    }
    let columns: Vec<usize> = found
        .0
        .iter()
        .filter_map(|fault| Some(fault.location?.column))
        .collect();
    assert_eq!(columns.len(), 100);
    assert!(columns.is_sorted());

    let steps =
        many(|_| r#"{"action": {"pass": "applications/nowhere", "location": "/x"}}"#.to_owned());
    assert_bounded(&faults(&format!(r#"{{"routes": [{steps}]}}"#)), 2 * MANY);
}

#[test]
fn names_are_not_searched_for_one_after_the_other() {
    let routes = many(|number| {
        format!(
            "\"r{number}\": [{{\"action\": {{\"pass\": \"routes/r{}\"}}}}]",
            number / 2
        )
    });
    let text =
        format!(r#"{{"listeners": {{"*:80": {{"pass": "routes/r1"}}}}, "routes": {{{routes}}}}}"#);
    let document = parse(text.as_bytes()).unwrap();
    let config = validate(&document, &ValidationContext::default()).unwrap();
    assert_eq!(config.routes.list.len(), MANY);
    assert!(
        tutti_config::warnings(&document, &|_| Vec::new())
            .0
            .is_empty()
    );
}

#[test]
fn a_patch_of_many_members_finds_each_at_once() {
    let members = |value: &str| many(|number| format!("\"m{number}\": {value}"));
    let read = |text: String| parse(text.as_bytes()).unwrap();
    let mut document: Document = read(format!(r#"{{"kept": 1, {}}}"#, members("1")));
    document
        .patch::<&str>(&[], read(format!(r#"{{"new": 3, {}}}"#, members("2"))))
        .unwrap();
    assert_eq!(document.root().members().len(), MANY + 2);
    assert_eq!(document.get(&["m7"]).unwrap().to_compact_json(), "2");
    document
        .patch::<&str>(&[], read(format!("{{{}}}", members("null"))))
        .unwrap();
    assert_eq!(document.root().to_compact_json(), r#"{"kept":1,"new":3}"#);
}

#[test]
fn names_that_are_repeated_end_the_reading_soon() {
    let text = format!("{{{}}}", many(|_| "\"same\": 1".to_owned()));
    let faults = parse(text.as_bytes()).unwrap_err();
    assert!(faults.0.len() <= 100, "{}", faults.0.len());
}

#[test]
fn files_are_put_together_in_time_that_grows_with_them() {
    let applications = |range: std::ops::Range<usize>| {
        let one = |number| format!(r#""a{number}": {{"type": "php", "root": "/a"}}"#);
        let all: Vec<String> = range.map(one).collect();
        format!(r#"{{"applications": {{{}}}}}"#, all.join(", "))
    };
    let combine = |texts: &[String]| {
        let file = |(number, text): (usize, &String)| tutti_config::File {
            name: format!("{number:04}.json"),
            bytes: text.clone().into_bytes(),
        };
        let files: Vec<_> = texts.iter().enumerate().map(file).collect();
        tutti_config::combine(&files, &|_| None)
    };
    // Two large files, and many small ones.
    let two = [applications(0..MANY), applications(MANY..2 * MANY)];
    let small: Vec<String> = (0..1000)
        .map(|number| applications(number * 100..(number + 1) * 100))
        .collect();
    for (texts, count) in [(&two[..], 2 * MANY), (&small, MANY)] {
        let document = combine(texts).unwrap();
        let members = document.root().child("applications").unwrap().members();
        assert_eq!(members.len(), count);
    }
    // Each option of each application is set in both.
    let twice = combine(&[applications(0..MANY), applications(0..MANY)]).unwrap_err();
    assert_bounded(&twice, 2 * MANY);
}
