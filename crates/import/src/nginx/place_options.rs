//! Options that each place may have for itself.

use serde_json::{Value, json};

use crate::units::{bytes, seconds};
use crate::words::Words;

/// `client_max_body_size 0` is any size; no disk holds more than this.
const ANY_SIZE: u64 = 1 << 50;

/// The most ranges that `max_ranges` permits; nginx has no limit.
const MOST_RANGES: u64 = 1024;

/// The option of `http` for a directive that a place may have for itself.
pub(super) fn of_place(name: &str, first: &str) -> Option<(&'static str, Value)> {
    Some(match name {
        "client_max_body_size" => {
            let size = bytes(first)?;
            let size = if size == 0 { ANY_SIZE } else { size };
            ("max_body_size", size.into())
        }
        "client_body_timeout" => ("body_read_timeout", whole_seconds(first)?),
        "send_timeout" => ("send_timeout", whole_seconds(first)?),
        "gunzip" => ("gunzip", (first == "on").into()),
        "max_ranges" => {
            let most: u64 = first.parse().ok()?;
            ("max_ranges", most.min(MOST_RANGES).into())
        }
        "server_tokens" if matches!(first, "on" | "off" | "build") => {
            ("server_version", (first != "off").into())
        }
        _ => return None,
    })
}

/// Directives that are options of an action with the same name.
pub(super) const IS_OF_RESPONSES: Words =
    Words("limit_rate limit_rate_after charset charset_types");

/// The option of an action for one of [`IS_OF_RESPONSES`]; `None` if it has variables.
pub(super) fn of_responses(name: &str, values: &[String]) -> Option<Value> {
    let first = values.first()?;
    match name {
        "charset" if first == "off" => Some(false.into()),
        "charset" => Some(first.as_str().into()).filter(|_| !first.contains('$')),
        // nginx adds the charset to HTML, whatever the list says.
        "charset_types" => Some(json!([&["text/html".to_owned()], values].concat())),
        _ => bytes(first).map(Value::from),
    }
}

/// A time in whole seconds.
pub(super) fn whole_seconds(text: &str) -> Option<Value> {
    seconds(text).map(|seconds| Value::from(seconds.ceil() as u64))
}
