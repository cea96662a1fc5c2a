//! `tutti top` in a terminal: tmux is the terminal, keys and screen are as for a person.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::process::Command;

use support::{TUTTI, sample_configuration, with_sample};
use tutti_testkit::{Server, skip, wait_until};

/// A terminal in which one command runs. It ends with this.
struct Terminal {
    name: String,
}

impl Terminal {
    fn start(columns: u16, command: &str) -> Terminal {
        let name = format!("tutti-{}-{columns}", std::process::id());
        let size = [columns.to_string(), "24".to_owned()];
        let terminal = Terminal { name };
        terminal.tmux(&["new-session", "-d", "-x", &size[0], "-y", &size[1], command]);
        terminal
    }

    fn tmux(&self, words: &[&str]) -> String {
        let output = Command::new("tmux")
            .args(["-f", "/dev/null", "-L", &self.name])
            .args(words)
            .env("TERM", "xterm-256color")
            .env("LC_ALL", "C.UTF-8")
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn type_keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    fn wait_for(&self, text: &str) -> String {
        wait_until(&format!("`{text}` on the screen"), || {
            self.screen().contains(text)
        });
        self.screen()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

#[test]
fn the_page_lives_and_keys_do_what_they_say() {
    if Command::new("tmux").arg("-V").output().is_err() {
        skip!("tmux is not installed");
    }
    let (options, folder) = with_sample("");
    let server = Server::start(&options);
    server.put("/config", &sample_configuration(server.port()));
    let log = folder.path().join("some.log");
    std::fs::write(&log, "the last line of the log\n").unwrap();
    let command = format!(
        "{TUTTI} top --interval 1 --log {} --control unix:{}",
        log.display(),
        server.control().display()
    );
    for columns in [80, 200] {
        let terminal = Terminal::start(columns, &command);
        let screen = terminal.wait_for("APPLICATION");
        assert!(screen.contains("tutti 0.1.0, process "), "{screen}");
        assert!(screen.contains("the last line of the log"), "{screen}");
        // Requests are seen.
        wait_until("a rate", || {
            for _ in 0..20 {
                server.get("/hello");
            }
            !terminal.screen().contains("requests    0/s")
        });
        terminal.type_keys(&["Enter"]);
        terminal.wait_for("sample: processes ");
        terminal.type_keys(&["s"]);
        terminal.wait_for("RUN▾");
        terminal.type_keys(&["/"]);
        terminal.type_keys(&["nothing", "Enter"]);
        wait_until("no application", || !terminal.screen().contains("sample  "));
        terminal.type_keys(&["/", "Escape"]);
        terminal.wait_for("sample  ");
        let before = server.workers("sample");
        terminal.type_keys(&["r"]);
        terminal.wait_for("restart sample? y: yes");
        terminal.type_keys(&["y"]);
        terminal.wait_for("application sample restarted");
        wait_until("other processes", || {
            let now = server.workers("sample");
            now.len() == before.len() && now.iter().all(|pid| !before.contains(pid))
        });
        terminal.type_keys(&["?"]);
        terminal.wait_for("Any key leads back.");
        terminal.type_keys(&["x", "q"]);
        wait_until("the end", || terminal.screen().is_empty());
    }
}

#[test]
fn a_server_that_goes_is_told_on_the_page() {
    if Command::new("tmux").arg("-V").output().is_err() {
        skip!("tmux is not installed");
    }
    let mut server = Server::start(&with_sample("").0);
    let control = server.control().display().to_string();
    let terminal = Terminal::start(
        90,
        &format!("{TUTTI} top --interval 1 --control unix:{control}"),
    );
    terminal.wait_for("APPLICATION");
    server.stop(libc::SIGTERM);
    terminal.wait_for("no answer for");
    terminal.type_keys(&["q"]);
    wait_until("the end", || terminal.screen().is_empty());
}

#[test]
fn without_a_terminal_it_says_what_to_use() {
    let output = Command::new(TUTTI).arg("top").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("tutti status --watch --json"), "{said}");
}
