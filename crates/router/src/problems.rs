//! Parts of a configuration that are not in force, and why.

use std::sync::Arc;

use tutti_config::{Diagnostic, Diagnostics, Pointer};
use tutti_pool::{AppStatus, StartFailure};
use tutti_unprivileged::fault;

/// Parts of the stored configuration that could not be served when it was restored.
#[derive(Clone, Default)]
pub(super) struct Problems {
    pub(super) faults: Diagnostics,
    /// Applications whose start is repeated: problems until they have started.
    pub(super) starts: Vec<StartFailure>,
}

impl Problems {
    /// Those that are still problems, given the current state of `applications`.
    pub(super) fn left(&self, applications: &[(Arc<str>, AppStatus)]) -> Diagnostics {
        let starts = self.starts.iter().filter(|failure| {
            // An application that does not exist any more is not retried either.
            let mut named = applications
                .iter()
                .filter(|(name, _)| **name == *failure.name);
            named.all(|(_, status)| status.last_failure.is_some())
        });
        let faults = self.faults.0.iter().cloned();
        Diagnostics(faults.chain(starts.map(start_fault)).collect())
    }
}

/// Both results, or the faults of both.
pub(super) fn both<A, B>(
    a: Result<A, Diagnostics>,
    b: Result<B, Diagnostics>,
) -> Result<(A, B), Diagnostics> {
    match (a, b) {
        (Ok(a), Ok(b)) => Ok((a, b)),
        (Err(mut a), Err(b)) => {
            a.0.extend(b.0);
            Err(a)
        }
        (Err(faults), Ok(_)) | (Ok(_), Err(faults)) => Err(faults),
    }
}

pub(super) fn start_faults(failures: Vec<StartFailure>) -> Diagnostics {
    Diagnostics(failures.iter().map(start_fault).collect())
}

/// A failed start with the application's last output, if that adds to the message.
pub(super) fn start_fault(failure: &StartFailure) -> Diagnostic {
    let mut message = format!(
        "application `{}` failed to start ({}): {}",
        failure.name, failure.step, failure.message
    );
    let words = failure.stderr.trim();
    if !words.is_empty() && !failure.message.contains(words) {
        message = format!("{message}; its last output: {words}");
    }
    fault(
        Pointer::from_escaped(&failure.pointer),
        message,
        failure.hint.clone(),
    )
}

/// The same for an application that was only tried: a change is not refused because of it.
pub(super) fn unstarted_warning(failure: &StartFailure) -> Diagnostic {
    let mut warning = start_fault(failure);
    warning
        .message
        .push_str("; its requests get 503 until it starts");
    warning
}

/// An option that the language host warns about, although the application starts.
pub(super) fn option_warning(warning: &StartFailure) -> Diagnostic {
    fault(
        Pointer::from_escaped(&warning.pointer),
        warning.message.clone(),
        warning.hint.clone(),
    )
}

#[cfg(test)]
#[allow(clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_both_sides_are_reported() {
        let one = |text: &str| Diagnostics::one(Diagnostic::apply(Pointer::default(), text));
        let faults = both::<(), ()>(Err(one("a")), Err(one("b"))).err().unwrap();
        assert_eq!(faults.0.len(), 2);
        assert!(both::<(), ()>(Ok(()), Err(one("b"))).is_err());
    }

    fn start_failure(name: &str) -> StartFailure {
        StartFailure {
            name: name.to_owned(),
            pointer: format!("/applications/{name}"),
            step: "load".to_owned(),
            message: "no database".to_owned(),
            hint: Some("start it".to_owned()),
            stderr: String::new(),
        }
    }

    fn status(last_failure: Option<StartFailure>) -> AppStatus {
        AppStatus {
            running: 0,
            starting: 0,
            stopped: 0,
            started: false,
            idle: 0,
            active: 0,
            queued: 0,
            restarts: 0,
            requests: 0,
            failures: 0,
            last_failure: last_failure.map(Arc::new),
        }
    }

    #[test]
    fn an_application_is_a_problem_until_it_has_started() {
        let fault = Diagnostic::apply(Pointer::default(), "no folder");
        let problems = Problems {
            faults: Diagnostics::one(fault),
            starts: vec![start_failure("shop"), start_failure("gone")],
        };
        let left = |failure| {
            let left = problems.left(&[("shop".into(), status(failure))]);
            left.0
                .into_iter()
                .map(|fault| fault.message)
                .collect::<Vec<_>>()
        };
        let still = left(Some(start_failure("shop")));
        assert_eq!(still.len(), 3, "{still:?}");
        assert!(still[1].contains("`shop` failed to start (load): no database"));
        // An application that does not exist any more is not retried either.
        let started = left(None);
        assert_eq!(started.len(), 2, "{started:?}");
        assert!(started[0] == "no folder" && started[1].contains("`gone`"));
    }

    #[test]
    fn the_last_output_is_added_if_it_differs_from_the_message() {
        let mut failure = start_failure("shop");
        failure.stderr = "  no database\n".to_owned();
        assert!(!start_fault(&failure).message.contains("its last output"));
        failure.stderr = "refused by 10.0.0.1\n".to_owned();
        let fault = start_fault(&failure);
        assert!(
            fault
                .message
                .ends_with("no database; its last output: refused by 10.0.0.1")
        );
        assert_eq!(fault.pointer, Pointer::from_escaped("/applications/shop"));
        let warning = unstarted_warning(&failure).message;
        assert!(
            warning.ends_with("; its requests get 503 until it starts"),
            "{warning}"
        );
    }
}
