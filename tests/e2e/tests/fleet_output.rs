//! The output of `tutti fleet`, for people: it fits their terminal.

use std::process::Command;

use serde_json::{Value, json};
use tutti_e2e::fleet::{Fleet, document};

/// The columns of a terminal that does not say how many it has.
const WIDTH: usize = 80;

fn must_fit(text: &str, width: usize) {
    for line in text.lines() {
        assert!(line.chars().count() <= width, "`{line}` in:\n{text}");
    }
}

/// A document that a node refuses at several places, for these addresses are another machine's.
fn refused() -> String {
    let listeners = (1..=4).map(|last| {
        let name = format!("192.0.2.{last}:8080");
        (name, json!({"pass": "routes"}))
    });
    let listeners: serde_json::Map<String, Value> = listeners.collect();
    json!({"listeners": listeners, "routes": []}).to_string()
}

#[test]
fn reasons_are_in_lines_that_a_terminal_has_room_for() {
    let names: Vec<String> = (10..14)
        .map(|number| format!("web-in-rack-{number}"))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let fleet = Fleet::start(1, &names);
    let words = fleet.put(&document(201));
    must_fit(&words, WIDTH);
    let file = fleet.file(&refused());
    let words = fleet.fail(&["put", &file, "--wait", "0", "--waves", "1"]);
    must_fit(&words, WIDTH);
    let together = words.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        together.contains("all nodes are back at generation 1"),
        "{words}"
    );
    assert!(together.contains("`192.0.2.1:8080`"), "{words}");
    assert!(words.lines().count() > 4, "{words}");
    let log = fleet.succeed(&["log"]);
    let told = log.lines().filter(|line| line.starts_with("   "));
    must_fit(&told.collect::<Vec<_>>().join("\n"), WIDTH);
    // A fleet that has never had anything else keeps the node that refuses.
    let status = fleet.succeed(&["status"]);
    let reason = status.lines().skip_while(|line| !line.contains("returned"));
    let reason = reason.skip(1).take_while(|line| !line.is_empty());
    let reason = reason.collect::<Vec<_>>().join("\n");
    assert!(
        reason.contains("web-in-rack-10") && reason.lines().count() > 2,
        "{status}"
    );
    must_fit(&reason, WIDTH);

    // A terminal says how wide it is.
    let inner = fleet.command(&["status"]);
    let words = [inner.get_program()].into_iter().chain(inner.get_args());
    let words: Vec<String> = words.map(|word| format!("'{}'", word.display())).collect();
    let mut command = Command::new("script");
    command
        .args(["-qec", &format!("stty cols 50; {}", words.join(" "))])
        .arg("/dev/null");
    for (name, value) in inner.get_envs() {
        command.env(name, value.unwrap());
    }
    let output = command.output().unwrap();
    let status = String::from_utf8_lossy(&output.stdout).replace('\r', "");
    let reason = status.lines().skip_while(|line| !line.contains("returned"));
    let reason = reason.skip(1).take_while(|line| !line.is_empty());
    let reason = reason.collect::<Vec<_>>().join("\n");
    assert!(reason.contains("web-in-rack-10"), "{status}");
    must_fit(&reason, 50);
}
