//! The form of a line in the daemon's log: `YYYY/MM/DD HH:MM:SS [level] PID#TID message`.
//!
//! Written by the server's processes and by language hosts alike, so that a line names the very process that wrote it.

use std::time::SystemTime;

use crate::time::{self, LocalTime};

/// The beginning of a line written now, up to the message.
pub fn head(level: &str, process: i32, thread: i32) -> String {
    let date = date(&time::local(SystemTime::now()));
    format!("{date} [{level}] {process}#{thread} ")
}

/// The time with which a line begins.
pub fn date(at: &LocalTime) -> String {
    format!(
        "{:04}/{:02}/{:02} {:02}:{:02}:{:02}",
        at.year, at.month, at.day, at.hour, at.minute, at.second,
    )
}

/// The parts of a line of this form: level, process and thread, message.
pub fn parts(line: &[u8]) -> Option<(&str, i32, i32, &[u8])> {
    if !has_form(line) {
        return None;
    }
    let rest = line.get("0000/00/00 00:00:00 [".len()..)?;
    let end = rest.iter().position(|byte| *byte == b']')?;
    let level = std::str::from_utf8(rest.get(..end)?).ok()?;
    let rest = rest.get(end..)?.strip_prefix(b"] ")?;
    let end = rest.iter().position(|byte| *byte == b' ')?;
    let numbers = std::str::from_utf8(rest.get(..end)?).ok()?;
    let (process, thread) = numbers.split_once('#')?;
    let message = rest.get(end + 1..)?;
    Some((level, process.parse().ok()?, thread.parse().ok()?, message))
}

/// True if a line has this form already.
pub fn has_form(line: &[u8]) -> bool {
    const FORM: &[u8] = b"0000/00/00 00:00:00 [";
    let fits = |(&byte, &form): (&u8, &u8)| match form {
        b'0' => byte.is_ascii_digit(),
        form => byte == form,
    };
    line.len() >= FORM.len() && line.iter().zip(FORM).all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_own_form_and_others_have_not() {
        let line = head("alert", 12, 34);
        assert!(line.ends_with(" [alert] 12#34 "), "{line}");
        assert!(has_form(line.as_bytes()));
        let line = [line.as_bytes(), b"a [b] 1#2"].concat();
        assert_eq!(parts(&line), Some(("alert", 12, 34, &b"a [b] 1#2"[..])));
        for other in [
            &b"2026/01/02 03:04:05 [alert 1#2 x"[..],
            b"2026/01/02 03:04:05 [alert] 1 x",
            b"",
        ] {
            assert_eq!(parts(other), None);
        }
        assert!(!has_form(b"2026/01/02 03:04:05 "));
        assert!(!has_form(
            b"2026-01-02 03:04:05 [info] a line of another log"
        ));
    }
}
