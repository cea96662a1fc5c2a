//! `/certificates`: bundles are stored and deleted whole, and read at any depth.

use tutti_http::Method;

use crate::answer::{self, Answer};
use crate::service::{CertificateError, Service};

const BUNDLE: &str = "GET, HEAD, PUT, DELETE";
const READ_ONLY: &str = "GET, HEAD";

/// Answers a request for the place `path` below `/certificates`.
pub(crate) async fn answer(
    service: &dyn Service,
    method: Method,
    path: &[&str],
    body: Vec<u8>,
) -> Answer {
    match (method, path) {
        (Method::Get | Method::Head, _) => match answer::document(&service.certificates()) {
            Ok(document) => answer::read(&document, path),
            Err(_) => Answer::error(500, "Internal error.", None),
        },
        // As tasks of their own: a client that leaves does not stop them half-way.
        (Method::Put, [name]) => match tokio::spawn(service.store_certificate(name, body)).await {
            Ok(Ok(warnings)) => uploaded(&warnings),
            Ok(Err(error)) => refused("Invalid certificate.", &error),
            Err(_) => unexpected(),
        },
        (Method::Delete, [name]) => match tokio::spawn(service.delete_certificate(name)).await {
            Ok(Ok(())) => Answer::success("Certificate deleted."),
            Ok(Err(error)) => refused("Invalid certificate.", &error),
            Err(_) => unexpected(),
        },
        (_, [_]) => Answer::method(BUNDLE),
        _ => Answer::method(READ_ONLY),
    }
}

fn uploaded(warnings: &[String]) -> Answer {
    let success = "Certificate chain uploaded.";
    if warnings.is_empty() {
        return Answer::success(success);
    }
    let warning = warnings.join("; ");
    Answer::json(
        200,
        &serde_json::json!({"success": success, "warning": warning}),
    )
}

fn refused(invalid: &str, error: &CertificateError) -> Answer {
    match error {
        CertificateError::Unknown => Answer::missing(),
        CertificateError::Invalid(reason) => {
            Answer::error(400, invalid, Some(&answer::sentence(reason)))
        }
        CertificateError::Used(places) => {
            let places: Vec<String> = places.iter().map(|place| format!("`{place}`")).collect();
            let detail = format!("It is named at {}.", places.join(", "));
            Answer::error(409, "The certificate is in use.", Some(&detail))
        }
        CertificateError::Failed(faults) => Answer::faults(faults),
    }
}

fn unexpected() -> Answer {
    Answer::error(
        500,
        "Internal error.",
        Some("The change failed unexpectedly; see the log."),
    )
}
