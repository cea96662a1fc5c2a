//! Failures of the API server, and of the way to it.

use http::StatusCode;

/// Why an attempt ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FollowError {
    /// The version to continue from no longer exists: list again.
    Gone,
    /// It responds, but does not provide the data: what is known may be wrong. For the log.
    Refused(String),
    /// There is no response, or an incomplete one, or the API server is overloaded. For the log.
    Other(String),
}

impl FollowError {
    pub(crate) fn new(text: impl std::fmt::Display) -> Self {
        FollowError::Other(text.to_string())
    }

    /// Creates a failure from the status of a response and the API server's message.
    pub(crate) fn of_status(status: u16, message: &str, namespace: &str) -> Self {
        let said = match message {
            "" => String::new(),
            message => format!(": {message}"),
        };
        match StatusCode::from_u16(status) {
            Ok(StatusCode::GONE) => FollowError::Gone,
            Ok(StatusCode::UNAUTHORIZED) => FollowError::Other(format!(
                "the API server does not accept the token (401){said}"
            )),
            Ok(StatusCode::FORBIDDEN) => FollowError::Refused(format!(
                "the API server does not allow it (403){said}; hint: a Role in the namespace `{namespace}` has to allow `list` and `watch` of `endpointslices` of `discovery.k8s.io`"
            )),
            // Overloaded, or a gateway before it: what is known was right. All servers would list at once when it is back. A 504 is not
            // among them: it is the answer to a version that is newer than all (client-go, `IsTooLargeResourceVersion`).
            Ok(
                StatusCode::TOO_MANY_REQUESTS
                | StatusCode::INTERNAL_SERVER_ERROR
                | StatusCode::BAD_GATEWAY
                | StatusCode::SERVICE_UNAVAILABLE,
            ) => FollowError::Other(format!("the API server answers {status}{said}")),
            _ => FollowError::Refused(format!("the API server answers {status}{said}")),
        }
    }
}
