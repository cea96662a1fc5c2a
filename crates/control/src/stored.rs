//! `/certificates` and `/js_modules`: objects are stored and deleted whole, and read at any depth.

use serde_json::json;
use tutti_http::Method;
use tutti_protocol::StoreKind;

use crate::api_response::{self, ApiResponse};
use crate::service::{RenewError, Service, StoreError};

const WHOLE: &str = "GET, HEAD, PUT, DELETE";
const READ_ONLY: &str = "GET, HEAD";

/// The wording of responses about the objects of a store.
struct Words {
    uploaded: &'static str,
    deleted: &'static str,
    invalid: &'static str,
    in_use: &'static str,
}

fn words(store: StoreKind) -> &'static Words {
    match store {
        StoreKind::Certificates => &Words {
            uploaded: "Certificate chain uploaded.",
            deleted: "Certificate deleted.",
            invalid: "Invalid certificate.",
            in_use: "The certificate is in use.",
        },
        StoreKind::JsModules => &Words {
            uploaded: "JS module uploaded.",
            deleted: "JS module deleted.",
            invalid: "Invalid JS module.",
            in_use: "The JS module is in use.",
        },
    }
}

/// Responds to a request for `path` below the store's section.
pub(crate) async fn answer(
    service: &dyn Service,
    store: StoreKind,
    method: Method,
    path: &[&str],
    body: Vec<u8>,
) -> ApiResponse {
    let words = words(store);
    match (method, path) {
        (Method::Get | Method::Head, _) => match api_response::document(&service.stored(store)) {
            Ok(document) => api_response::read(&document, path),
            Err(_) => ApiResponse::error(500, "Internal error.", None),
        },
        // In tasks of their own, so that a client that disconnects does not interrupt them.
        (Method::Put, [name]) => match tokio::spawn(service.keep(store, name, body)).await {
            Ok(Ok(warnings)) => uploaded(words, &warnings),
            Ok(Err(error)) => refused(words, &error),
            Err(_) => unexpected(),
        },
        (Method::Delete, [name]) => match tokio::spawn(service.discard(store, name)).await {
            Ok(Ok(())) => ApiResponse::success(words.deleted),
            Ok(Err(error)) => refused(words, &error),
            Err(_) => unexpected(),
        },
        (_, [_]) => ApiResponse::method(WHOLE),
        _ => ApiResponse::method(READ_ONLY),
    }
}

/// Responds to a request to renew a certificate.
pub(crate) async fn renew(service: &dyn Service, method: Method, name: &str) -> ApiResponse {
    if !matches!(method, Method::Get | Method::Post) {
        return ApiResponse::method("GET, POST");
    }
    let failed = "Failed to renew the certificate.";
    match tokio::spawn(service.renew(name)).await {
        Ok(Ok(())) => ApiResponse::success("Certificate renewed."),
        Ok(Err(RenewError::Unknown)) => ApiResponse::missing(),
        Ok(Err(RenewError::Uploaded)) => {
            let detail = "It was uploaded: replace it with a newer one.";
            ApiResponse::error(409, failed, Some(detail))
        }
        Ok(Err(RenewError::Failed(reason))) => {
            ApiResponse::error(500, failed, Some(&api_response::sentence(&reason)))
        }
        Err(_) => unexpected(),
    }
}

fn uploaded(words: &Words, warnings: &[String]) -> ApiResponse {
    let success = words.uploaded;
    if warnings.is_empty() {
        return ApiResponse::success(success);
    }
    let warning = warnings.join("; ");
    ApiResponse::json(200, &json!({"success": success, "warning": warning}))
}

fn refused(words: &Words, error: &StoreError) -> ApiResponse {
    match error {
        StoreError::Unknown => ApiResponse::missing(),
        StoreError::Invalid(fault) => {
            let mut report =
                json!({"error": words.invalid, "detail": api_response::sentence(&fault.detail())});
            if let (Some(report), Some(at)) = (report.as_object_mut(), fault.location) {
                let place = json!({"offset": at.offset, "line": at.line, "column": at.column});
                report.insert("location".to_owned(), place);
            }
            ApiResponse::json(400, &report)
        }
        StoreError::Used(places) => {
            let places: Vec<String> = places.iter().map(|place| format!("`{place}`")).collect();
            let detail = format!("It is named at {}.", places.join(", "));
            ApiResponse::error(409, words.in_use, Some(&detail))
        }
        StoreError::Failed(faults) => ApiResponse::faults(faults),
    }
}

fn unexpected() -> ApiResponse {
    ApiResponse::error(
        500,
        "Internal error.",
        Some("The change failed unexpectedly; see the log."),
    )
}
