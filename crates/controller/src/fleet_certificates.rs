//! Certificates that come from a fleet, as the controller sees them.
//!
//! The source process reads data from a store and has decrypted it. Its certificates are stored as by a `PUT`, with the
//! same checks. Must never happen: that one of them replaces an automatic certificate or one from a file.

use std::time::SystemTime;

use serde_json::{Value, json};
use tutti_config::model::written;
use tutti_control::StoreError;
use tutti_log::Level;
use tutti_options::source::is_certificate_name;
use tutti_protocol::{Challenge, FleetAnswer, FleetCertificates, StoreKind};
use tutti_tls::Bundle;

use super::fleet_faults;
use super::service::Inner;

impl Inner {
    /// Stores a certificate of the fleet, and puts it in force if the configuration refers to it.
    pub(super) async fn take_from_fleet(&self, name: String, pem: String) -> FleetAnswer {
        if let Err(refusal) = check_name(&name) {
            return refusal;
        }
        // Storing it reports why it cannot be parsed.
        if let Ok(bundle) = Bundle::parse(pem.as_bytes(), SystemTime::now()) {
            let known = self.certificates.load().get(&name);
            if known.is_some_and(|known| known.is_same(&bundle)) {
                return FleetAnswer::Noted;
            }
            if let Err(error) = self.check_replacement(&name, &bundle) {
                return refused(error.to_string());
            }
        }
        match self.store_certificate(name.clone(), pem.into_bytes()).await {
            Ok(_) => {
                let text = format!("the certificate `{name}` of the fleet is in force");
                self.log.line(Level::Notice, &text);
                FleetAnswer::Noted
            }
            Err(error) => answer(error),
        }
    }

    /// Deletes a certificate that the fleet no longer has, unless it is used.
    pub(super) async fn discard_of_fleet(&self, name: String) -> FleetAnswer {
        if let Err(refusal) = check_name(&name) {
            return refusal;
        }
        match self.discard(StoreKind::Certificates, name).await {
            Ok(()) | Err(StoreError::Unknown) => FleetAnswer::Noted,
            Err(error) => answer(error),
        }
    }

    /// Makes the router serve challenge responses for all nodes.
    pub(super) async fn challenges_of_fleet(&self, challenges: Vec<Challenge>) -> FleetAnswer {
        match self.answer_authorities(challenges).await {
            Ok(()) => FleetAnswer::Noted,
            Err(reason) => FleetAnswer::Unavailable { reason },
        }
    }
}

/// Rejects names of automatic certificates and of files.
fn check_name(name: &str) -> Result<(), FleetAnswer> {
    match is_certificate_name(name) {
        true => Ok(()),
        false => Err(refused(
            "this is not a valid name for a certificate of a fleet".to_owned(),
        )),
    }
}

fn refused(reason: String) -> FleetAnswer {
    FleetAnswer::Refused {
        pointer: String::new(),
        reason,
    }
}

fn answer(error: StoreError) -> FleetAnswer {
    match error {
        StoreError::Invalid(fault) => refused(fault.detail()),
        StoreError::Used(places) => refused(format!(
            "the fleet no longer has it, but the configuration uses it at `{}`",
            places.join("`, `")
        )),
        StoreError::Unknown => refused("there is no such certificate".to_owned()),
        StoreError::Failed(faults) => fleet_faults::refused(&faults),
    }
}

/// Returns `source/certificates` of `/status`; `None` if there is nothing to report.
pub(super) fn status(certificates: &FleetCertificates) -> Option<Value> {
    if *certificates == FleetCertificates::default() {
        return None;
    }
    let refused = certificates.refused.iter().map(|(name, one)| {
        let at = Value::from(written(one.at.saturating_mul(1000)));
        (name.clone(), json!({"reason": one.reason, "at": at}))
    });
    let refused: serde_json::Map<_, _> = refused.collect();
    let mut status = json!({
        "key": certificates.key,
        "taken": certificates.taken,
        "refused": refused,
    });
    if let Some(error) = &certificates.error {
        status["error"] = error.as_str().into();
    }
    Some(status)
}

#[cfg(test)]
mod tests {
    use tutti_config::{Diagnostic, Diagnostics, Pointer};
    use tutti_unprivileged::role_state::RoleState;

    use super::super::service::takes_changes;
    use super::*;

    #[test]
    fn a_certificate_that_cannot_be_put_in_force_delays_no_document() {
        let fault = Diagnostic::apply(Pointer::default(), "the router rejects it");
        let rejected = answer(StoreError::Failed(Diagnostics::one(fault)));
        let expected = refused("the router rejects it".to_owned());
        assert_eq!(rejected, expected);
        let upgrading = takes_changes(RoleState::Frozen).unwrap_err();
        let waits = answer(StoreError::Failed(upgrading));
        assert!(
            matches!(waits, FleetAnswer::Unavailable { .. }),
            "{waits:?}"
        );
    }

    #[test]
    fn names_of_others_are_refused() {
        for name in ["site", "example.com", "a b"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        let long = "x".repeat(81);
        for name in [
            "",
            "acme:le:a.example.com",
            "/etc/a.pem",
            "./a.pem",
            "a/../../b",
            "a\nb",
            &long,
        ] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
