//! Parts of a configuration that are not in force, and why.

use std::sync::Arc;

use tutti_config::{Diagnostic, Diagnostics, Pointer};
use tutti_pool::{AppStatus, StartFailure};
use tutti_unprivileged::fault;

/// Parts of the stored configuration that were not served when it was restored.
#[derive(Clone, Default)]
pub(super) struct Problems {
    pub(super) faults: Diagnostics,
    /// Applications that are tried again: problems until they have started.
    pub(super) starts: Vec<StartFailure>,
}

impl Problems {
    /// Those that are still problems as `applications` are now.
    pub(super) fn left(&self, applications: &[(Arc<str>, AppStatus)]) -> Diagnostics {
        let starts = self.starts.iter().filter(|failure| {
            // One that is not there at all is not tried again either.
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

/// A failed start with the application's last output, where they say more than the message.
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

/// The same of an application that was only tried: a change is not refused for it.
pub(super) fn unstarted_warning(failure: &StartFailure) -> Diagnostic {
    let mut warning = start_fault(failure);
    warning
        .message
        .push_str("; its requests get 503 until it starts");
    warning
}

/// An option that the language host of an application warns of, though the application starts.
pub(super) fn option_warning(warning: &StartFailure) -> Diagnostic {
    fault(
        Pointer::from_escaped(&warning.pointer),
        warning.message.clone(),
        warning.hint.clone(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_both_sides_are_told() {
        let one = |text: &str| Diagnostics::one(Diagnostic::apply(Pointer::default(), text));
        let faults = both::<(), ()>(Err(one("a")), Err(one("b"))).err().unwrap();
        assert_eq!(faults.0.len(), 2);
        assert!(both::<(), ()>(Ok(()), Err(one("b"))).is_err());
    }
}
