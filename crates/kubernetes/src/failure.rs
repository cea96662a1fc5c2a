//! Failures of the API server, and of the way to it.

use http::StatusCode;

/// The end of an attempt.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FollowError {
    /// The version from which we wanted to go on is no longer there: list again.
    Gone,
    /// It answers, and does not give what we want: what we know may be what is wrong. For the log.
    Refused(String),
    /// There is no answer, or not all of one. For the log.
    Other(String),
}

impl FollowError {
    pub(crate) fn new(text: impl std::fmt::Display) -> Self {
        FollowError::Other(text.to_string())
    }

    /// From the status of an answer and what the API server says of it.
    pub(crate) fn of_status(status: u16, message: &str, namespace: &str) -> Self {
        let said = match message {
            "" => String::new(),
            message => format!(": {message}"),
        };
        match StatusCode::from_u16(status) {
            Ok(StatusCode::GONE) => FollowError::Gone,
            Ok(StatusCode::UNAUTHORIZED) => FollowError::Other(format!(
                "the API server does not take the token (401){said}"
            )),
            Ok(StatusCode::FORBIDDEN) => FollowError::Refused(format!(
                "the API server does not allow it (403){said}; hint: a Role in the namespace `{namespace}` has to allow `list` and `watch` of `endpointslices` of `discovery.k8s.io`"
            )),
            _ => FollowError::Refused(format!("the API server answers {status}{said}")),
        }
    }
}
