//! Texts of others, made fit for a terminal and for one line of a log.

use serde_json::Value;

/// Replaces control characters, which would move the cursor, change colours or begin a line: white space becomes a
/// blank, each other one `·`.
pub fn visible(text: &str) -> String {
    let replaced = |character: char| match character {
        '\t' | '\n' | '\r' => ' ',
        character if character.is_control() => '·',
        character => character,
    };
    text.chars().map(replaced).collect()
}

/// Replaces them in all strings and names of a value.
pub fn visible_value(value: Value) -> Value {
    match value {
        Value::String(text) => visible(&text).into(),
        Value::Array(elements) => elements.into_iter().map(visible_value).collect(),
        Value::Object(members) => members
            .into_iter()
            .map(|(name, value)| (visible(&name), visible_value(value)))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_text_has_a_control_character() {
        let text = "a\tb\r\nc\x1b[2J\x7f\u{9b}é";
        assert_eq!(visible(text), "a b  c·[2J··é");
        let value = json!({"\x1b": [1, null, "\x07"]});
        assert_eq!(visible_value(value), json!({"·": [1, null, "·"]}));
    }
}
