//! Why an order has failed, and what to do next.

use std::time::Duration;

use instant_acme::{Error, Problem};
use tutti_dialer::error_chain;
use tutti_options::visible;

/// A failure of an order.
#[derive(Debug)]
pub(crate) struct OrderError {
    /// The message, in one sentence.
    pub(crate) message: String,
    /// A pause that the authority requests.
    pub(crate) pause: Option<Duration>,
    /// The next step, after a pause.
    pub(crate) cure: Cure,
}

/// The next step after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cure {
    /// Continue the order later.
    GoOn,
    /// Continue immediately: the failure was only temporary.
    Repeat,
    /// Start another order later: this one has failed.
    NewOrder,
    /// Register the account again.
    Register,
    /// Nothing is recorded: another node of the fleet continues it, or this one once the fleet's store is available.
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

/// The last part of a problem's type (RFC 8555 §6.7).
pub(crate) fn kind(problem: &Problem) -> &str {
    let kind = problem.r#type.as_deref().unwrap_or_default();
    kind.rsplit(':').next().unwrap_or_default()
}

/// Describes a problem in terms that can be searched for in the authority's documentation.
pub(crate) fn words(problem: &Problem) -> String {
    let mut text = problem.detail.clone().unwrap_or_default();
    for part in &problem.subproblems {
        if let Some(detail) = &part.detail {
            text = format!("{text}; {detail}");
        }
    }
    // It is written to the log and to terminals.
    let text = visible(&text);
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
                return OrderError::new("the authority did not reach a result in time");
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
            // These are temporary.
            "rateLimited" | "serverInternal" | "orderNotReady" => Cure::GoOn,
            // The same order would be rejected again.
            _ => Cure::NewOrder,
        };
        OrderError::new(format!("the authority answers: {}", words(&problem))).with(cure)
    }
}
