//! Faults of a change as answers to the source process, which decide how the fleet continues. Used for its documents and
//! its certificates.
//!
//! Must never happen: that a node refuses a document because of something that passes by itself, such as an upgrade.

use tutti_config::{Diagnostic, Diagnostics, FaultKind, Pointer};
use tutti_protocol::FleetAnswer;

/// Longest reason for a rejection.
const LONGEST_REASON: usize = 2000;

/// Formats faults for the fleet: the place of the first one, and all of them in one sentence.
pub(super) fn refused(faults: &Diagnostics) -> FleetAnswer {
    let details = faults.0.iter().enumerate();
    let details: Vec<String> = details
        .map(|(number, fault)| match number {
            // Its place is reported separately.
            0 => Diagnostic {
                pointer: Pointer::root(),
                ..fault.clone()
            }
            .detail(),
            _ => fault.detail(),
        })
        .collect();
    let reason: String = details.join("; ").chars().take(LONGEST_REASON).collect();
    match faults.0.first() {
        Some(first) if first.kind != FaultKind::Unavailable => FleetAnswer::Refused {
            pointer: first.pointer.as_str().to_owned(),
            reason,
        },
        _ => FleetAnswer::Unavailable { reason },
    }
}

#[cfg(test)]
mod tests {
    use tutti_unprivileged::role_state::RoleState;

    use super::super::service::takes_changes;
    use super::*;

    #[test]
    fn a_document_waits_for_the_end_of_an_upgrade() {
        for state in [RoleState::Frozen, RoleState::Stopping] {
            let faults = takes_changes(state).unwrap_err();
            let answer = refused(&faults);
            assert!(
                matches!(answer, FleetAnswer::Unavailable { .. }),
                "{answer:?}"
            );
        }
    }
}
