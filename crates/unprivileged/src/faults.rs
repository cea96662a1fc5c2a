//! Faults of a configuration in messages between processes.

use tutti_config::{Diagnostic, Diagnostics, FaultKind, Pointer};
use tutti_protocol::ChangeError;

/// Maximum faults in one answer.
const MOST_FAULTS: usize = 100;

/// Maximum characters of one part of a fault. An application's last output is shorter.
const LONGEST_WORDS: usize = 64 * 1024;

/// Converts faults for sending, with limits on number and length.
pub fn to_send(faults: &Diagnostics) -> Vec<ChangeError> {
    let one = |fault: &Diagnostic| ChangeError {
        is_invalid: fault.kind != FaultKind::Apply,
        pointer: fault.pointer.as_str().to_owned(),
        message: fault.message.clone(),
        value: fault.value.clone(),
        expected: fault.expected.clone(),
        suggestion: fault.suggestion.clone(),
    };
    faults.0.iter().take(MOST_FAULTS).map(one).collect()
}

/// Converts received faults, with the same limits: the sender may be compromised.
pub fn received(faults: Vec<ChangeError>) -> Diagnostics {
    let faults = faults.into_iter().take(MOST_FAULTS);
    Diagnostics(faults.map(rebuilt).collect())
}

fn rebuilt(fault: ChangeError) -> Diagnostic {
    let short = |text: String| match text.char_indices().nth(LONGEST_WORDS) {
        Some((end, _)) => text.get(..end).unwrap_or_default().to_owned(),
        None => text,
    };
    let mut diagnostic =
        Diagnostic::new(Pointer::from_escaped(&fault.pointer), short(fault.message));
    if !fault.is_invalid {
        diagnostic.kind = FaultKind::Apply;
    }
    diagnostic.value = fault.value.map(short);
    diagnostic.expected = fault.expected.map(short);
    diagnostic.suggestion = fault.suggestion.map(short);
    diagnostic
}
