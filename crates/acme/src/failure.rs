//! Why an order has not come to its end, and what follows from that.

use std::time::Duration;

use instant_acme::{Error, Problem};
use tutti_dialer::error_chain;

/// A failure of an order.
#[derive(Debug)]
pub(crate) struct OrderError {
    /// In one sentence.
    pub(crate) message: String,
    /// The authority asks for such a pause.
    pub(crate) pause: Option<Duration>,
    /// The next step, beyond a pause.
    pub(crate) cure: Cure,
}

/// The step that follows a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cure {
    /// Go on later with what has been begun.
    GoOn,
    /// Go on at once: nothing is wrong but the moment.
    Repeat,
    /// Begin another order later: this one has come to nothing.
    NewOrder,
    /// Register the account again.
    Register,
    /// Nothing of it is noted: another node of the fleet goes on with it, or this one once the fleet's store is there.
    Elsewhere,
}

impl OrderError {
    pub(crate) fn new(message: impl Into<String>) -> OrderError {
        OrderError {
            message: message.into(),
            pause: None,
            cure: Cure::GoOn,
        }
    }

    pub(crate) fn with(self, cure: Cure) -> OrderError {
        OrderError { cure, ..self }
    }
}

/// The word at the end of a problem's type (RFC 8555 §6.7).
pub(crate) fn kind(problem: &Problem) -> &str {
    let kind = problem.r#type.as_deref().unwrap_or_default();
    kind.rsplit(':').next().unwrap_or_default()
}

/// A problem in words: what a browser of the authority's documents would look for is in it.
pub(crate) fn words(problem: &Problem) -> String {
    let mut text = problem.detail.clone().unwrap_or_default();
    for part in &problem.subproblems {
        if let Some(detail) = &part.detail {
            text = format!("{text}; {detail}");
        }
    }
    // It goes into the log, and onto terminals.
    let text = text.replace(char::is_control, " ");
    match kind(problem) {
        "" => text,
        kind => format!("{text} ({kind})"),
    }
}

impl From<Error> for OrderError {
    fn from(error: Error) -> OrderError {
        let problem = match error {
            Error::Api(problem) => problem,
            Error::Timeout(_) => {
                return OrderError::new("the authority has not come to a result in time");
            }
            Error::Json(error) => {
                return OrderError::new(format!(
                    "the authority's answer cannot be understood: {error}"
                ));
            }
            error => return OrderError::new(error_chain(&error)),
        };
        let cure = match kind(&problem) {
            "badNonce" => Cure::Repeat,
            "accountDoesNotExist" => Cure::Register,
            // These end by themselves.
            "rateLimited" | "serverInternal" | "orderNotReady" => Cure::GoOn,
            // The same order would be refused again.
            _ => Cure::NewOrder,
        };
        OrderError::new(format!("the authority answers: {}", words(&problem))).with(cure)
    }
}
