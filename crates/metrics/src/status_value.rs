//! Reads members of `/status`, and writes its numbers for people. Missing members count as empty, because an older
//! server does not have all of them.

use serde_json::{Map, Value};

/// Returns the members of the object at this place.
pub fn members<'v>(
    status: &'v Value,
    pointer: &str,
) -> impl Iterator<Item = (&'v String, &'v Value)> + use<'v> {
    let members = status.pointer(pointer).and_then(Value::as_object);
    members.into_iter().flat_map(Map::iter)
}

/// Returns the text at this place.
pub fn text<'v>(status: &'v Value, pointer: &str) -> &'v str {
    let text = status.pointer(pointer).and_then(Value::as_str);
    text.unwrap_or_default()
}

/// Returns the number at this place.
pub fn number(status: &Value, pointer: &str) -> u64 {
    let number = status.pointer(pointer).and_then(Value::as_u64);
    number.unwrap_or_default()
}

/// `1 worker`, `3 processes`.
pub fn plural(count: u64, word: &str) -> String {
    let ending = match (count, word.ends_with('s')) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{count} {word}{ending}")
}

/// Formats a time in its two largest units: `3 days 4 hours`.
pub fn time(seconds: u64) -> String {
    let units = [
        (86_400, "day"),
        (3_600, "hour"),
        (60, "minute"),
        (1, "second"),
    ];
    let mut left = seconds;
    let mut parts = Vec::new();
    for (length, unit) in units {
        let count = left / length;
        left %= length;
        if count > 0 || (length == 1 && parts.is_empty()) {
            parts.push(plural(count, unit));
        } else if !parts.is_empty() {
            break;
        }
        if parts.len() == 2 {
            break;
        }
    }
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_people_say_them() {
        for (seconds, text) in [
            (0, "0 seconds"),
            (1, "1 second"),
            (61, "1 minute 1 second"),
            (3_600, "1 hour"),
            (90_061, "1 day 1 hour"),
            (86_460, "1 day"),
        ] {
            assert_eq!(time(seconds), text);
        }
    }
}
