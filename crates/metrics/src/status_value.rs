//! Reads members of `/status`. Missing ones count as empty, because an older server does not have all of them.

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
