//! Runs every case in `tests/config`: a file has a request and the expected result.
//!
//! A case has sections, each begun by a line `=== NAME`: `document` (the document before the request; optional), one of `put PATH`, `post
//! PATH`, `patch PATH`, `delete PATH` (the body of the request; the path is percent-encoded, `/` is the whole; `put.yaml` and `put.toml`
//! for other languages), then `result`: the tree, as it would be read back, or the answer of the control API, or with `typed` instead of
//! `result` the typed configuration, of which only values that are not the default are shown, or with `warned` the same and the warnings.
//! Set `BLESS=1` to write the actual results.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod modules;
mod shown;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use modules::context;
use tutti_config::{Diagnostics, Document, FaultKind, Format, parse, read, validate};

/// The sections with results: the document or its faults, its typed form, the same with the warnings.
const KINDS: [&str; 3] = ["result", "typed", "warned"];

fn cases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/config");
    let mut cases: Vec<PathBuf> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "case")
        })
        .collect();
    cases.sort();
    cases
}

struct Section {
    name: String,
    argument: String,
    text: String,
}

impl Section {
    /// `put` of `put.yaml`.
    fn verb(&self) -> &str {
        self.name.split('.').next().unwrap()
    }
}

fn format(section: &Section) -> Format {
    Format::of_file(&section.name).unwrap_or_default()
}

fn sections(text: &str) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for line in text.split_inclusive('\n') {
        if let Some(head) = line.strip_prefix("=== ") {
            let (name, argument) = head
                .trim_end()
                .split_once(' ')
                .unwrap_or((head.trim_end(), ""));
            sections.push(Section {
                name: name.to_owned(),
                argument: argument.to_owned(),
                text: String::new(),
            });
        } else if let Some(section) = sections.last_mut() {
            section.text.push_str(line);
        }
    }
    sections
}

/// `\xNN` stands for a byte that a text file cannot have.
fn bytes(text: &str) -> Vec<u8> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(position) = rest.find("\\x") {
        bytes.extend_from_slice(&rest.as_bytes()[..position]);
        bytes.push(u8::from_str_radix(&rest[position + 2..position + 4], 16).unwrap());
        rest = &rest[position + 4..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

fn segments(path: &str) -> Vec<String> {
    let decode = |segment: &str| segment.replace("%2F", "/").replace("%20", " ");
    path.trim_matches('/')
        .split('/')
        .filter(|segment| !segment.is_empty())
        .map(decode)
        .collect()
}

/// Does as the control API would. Returns the document that was meant, if it could be made.
fn change(before: Document, section: &Section) -> (Document, Result<(), Diagnostics>) {
    let path = segments(&section.argument);
    let mut document = before;
    let result = match section.name.as_str() {
        "delete" => document.delete(&path),
        _ => read(&bytes(&section.text), format(section)).and_then(|part| match section.verb() {
            "put" => document.put(&path, part),
            "post" => document.post(&path, part),
            "patch" => document.patch(&path, part),
            other => panic!("unknown section {other}"),
        }),
    };
    (document, result)
}

fn outcome(case: &str, sections: &[Section]) -> String {
    let before = sections.iter().find(|section| section.name == "document");
    let before = before.map_or_else(Document::empty, |section| {
        parse(section.text.as_bytes()).unwrap()
    });
    let sent = sections
        .iter()
        .find(|section| matches!(section.verb(), "put" | "post" | "patch" | "delete"))
        .unwrap();
    let wants = |kind: &str| sections.iter().any(|section| section.name == kind);
    let (wants_typed, wants_warnings) = (wants("typed"), wants("warned"));
    let (document, changed) = change(before, sent);
    let validated = changed.and_then(|()| validate(&document, &context(case)));
    match validated {
        Ok(config) if wants_warnings => {
            let warnings = tutti_config::warnings(&document, &|_| Vec::new());
            let sent = [("sent.json", &*bytes(&sent.text))];
            let warnings = tutti_config::excerpt_of_warnings(&warnings, &sent, false);
            format!("{}\n{warnings}", shown::differing(&config))
        }
        Ok(config) if wants_typed => shown::differing(&config),
        Ok(_) => {
            let text = document.to_json();
            assert_eq!(
                parse(text.as_bytes()).unwrap(),
                document,
                "what is read back is what was written"
            );
            assert_eq!(parse(text.as_bytes()).unwrap().to_json(), text);
            format!("{text}\n")
        }
        Err(faults) => {
            check(&faults, &document, &bytes(&sent.text));
            let mut text = format!(
                "{}\n",
                serde_json::to_string_pretty(&faults.to_json()).unwrap()
            );
            if sent.name != "delete" {
                let _ = write!(
                    text,
                    "\n{}",
                    tutti_config::excerpt(&faults, &[("sent.json", &bytes(&sent.text))], false)
                );
            }
            text
        }
    }
}

/// Checks the rules that every diagnostic keeps.
fn check(faults: &Diagnostics, document: &Document, sent: &[u8]) {
    assert!(!faults.0.is_empty());
    for fault in &faults.0 {
        if fault.kind != FaultKind::Syntax {
            assert!(
                document.at(&fault.pointer).is_some(),
                "{} exists",
                fault.pointer
            );
        }
        if let Some(location) = fault.location {
            assert!(location.offset <= sent.len());
            let before = &sent[..location.offset];
            assert_eq!(
                location.line,
                before.iter().filter(|byte| **byte == b'\n').count() + 1
            );
        }
        assert!(!fault.message.ends_with('.'), "{}", fault.message);
    }
}

#[test]
fn every_case_comes_out_as_written() {
    let bless = std::env::var_os("BLESS").is_some();
    let cases = cases();
    assert!(cases.len() >= 80, "only {} cases", cases.len());
    let mut wrong = Vec::new();
    for path in cases {
        let text = fs::read_to_string(&path).unwrap();
        let sections = sections(&text);
        let expected = sections
            .iter()
            .find(|section| KINDS.contains(&section.name.as_str()));
        let name = path.file_name().unwrap().to_string_lossy();
        let came = outcome(&name, &sections);
        if expected.map(|section| section.text.as_str()) == Some(came.as_str()) {
            continue;
        }
        if bless {
            let kind = expected.map_or("result", |section| section.name.as_str());
            let ends = KINDS
                .iter()
                .filter_map(|kind| text.find(&format!("=== {kind}")));
            let head = &text[..ends.min().unwrap_or(text.len())];
            fs::write(&path, format!("{head}=== {kind}\n{came}")).unwrap();
        } else {
            wrong.push(format!("{}:\n{came}", name));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} cases came out differently\n\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
