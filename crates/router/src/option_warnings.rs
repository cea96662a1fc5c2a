//! Warnings of language hosts about options of their applications, at their places in the configuration.

use tutti_config::{Diagnostic, Pointer};
use tutti_pool::StartFailure;
use tutti_role::fault;

pub(super) fn of(warnings: &[StartFailure]) -> impl Iterator<Item = Diagnostic> {
    warnings.iter().map(|warning| {
        let pointer = Pointer::from_escaped(&warning.pointer);
        fault(pointer, warning.message.clone(), warning.hint.clone())
    })
}
