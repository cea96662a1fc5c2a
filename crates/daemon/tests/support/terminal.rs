//! A terminal: tmux shows the screen and types keys.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use tutti_testkit::wait_until;

/// A terminal that runs one command. Dropping it ends the command.
pub(crate) struct Terminal {
    name: String,
}

impl Terminal {
    /// False if tmux is not installed: the test is skipped then.
    pub(crate) fn is_there() -> bool {
        Command::new("tmux").arg("-V").output().is_ok()
    }

    /// Starts a terminal with this many columns and 24 lines; the shell runs `command`.
    pub(crate) fn start(columns: u16, command: &str) -> Terminal {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tutti-{}-{number}", std::process::id());
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
            .env_remove("NO_COLOR")
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Presses keys, by name or as text.
    pub(crate) fn type_keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// Types a line literally, and Enter.
    pub(crate) fn type_line(&self, line: &str) {
        self.tmux(&["send-keys", "-l", "--", line]);
        self.type_keys(&["Enter"]);
    }

    pub(crate) fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Returns the screen with its colour sequences.
    pub(crate) fn coloured_screen(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-e"])
    }

    pub(crate) fn wait_for(&self, text: &str) -> String {
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
