//! Lines for the daemon's log, written to standard error, which the router forwards as it is.
//!
//! One `write` a message, so that those of several workers do not mix.

use std::io::Write as _;
use std::sync::OnceLock;

use tutti_options::logging::Level;
use tutti_sys::{log_line, process};

static APPLICATION: OnceLock<String> = OnceLock::new();

/// Notes whose lines they are.
pub(crate) fn is_of(application: &str) {
    let _ = APPLICATION.set(application.to_owned());
}

/// Writes `kind` and `message` at `level` in the format of the daemon's log. Each line of a message of several
/// (a stack trace) has the whole head: the log has one level for all of them, and shows whose each is where those of several
/// processes mix.
pub fn line(level: Level, kind: &str, message: &[u8]) {
    let mut head = log_line::head(level.word(), process::id(), process::thread_id());
    if let Some(application) = APPLICATION.get() {
        head.push_str(&format!("\"{application}\": "));
    }
    head.push_str(kind);
    // Nobody can be told that the log is gone.
    let _ = std::io::stderr()
        .lock()
        .write_all(&with_head(head.as_bytes(), message));
}

/// The message with this before each of its lines. What ends the last line begins none.
fn with_head(head: &[u8], message: &[u8]) -> Vec<u8> {
    let message = message.strip_suffix(b"\n").unwrap_or(message);
    let mut bytes = Vec::with_capacity(head.len() + message.len() + 1);
    for line in message.split(|&byte| byte == b'\n') {
        bytes.extend_from_slice(head);
        bytes.extend_from_slice(line);
        bytes.push(b'\n');
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::with_head;

    /// Issue 10, 1.25: the second and each later line of an error was told as a notice.
    #[test]
    fn each_line_of_a_message_has_the_head() {
        let told = |message: &str| String::from_utf8(with_head(b"[error] ", message.as_bytes()));
        assert_eq!(told("one").unwrap(), "[error] one\n");
        assert_eq!(told("").unwrap(), "[error] \n");
        assert_eq!(
            told("Error: no\n\n  at line 1\n").unwrap(),
            "[error] Error: no\n[error] \n[error]   at line 1\n"
        );
    }
}
