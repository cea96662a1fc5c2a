//! The command line in a terminal: the editor of `config edit`, completion by Tab, manual pages.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::path::Path;
use std::process::Command;

use support::terminal::Terminal;
use support::{TUTTI, plain_configuration};
use tempfile::TempDir;
use tutti_testkit::{Server, ServerOptions, files, skip, skipped, wait_until};

/// An editing session: the server, and a folder for drafts, editors and the home of the user.
struct Desk {
    server: Server,
    folder: TempDir,
}

impl Desk {
    /// Creates a session with editors of these names. They print their name and how often they were opened, show the
    /// text, and apply the sed expression that is typed then.
    fn new(editors: &[&str]) -> Desk {
        let server = Server::start(&ServerOptions::default());
        server.put("/config", &plain_configuration(server.port()));
        let folder = files::public_folder();
        fs::create_dir(folder.path().join("drafts")).unwrap();
        for name in editors {
            let text = r#"#!/bin/sh
echo x >>"$0.opened"
cat -- "$1"
printf '\n%s, opened %d> ' "${0##*/}" "$(wc -l <"$0.opened")"
read -r change && sed -i "$change" "$1"
"#;
            files::script(&folder.path().join(name), text);
        }
        Desk { server, folder }
    }

    /// Runs `tutti config edit` of the action of the first route, with these variables.
    fn edit(&self, variables: &str) -> Terminal {
        let folder = self.folder.path().display();
        let variables = variables.replace("HERE", &folder.to_string());
        let control = self.server.control().display();
        let without = "-u VISUAL -u EDITOR -u SELECTED_EDITOR";
        let command = format!(
            "env {without} HOME={folder} TMPDIR={folder}/drafts {variables} \
             {TUTTI} config edit routes/0/action --control unix:{control}; echo \"ended with $?\"; cat"
        );
        Terminal::start(100, &command)
    }

    /// Returns the drafts that exist.
    fn drafts(&self) -> Vec<String> {
        let drafts = fs::read_dir(self.folder.path().join("drafts")).unwrap();
        drafts
            .map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap())
            .collect()
    }
}

/// Issue 13, 10.
#[test]
fn after_a_fault_the_editor_is_opened_again_with_the_persons_own_text() {
    if !Terminal::is_there() {
        skip!("tmux is not installed");
    }
    let desk = Desk::new(&["visual", "editor"]);
    let terminal = desk.edit("VISUAL=HERE/visual EDITOR=HERE/editor");
    let screen = terminal.wait_for("visual, opened 1>");
    assert!(screen.contains("\"return\": 200"), "{screen}");
    terminal.type_line("s/return/retrun/");
    let screen = terminal.wait_for("Edit again? [Y/n]");
    for part in ["\"retrun\": 200", "^^^^", "error: "] {
        assert!(screen.contains(part), "{part} in\n{screen}");
    }
    assert_eq!(desk.server.get("/").status, 200);
    terminal.type_keys(&["Enter"]);
    let screen = terminal.wait_for("visual, opened 2>");
    let again = screen.rsplit("Edit again?").next().unwrap();
    assert!(again.contains("\"retrun\": 200"), "{screen}");
    terminal.type_line("s/retrun/return/;s/200/403/");
    let screen = terminal.wait_for("ended with 0");
    assert!(!screen.contains("editor, opened"), "{screen}");
    assert_eq!(desk.server.get("/").status, 403);
    assert_eq!(desk.drafts(), Vec::<String>::new());
}

/// Issue 13, 10: saving the same faulty text again discarded it, with success.
#[test]
fn who_gives_up_after_a_fault_keeps_the_text() {
    if !Terminal::is_there() {
        skip!("tmux is not installed");
    }
    for gives_up in ["n", "y"] {
        let desk = Desk::new(&["editor"]);
        let terminal = desk.edit("VISUAL= EDITOR=HERE/editor");
        terminal.wait_for("editor, opened 1>");
        terminal.type_line("s/return/retrun/");
        terminal.wait_for("Edit again? [Y/n]");
        terminal.type_line(gives_up);
        if gives_up == "y" {
            terminal.wait_for("editor, opened 2>");
            terminal.type_keys(&["Enter"]);
        }
        let screen = terminal.wait_for("ended with 1");
        assert!(screen.contains("your text is saved in"), "{screen}");
        let kept = desk.drafts();
        assert!(kept.len() == 1 && kept[0].contains("retrun"), "{kept:?}");
        assert_eq!(desk.server.get("/").status, 200);
    }
}

