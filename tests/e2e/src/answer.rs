//! Answers in a form that can be compared: what the two servers say for themselves taken off, bodies unframed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use serde_json::Value;
use tutti_testkit::client;

/// Fields of the connection and of the server, not of the script. The framing is checked by reading it.
const OF_THE_SERVER: [&str; 6] = [
    "server",
    "date",
    "connection",
    "keep-alive",
    "transfer-encoding",
    "content-length",
];

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparableResponse {
    /// Status code.
    pub status: u16,
    /// The script's fields in their order, as sent.
    pub fields: Vec<(String, String)>,
    /// The body as JSON, or else as text.
    pub body: Value,
}

/// Sends `bytes` and reads the answer; the port listened on is called `PORT` in it.
pub fn ask(address: SocketAddr, bytes: &[u8]) -> ComparableResponse {
    let reply = client::request(address, bytes)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(bytes)));
    let port = address.port().to_string();
    let fields = reply.head.lines().filter_map(|line| line.split_once(':'));
    let mut fields: Vec<_> = fields
        .map(|(name, value)| (name.to_owned(), value.trim().replace(&port, "PORT")))
        .filter(|(name, _)| !OF_THE_SERVER.contains(&name.to_ascii_lowercase().as_str()))
        .collect();
    // nginx moves it to the front.
    fields.sort_by_key(|(name, _)| !name.eq_ignore_ascii_case("content-type"));
    let mut body = serde_json::from_str(&reply.text().replace(&port, "PORT"))
        .unwrap_or_else(|_| Value::String(reply.text()));
    // FPM makes a header of each variable, also of one that stands for no header.
    for list in ["headers", "apache"] {
        if let Some(headers) = body.get_mut(list).and_then(Value::as_object_mut) {
            headers.retain(|name, value| !(name.starts_with("Content-") && value == ""));
        }
    }
    ComparableResponse {
        status: reply.status,
        fields,
        body,
    }
}

/// The places where two answers differ, `status`, `fields`, `body` or a pointer into the body, and what is there.
pub fn differences(
    ours: &ComparableResponse,
    theirs: &ComparableResponse,
) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    if ours.status != theirs.status {
        let both = format!("{} / {}", ours.status, theirs.status);
        found.insert("status".to_owned(), both);
    }
    if ours.fields != theirs.fields {
        let both = format!("{:?} / {:?}", ours.fields, theirs.fields);
        found.insert("fields".to_owned(), both);
    }
    compare("body", &ours.body, &theirs.body, &mut found);
    found
}

fn compare(place: &str, ours: &Value, theirs: &Value, found: &mut BTreeMap<String, String>) {
    if let (Value::Object(left), Value::Object(right)) = (ours, theirs) {
        let names: BTreeSet<_> = left.keys().chain(right.keys()).collect();
        for name in names {
            let place = format!("{place}/{name}");
            match (left.get(name), right.get(name)) {
                (Some(left), Some(right)) => compare(&place, left, right, found),
                (left, right) => {
                    found.insert(place, format!("{left:?} / {right:?}"));
                }
            }
        }
    } else if ours != theirs {
        let short = |value: &Value| value.to_string().chars().take(400).collect::<String>();
        found.insert(
            place.to_owned(),
            format!("{} / {}", short(ours), short(theirs)),
        );
    }
}
