//! An answer of the API: status, JSON body, a few fields.

use serde_json::{Value, json};
use tutti_config::Node;
use tutti_config::{Diagnostics, Document, Format};

/// The answer to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Mostly JSON; empty for 304.
    pub(crate) body: Vec<u8>,
    pub(crate) etag: Option<String>,
    pub(crate) allow: Option<&'static str>,
    /// How a client can show who it is: `WWW-Authenticate`.
    pub(crate) authenticate: Option<&'static str>,
    /// Type of the body; `None` is JSON.
    pub(crate) media_type: Option<&'static str>,
}

impl Answer {
    pub(crate) fn value(node: &Node) -> Answer {
        let mut body = node.to_json();
        body.push('\n');
        Answer {
            status: 200,
            body: body.into_bytes(),
            etag: None,
            allow: None,
            authenticate: None,
            media_type: None,
        }
    }

    /// A value in the language that the client reads best.
    pub(crate) fn value_as(node: &Node, format: Format) -> Answer {
        match format {
            Format::Yaml => Answer {
                body: node.to_yaml().into_bytes(),
                media_type: Some(format.media_type()),
                ..Answer::value(node)
            },
            _ => Answer::value(node),
        }
    }

    pub(crate) fn success(message: &str) -> Answer {
        Answer::json(200, &json!({ "success": message }))
    }

    /// `{"success": …}`, with `warnings` if there are any.
    pub(crate) fn done(message: &str, warnings: &Diagnostics) -> Answer {
        if warnings.0.is_empty() {
            return Answer::success(message);
        }
        Answer::json(
            200,
            &json!({ "success": message, "warnings": warnings.list() }),
        )
    }

    /// `{"error": …}`, with a `detail` if there is more to say.
    pub(crate) fn error(status: u16, error: &str, detail: Option<&str>) -> Answer {
        match detail {
            Some(detail) => Answer::json(status, &json!({ "error": error, "detail": detail })),
            None => Answer::json(status, &json!({ "error": error })),
        }
    }

    /// The answer of Unit for a place that does not exist.
    pub(crate) fn missing() -> Answer {
        Answer::error(404, "Value doesn't exist.", None)
    }

    /// A method that the place does not take.
    pub(crate) fn method(allow: &'static str) -> Answer {
        let mut answer = Answer::error(
            405,
            "Invalid method.",
            Some(&format!("Allowed here: {allow}.")),
        );
        answer.allow = Some(allow);
        answer
    }

    /// Faults of a configuration.
    pub(crate) fn faults(faults: &Diagnostics) -> Answer {
        Answer::json(faults.http_status(), &faults.to_json())
    }

    /// The value is not what the client thinks it is.
    pub(crate) fn changed_meanwhile() -> Answer {
        Answer::error(
            412,
            "Precondition failed.",
            Some("The configuration is not the one the condition names; read it again."),
        )
    }

    /// A JSON Schema.
    pub(crate) fn schema(value: &Value) -> Answer {
        let mut answer = Answer::json(200, value);
        answer.media_type = Some("application/schema+json");
        answer
    }

    /// Metrics in their format.
    pub(crate) fn metrics(format: tutti_metrics::Format, body: Vec<u8>) -> Answer {
        Answer {
            status: 200,
            body,
            etag: None,
            allow: None,
            authenticate: None,
            media_type: Some(format.media_type()),
        }
    }

    /// JSON, printed as all else.
    pub(crate) fn json(status: u16, value: &Value) -> Answer {
        let body = match document(value) {
            Ok(document) => document.to_json(),
            Err(_) => value.to_string(),
        };
        Answer {
            status,
            body: (body + "\n").into_bytes(),
            etag: None,
            allow: None,
            authenticate: None,
            media_type: None,
        }
    }
}

/// The value at `path` of a document.
pub(crate) fn read(document: &Document, path: &[&str]) -> Answer {
    match document.get(path) {
        Ok(node) => Answer::value(node),
        Err(_) => Answer::missing(),
    }
}

/// A message as a sentence of its own.
pub(crate) fn sentence(message: &str) -> String {
    let mut letters = message.chars();
    match letters.next() {
        Some(first) => format!("{}{}.", first.to_uppercase(), letters.as_str()),
        None => String::new(),
    }
}

/// A JSON value as a document, to be walked and printed like the configuration.
pub(crate) fn document(value: &Value) -> Result<Document, Diagnostics> {
    tutti_config::parse(value.to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_printed_as_unit_does() {
        assert_eq!(Answer::success("Ok").body, b"{\n\t\"success\": \"Ok\"\n}\n");
    }
}
