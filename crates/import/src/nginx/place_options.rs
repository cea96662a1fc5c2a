//! Options of `http` that a place may have for itself.

use serde_json::Value;

use crate::units::{bytes, seconds};

/// `client_max_body_size 0` is any size; no disk holds more than this.
const ANY_SIZE: u64 = 1 << 50;

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
        "server_tokens" if matches!(first, "on" | "off" | "build") => {
            ("server_version", (first != "off").into())
        }
        _ => return None,
    })
}

/// A time, in whole seconds.
pub(super) fn whole_seconds(text: &str) -> Option<Value> {
    seconds(text).map(|seconds| Value::from(seconds.ceil() as u64))
}
