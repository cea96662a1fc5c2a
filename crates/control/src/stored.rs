//! `/certificates` and `/js_modules`: what is there is stored and deleted whole, and read at any depth.

use serde_json::json;
use tutti_http::Method;
use tutti_protocol::Store;

use crate::answer::{self, Answer};
use crate::service::{RenewError, Service, StoreError};

const WHOLE: &str = "GET, HEAD, PUT, DELETE";
const READ_ONLY: &str = "GET, HEAD";

/// The words of answers about a store's things.
struct Words {
    uploaded: &'static str,
    deleted: &'static str,
    invalid: &'static str,
    in_use: &'static str,
}

fn words(store: Store) -> &'static Words {
    match store {
        Store::Certificates => &Words {
            uploaded: "Certificate chain uploaded.",
            deleted: "Certificate deleted.",
            invalid: "Invalid certificate.",
            in_use: "The certificate is in use.",
        },
        Store::JsModules => &Words {
            uploaded: "JS module uploaded.",
            deleted: "JS module deleted.",
            invalid: "Invalid JS module.",
            in_use: "The JS module is in use.",
        },
    }
}

/// Answers a request for the place `path` below the store's section.
pub(crate) async fn answer(
    service: &dyn Service,
    store: Store,
    method: Method,
    path: &[&str],
    body: Vec<u8>,
) -> Answer {
    let words = words(store);
    match (method, path) {
        (Method::Get | Method::Head, _) => match answer::document(&service.stored(store)) {
            Ok(document) => answer::read(&document, path),
            Err(_) => Answer::error(500, "Internal error.", None),
        },
        // As tasks of their own: a client that leaves does not stop them half-way.
        (Method::Put, [name]) => match tokio::spawn(service.keep(store, name, body)).await {
            Ok(Ok(warnings)) => uploaded(words, &warnings),
            Ok(Err(error)) => refused(words, &error),
            Err(_) => unexpected(),
        },
        (Method::Delete, [name]) => match tokio::spawn(service.discard(store, name)).await {
            Ok(Ok(())) => Answer::success(words.deleted),
            Ok(Err(error)) => refused(words, &error),
            Err(_) => unexpected(),
        },
        (_, [_]) => Answer::method(WHOLE),
        _ => Answer::method(READ_ONLY),
    }
}

/// Answers a request that a certificate is renewed.
pub(crate) async fn renew(service: &dyn Service, method: Method, name: &str) -> Answer {
    if !matches!(method, Method::Get | Method::Post) {
        return Answer::method("GET, POST");
    }
    let failed = "Failed to renew the certificate.";
    match tokio::spawn(service.renew(name)).await {
        Ok(Ok(())) => Answer::success("Certificate renewed."),
        Ok(Err(RenewError::Unknown)) => Answer::missing(),
        Ok(Err(RenewError::Uploaded)) => {
            let detail = "It was uploaded: put a newer one in its place.";
            Answer::error(409, failed, Some(detail))
        }
        Ok(Err(RenewError::Failed(reason))) => {
            Answer::error(500, failed, Some(&answer::sentence(&reason)))
        }
        Err(_) => unexpected(),
    }
}

fn uploaded(words: &Words, warnings: &[String]) -> Answer {
    let success = words.uploaded;
    if warnings.is_empty() {
        return Answer::success(success);
    }
    let warning = warnings.join("; ");
    Answer::json(200, &json!({"success": success, "warning": warning}))
}

fn refused(words: &Words, error: &StoreError) -> Answer {
    match error {
        StoreError::Unknown => Answer::missing(),
        StoreError::Invalid(fault) => {
            let mut report =
                json!({"error": words.invalid, "detail": answer::sentence(&fault.detail())});
            if let (Some(report), Some(at)) = (report.as_object_mut(), fault.location) {
                let place = json!({"offset": at.offset, "line": at.line, "column": at.column});
                report.insert("location".to_owned(), place);
            }
            Answer::json(400, &report)
        }
        StoreError::Used(places) => {
            let places: Vec<String> = places.iter().map(|place| format!("`{place}`")).collect();
            let detail = format!("It is named at {}.", places.join(", "));
            Answer::error(409, words.in_use, Some(&detail))
        }
        StoreError::Failed(faults) => Answer::faults(faults),
    }
}

fn unexpected() -> Answer {
    Answer::error(
        500,
        "Internal error.",
        Some("The change failed unexpectedly; see the log."),
    )
}
