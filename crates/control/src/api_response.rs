//! A response of the API: status, JSON body, a few fields.

use serde_json::{Value, json};
use tutti_config::TreeNode;
use tutti_config::{Diagnostics, Document, Format};

/// The response to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiResponse {
    pub(crate) status: u16,
    /// Mostly JSON; empty for 304.
    pub(crate) body: Vec<u8>,
    pub(crate) etag: Option<String>,
    pub(crate) allow: Option<&'static str>,
    /// The authentication that a client can use: `WWW-Authenticate`.
    pub(crate) authenticate: Option<&'static str>,
    /// Type of the body; `None` is JSON.
    pub(crate) media_type: Option<&'static str>,
}

impl ApiResponse {
    pub(crate) fn value(node: &TreeNode) -> ApiResponse {
        let mut body = node.to_json();
        body.push('\n');
        ApiResponse {
            status: 200,
            body: body.into_bytes(),
            etag: None,
            allow: None,
            authenticate: None,
            media_type: None,
        }
    }

    /// Returns a value in the language that the client prefers.
    pub(crate) fn value_as(node: &TreeNode, format: Format) -> ApiResponse {
        match format {
            Format::Yaml => ApiResponse {
                body: node.to_yaml().into_bytes(),
                media_type: Some(format.media_type()),
                ..ApiResponse::value(node)
            },
            _ => ApiResponse::value(node),
        }
    }

    pub(crate) fn success(message: &str) -> ApiResponse {
        ApiResponse::json(200, &json!({ "success": message }))
    }

    /// `{"success": …}`, with `warnings` if there are any.
    pub(crate) fn done(message: &str, warnings: &Diagnostics) -> ApiResponse {
        if warnings.0.is_empty() {
            return ApiResponse::success(message);
        }
        ApiResponse::json(
            200,
            &json!({ "success": message, "warnings": warnings.list() }),
        )
    }

    /// `{"error": …}`, with a `detail` if there is one.
    pub(crate) fn error(status: u16, error: &str, detail: Option<&str>) -> ApiResponse {
        match detail {
            Some(detail) => ApiResponse::json(status, &json!({ "error": error, "detail": detail })),
            None => ApiResponse::json(status, &json!({ "error": error })),
        }
    }

    /// Unit's response for a path that does not exist.
    pub(crate) fn missing() -> ApiResponse {
        ApiResponse::error(404, "Value doesn't exist.", None)
    }

    /// The response for a method that the path does not support.
    pub(crate) fn method(allow: &'static str) -> ApiResponse {
        let mut answer = ApiResponse::error(
            405,
            "Invalid method.",
            Some(&format!("Allowed here: {allow}.")),
        );
        answer.allow = Some(allow);
        answer
    }

    /// The response for faults of a configuration.
    pub(crate) fn faults(faults: &Diagnostics) -> ApiResponse {
        ApiResponse::json(faults.http_status(), &faults.to_json())
    }

    /// The response if the value has changed since the client read it.
    pub(crate) fn changed_meanwhile() -> ApiResponse {
        ApiResponse::error(
            412,
            "Precondition failed.",
            Some("The configuration has changed since it was read; read it again."),
        )
    }

    /// The response with a JSON Schema.
    pub(crate) fn schema(value: &Value) -> ApiResponse {
        let mut answer = ApiResponse::json(200, value);
        answer.media_type = Some("application/schema+json");
        answer
    }

    /// The response with metrics in a format.
    pub(crate) fn metrics(format: tutti_metrics::ExpositionFormat, body: Vec<u8>) -> ApiResponse {
        ApiResponse {
            status: 200,
            body,
            etag: None,
            allow: None,
            authenticate: None,
            media_type: Some(format.media_type()),
        }
    }

    /// The response with JSON, formatted like the configuration.
    pub(crate) fn json(status: u16, value: &Value) -> ApiResponse {
        let body = match document(value) {
            Ok(document) => document.to_json(),
            Err(_) => value.to_string(),
        };
        ApiResponse {
            status,
            body: (body + "\n").into_bytes(),
            etag: None,
            allow: None,
            authenticate: None,
            media_type: None,
        }
    }
}

/// The response with the value at `path` of a document.
pub(crate) fn read(document: &Document, path: &[&str]) -> ApiResponse {
    match document.get(path) {
        Ok(node) => ApiResponse::value(node),
        Err(_) => ApiResponse::missing(),
    }
}

/// Formats a message as a sentence.
pub(crate) fn sentence(message: &str) -> String {
    let mut letters = message.chars();
    match letters.next() {
        Some(first) => format!("{}{}.", first.to_uppercase(), letters.as_str()),
        None => String::new(),
    }
}

/// Converts a JSON value to a document, to be traversed and printed like the configuration.
pub(crate) fn document(value: &Value) -> Result<Document, Diagnostics> {
    tutti_config::parse(value.to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_printed_as_unit_does() {
        assert_eq!(
            ApiResponse::success("Ok").body,
            b"{\n\t\"success\": \"Ok\"\n}\n"
        );
    }
}