/// Issue 28, 5.5.
#[test]
fn a_configuration_without_listeners_is_put_after_a_question() {
    if !Terminal::is_there() {
        skip!("tmux is not installed");
    }
    let desk = Desk::new(&[]);
    let file = desk.folder.path().join("empty.json");
    fs::write(&file, "{}").unwrap();
    let (file, control) = (file.display(), desk.server.control().display());
    let command = format!(
        "{TUTTI} config put --file {file} --control unix:{control}; echo \"ended with $?\"; cat"
    );
    for (answer, code) in [("", 1), ("n", 1), ("y", 0)] {
        let terminal = Terminal::start(100, &command);
        terminal.wait_for("Apply it? [y/N]");
        assert_eq!(desk.server.get("/").status, 200);
        terminal.type_line(answer);
        terminal.wait_for(&format!("ended with {code}"));
    }
    let config = desk.server.call("GET", "/config", &serde_json::Value::Null);
    assert_eq!(config.json(), serde_json::json!({}));
}

/// Issue 13, 10: Debian's choice of an editor, which `select-editor` stores in the home folder.
#[test]
fn without_variables_the_systems_editor_is_opened() {
    if !Terminal::is_there() {
        skip!("tmux is not installed");
    }
    if !Path::new("/usr/bin/sensible-editor").exists() {
        skip!("sensible-editor is not installed (package sensible-utils)");
    }
    let desk = Desk::new(&["selected"]);
    let selected = desk.folder.path().join("selected");
    let chosen = format!("SELECTED_EDITOR={}\n", selected.display());
    fs::write(desk.folder.path().join(".selected_editor"), chosen).unwrap();
    let terminal = desk.edit("");
    terminal.wait_for("selected, opened 1>");
    terminal.type_line("s/200/403/");
    terminal.wait_for("ended with 0");
    assert_eq!(desk.server.get("/").status, 403);
}

/// Returns the output of `tutti WORDS…`.
fn printed(words: &[&str]) -> Vec<u8> {
    let output = Command::new(TUTTI).args(words).output().unwrap();
    assert!(output.status.success(), "{words:?}");
    output.stdout
}

#[test]
fn shells_complete_commands_and_options_with_tab() {
    if !Terminal::is_there() {
        skip!("tmux is not installed");
    }
    let folder = files::public_folder();
    let place = folder.path().display();
    // A shell without user settings, and how it finds the file that packages install.
    for (shell, file, load) in [
        ("bash --norc --noprofile", "tutti", "source HERE/tutti"),
        (
            "zsh -f",
            "_tutti",
            "fpath=(HERE $fpath); autoload -U compinit; compinit -u -D",
        ),
        ("fish --no-config", "tutti.fish", "source HERE/tutti.fish"),
    ] {
        let name = shell.split(' ').next().unwrap();
        if Command::new(name).arg("--version").output().is_err() {
            skipped(&format!(
                "{name} is not installed: its completions are not tried"
            ));
            continue;
        }
        fs::write(folder.path().join(file), printed(&["completions", name])).unwrap();
        let programs = Path::new(TUTTI).parent().unwrap().display();
        let terminal = Terminal::start(
            100,
            &format!("env HOME={place} PATH={programs}:$PATH {shell}"),
        );
        let load = load.replace("HERE", &place.to_string());
        terminal.type_line(&format!("{load}; echo loa''ded"));
        terminal.wait_for("loaded");
        for (begun, whole) in [
            ("tutti config ed", "tutti config edit"),
            ("tutti status --wat", "tutti status --watch"),
        ] {
            terminal.type_keys(&["C-l"]);
            terminal.type_keys(&[begun, "Tab"]);
            wait_until(&format!("{name} makes `{whole}` of `{begun}`"), || {
                terminal.screen().contains(whole)
            });
            terminal.type_keys(&["C-u"]);
        }
    }
}

#[test]
fn manual_pages_are_opened_by_man() {
    let folder = files::public_folder();
    let place = folder.path().to_str().unwrap();
    printed(&["man", "--folder", place]);
    let mut pages = 0;
    for entry in fs::read_dir(folder.path()).unwrap() {
        let page = entry.unwrap().path();
        let opened = Command::new("man")
            .args(["--warnings", "--local-file"])
            .arg(&page)
            .env("LC_ALL", "C.UTF-8")
            .env("MANWIDTH", "80")
            .env("MANPAGER", "cat")
            .output();
        let Ok(opened) = opened else {
            skip!("man is not installed (package man-db)");
        };
        let (text, said) = (opened.stdout, opened.stderr);
        let text = String::from_utf8_lossy(&text).into_owned();
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(
            opened.status.success() && said.is_empty(),
            "{}: {said}",
            page.display()
        );
        let name = page.file_stem().unwrap().to_str().unwrap();
        for part in ["NAME", "SYNOPSIS", "DESCRIPTION", name] {
            assert!(text.contains(part), "{part} in {}:\n{text}", page.display());
        }
        pages += 1;
    }
    assert!(pages > 20, "{pages} pages");
}
