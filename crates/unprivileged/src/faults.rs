//! Faults of a configuration on their way over a line.

use tutti_config::{Diagnostic, Diagnostics, FaultKind, Pointer};
use tutti_protocol::ChangeError;

/// Faults of one answer that are passed on.
const MOST_FAULTS: usize = 100;

/// Characters of one part of a fault that are passed on. An application's last output is shorter.
const LONGEST_WORDS: usize = 64 * 1024;

/// Faults as they travel, bounded in number and length.
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

/// Rebuilds faults that have come over a line, bounded again: the sender may be in wrong hands.
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
