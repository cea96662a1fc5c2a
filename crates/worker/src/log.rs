//! Lines for the daemon's log, written to standard error, which the router forwards unchanged.
//!
//! Each message is one `write`, so that those of several workers do not mix.

use std::io::Write as _;
use std::sync::OnceLock;

use tutti_options::logging::Level;
use tutti_sys::{log_line, process};
use tutti_wire::ResponseHeadError;
use tutti_wire::layout::HEAD_CAPACITY;
use tutti_wire::worker::Exchange;

static APPLICATION: OnceLock<String> = OnceLock::new();

/// Sets the application's name for the lines.
pub(crate) fn is_of(application: &str) {
    let _ = APPLICATION.set(application.to_owned());
}

/// The method and the target of a request, as messages of the log name it.
pub fn title(exchange: &Exchange) -> String {
    let request = exchange.request();
    let text = String::from_utf8_lossy;
    format!("{} {}", text(request.method()), text(request.target()))
}

/// Goes on with a response if `sent` says that an interim response or its trailer fields do not fit beside its head, because it is whole
/// without them. Logs that, once for each response.
pub fn unless_too_large(
    exchange: &Exchange,
    sent: Result<(), ResponseHeadError>,
) -> Result<(), ResponseHeadError> {
    let Err(ResponseHeadError::TooLarge(length)) = sent else {
        return sent;
    };
    if exchange.is_overflow_news() {
        let message = format!(
            "{}: {length} bytes of an interim response or of trailer fields are not sent: these and the head have {HEAD_CAPACITY} bytes together",
            title(exchange)
        );
        line(Level::Warn, "", message.as_bytes());
    }
    Ok(())
}

/// Writes `kind` and `message` at `level` in the format of the daemon's log. Each line of a message (a stack trace) gets the whole head:
/// the log has one level for all of them, and shows where each belongs even if those of several processes mix.
pub fn line(level: Level, kind: &str, message: &[u8]) {
    let mut head = log_line::head(level.word(), process::id(), process::thread_id());
    if let Some(application) = APPLICATION.get() {
        head.push_str(&format!("\"{application}\": "));
    }
    head.push_str(kind);
    // The failure of the log cannot be reported anywhere.
    let _ = std::io::stderr()
        .lock()
        .write_all(&with_head(head.as_bytes(), message));
}

/// Prefixes each line of the message with this head; a final newline begins no further line.
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

    /// Issue 10, 1.25: the second and later lines of an error were logged as notices.
    #[test]
    fn each_line_of_a_message_has_the_head() {
        let headed = |message: &str| String::from_utf8(with_head(b"[error] ", message.as_bytes()));
        assert_eq!(headed("one").unwrap(), "[error] one\n");
        assert_eq!(headed("").unwrap(), "[error] \n");
        assert_eq!(
            headed("Error: no\n\n  at line 1\n").unwrap(),
            "[error] Error: no\n[error] \n[error]   at line 1\n"
        );
    }
}
