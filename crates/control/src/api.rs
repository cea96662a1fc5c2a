//! From a request to its response.

use std::sync::Arc;

use tutti_config::{Document, Format};
use tutti_http::Method;
use tutti_protocol::{Cause, StoreKind};

use crate::api_response::{self, ApiResponse};
use crate::change::{Change, Changes, Edit};
use crate::etag::{self, Conditions};
use crate::maintenance;
use crate::service::{RestartError, Service, StopKind};
use crate::stored;

const READ_ONLY: &str = "GET, HEAD";
const EDITABLE: &str = "GET, HEAD, PUT, POST, PATCH, DELETE";
const RESTART: &str = "GET, POST";

/// A complete request.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    /// The path as sent, without the query.
    pub(crate) path: Vec<u8>,
    pub(crate) conditions: Conditions,
    pub(crate) body: Vec<u8>,
    /// `Content-Type`; empty if there is none.
    pub(crate) content_type: String,
    /// The language that the client prefers.
    pub(crate) accept: Format,
    /// The format of metrics that the client prefers.
    pub(crate) metrics: tutti_metrics::ExpositionFormat,
    /// The caller.
    pub(crate) by: String,
}

/// The API of one server.
pub(crate) struct Api {
    pub(crate) service: Arc<dyn Service>,
    pub(crate) changes: Arc<Changes>,
}

impl Api {
    pub(crate) fn new(service: Arc<dyn Service>, changes: Arc<Changes>) -> Self {
        Api { service, changes }
    }

    /// Responds to a request of a router, which may only read the status.
    pub(crate) async fn answer_of_status(&self, request: Request) -> ApiResponse {
        let names = segments(&request.path).unwrap_or_default();
        if names.first().is_none_or(|name| name != "status") {
            return ApiResponse::missing();
        }
        if !matches!(request.method, Method::Get | Method::Head) {
            return ApiResponse::method(READ_ONLY);
        }
        self.answer(request).await
    }

    /// Responds to a request, however long it takes.
    pub(crate) async fn answer(&self, request: Request) -> ApiResponse {
        let Some(segments) = segments(&request.path) else {
            return ApiResponse::error(
                400,
                "Invalid path.",
                Some("A percent-encoded name is malformed or not UTF-8."),
            );
        };
        let is_read = matches!(request.method, Method::Get | Method::Head);
        let names: Vec<&str> = segments.iter().map(String::as_str).collect();
        match names.as_slice() {
            [] if is_read => self.everything(request.accept).await,
            [] => ApiResponse::method(READ_ONLY),
            ["config", ..] if is_read => self.config(&segments, &request),
            ["config", ..] => self.change(segments, request).await,
            ["status", path @ ..] if is_read => match self.status().await {
                Ok(document) => api_response::read(&document, path),
                Err(answer) => answer,
            },
            ["status", ..] => ApiResponse::method(READ_ONLY),
            ["metrics"] if is_read => self.metrics(request.metrics).await,
            ["metrics"] => ApiResponse::method(READ_ONLY),
            ["certificates", path @ ..] => {
                let store = StoreKind::Certificates;
                stored::answer(&*self.service, store, request.method, path, request.body).await
            }
            ["js_modules", path @ ..] => {
                let store = StoreKind::JsModules;
                stored::answer(&*self.service, store, request.method, path, request.body).await
            }
            ["schema"] if is_read => ApiResponse::schema(&tutti_config::schema()),
            ["schema", "openapi.json"] if is_read => {
                ApiResponse::json(200, &crate::description::served())
            }
            ["schema"] | ["schema", "openapi.json"] => ApiResponse::method(READ_ONLY),
            ["history"] if is_read => match self.service.history().await {
                Ok(entries) => ApiResponse::json(200, &entries),
                Err(reason) => ApiResponse::error(500, "Cannot read the history.", Some(&reason)),
            },
            ["history", number] if is_read => self.past(number, request.accept).await,
            ["history", number, "restore"] => self.restore(number, request).await,
            ["history"] | ["history", _] => ApiResponse::method(READ_ONLY),
            ["control", "reload"] if request.method == Method::Post => {
                self.run(Change::Reload, request).await
            }
            ["control", "reload"] => ApiResponse::method("POST"),
            ["control", "maintenance"] => self.maintenance(request).await,
            ["control", "upgrade"] => self.upgrade(request.method).await,
            ["control", "stop"] => self.stop(request.method, StopKind::Graceful).await,
            ["control", "stop", "quick"] => self.stop(request.method, StopKind::Quick).await,
            ["control", "spoolers", name, path @ ..] => {
                crate::jobs::answer(&*self.service, request.method, name, path).await
            }
            ["control", "cache", name, path @ ..] => {
                crate::purges::answer(&*self.service, request.method, name, path).await
            }
            ["control", "certificates", name, "renew"] => {
                crate::stored::renew(&*self.service, request.method, name).await
            }
            ["control", "applications", name, "restart"] => {
                self.restart(request.method, name).await
            }
            _ => ApiResponse::missing(),
        }
    }

    /// Returns the content of `/status`, or the response if it is not available.
    async fn status(&self) -> Result<Document, ApiResponse> {
        let status = self.service.status().await.map_err(|reason| {
            let detail = api_response::sentence(&reason);
            ApiResponse::error(503, "The status is not available now.", Some(&detail))
        })?;
        api_response::document(&status)
            .map_err(|_| ApiResponse::error(500, "Internal error.", None))
    }

    async fn metrics(&self, format: tutti_metrics::ExpositionFormat) -> ApiResponse {
        match self.service.metrics(format).await {
            Ok(body) => ApiResponse::metrics(format, body),
            Err(reason) => {
                let detail = api_response::sentence(&reason);
                ApiResponse::error(503, "The metrics are not available now.", Some(&detail))
            }
        }
    }

    async fn everything(&self, accept: Format) -> ApiResponse {
        let mut all = Document::empty();
        let status = match self.status().await {
            Ok(status) => status,
            Err(answer) => return answer,
        };
        let stored =
            |store| api_response::document(&self.service.stored(store)).unwrap_or_default();
        let config = self.service.document().as_ref().clone();
        let parts = [
            ("certificates", stored(StoreKind::Certificates)),
            ("js_modules", stored(StoreKind::JsModules)),
            ("config", config),
            ("status", status),
        ];
        for (name, part) in parts {
            // Adding a member to an object cannot fail.
            let _ = all.put(&[name], part);
        }
        ApiResponse::value_as(all.root(), accept)
    }

    fn config(&self, segments: &[String], request: &Request) -> ApiResponse {
        let conditions = &request.conditions;
        let document = self.service.document();
        let path = segments.get(1..).unwrap_or_default();
        let Ok(node) = document.get(path) else {
            return ApiResponse::missing();
        };
        let tag = etag::of(node);
        let is_changed = |condition: &etag::Condition| condition.matches_none(Some(&tag));
        if conditions
            .if_match
            .as_ref()
            .is_some_and(|condition| !condition.matches(Some(&tag)))
        {
            return ApiResponse::changed_meanwhile();
        }
        let mut answer = if conditions.if_none_match.as_ref().is_none_or(is_changed) {
            ApiResponse::value_as(node, request.accept)
        } else {
            ApiResponse {
                status: 304,
                body: Vec::new(),
                etag: None,
                allow: None,
                authenticate: None,
                media_type: None,
            }
        };
        answer.etag = Some(tag);
        answer
    }

    async fn change(&self, mut segments: Vec<String>, mut request: Request) -> ApiResponse {
        let format = Format::of_media_type(&request.content_type).unwrap_or_default();
        let body = std::mem::take(&mut request.body);
        let edit = match request.method {
            Method::Put => Edit::Put(body, format),
            Method::Post => Edit::Post(body, format),
            Method::Patch if is_json_patch(&request.content_type) => {
                return ApiResponse::error(
                    415,
                    "Unsupported media type.",
                    Some("PATCH takes a merge patch (RFC 7386), `application/merge-patch+json`."),
                );
            }
            Method::Patch => Edit::Patch(body, format),
            Method::Delete => Edit::Delete,
            _ => return ApiResponse::method(EDITABLE),
        };
        segments.remove(0);
        let change = Change::Edit {
            path: segments,
            edit,
            conditions: std::mem::take(&mut request.conditions),
        };
        self.run(change, request).await
    }

    async fn run(&self, change: Change, request: Request) -> ApiResponse {
        let cause = Cause {
            by: request.by,
            change: format!(
                "{} {}",
                request.method.as_str(),
                String::from_utf8_lossy(&request.path)
            ),
        };
        Arc::clone(&self.changes)
            .run(Arc::clone(&self.service), change, cause)
            .await
    }

    /// `/history/NUMBER`
    async fn past(&self, number: &str, accept: Format) -> ApiResponse {
        let Ok(number) = number.parse() else {
            return ApiResponse::missing();
        };
        match self.service.past(number).await {
            Ok(Some(document)) => ApiResponse::value_as(document.root(), accept),
            Ok(None) => ApiResponse::missing(),
            Err(reason) => ApiResponse::error(500, "Cannot read the history.", Some(&reason)),
        }
    }

    /// `/history/NUMBER/restore`
    async fn restore(&self, number: &str, request: Request) -> ApiResponse {
        let Ok(number) = number.parse() else {
            return ApiResponse::missing();
        };
        if request.method != Method::Post {
            return ApiResponse::method("POST");
        }
        self.run(Change::Restore(number), request).await
    }

    /// `/control/maintenance`
    async fn maintenance(&self, mut request: Request) -> ApiResponse {
        match request.method {
            Method::Get | Method::Head => match self.service.document().get(&maintenance::PLACE) {
                Ok(node) => ApiResponse::value_as(node, request.accept),
                Err(_) => ApiResponse::missing(),
            },
            Method::Put => {
                let format = Format::of_media_type(&request.content_type).unwrap_or_default();
                let options = (std::mem::take(&mut request.body), format);
                self.run(Change::Maintenance(Some(options)), request).await
            }
            Method::Delete => self.run(Change::Maintenance(None), request).await,
            _ => ApiResponse::method("GET, HEAD, PUT, DELETE"),
        }
    }

    async fn upgrade(&self, method: Method) -> ApiResponse {
        if method != Method::Post {
            return ApiResponse::method("POST");
        }
        match tokio::spawn(self.service.upgrade()).await {
            Ok(Ok(())) => ApiResponse::success("Upgraded."),
            Ok(Err(reason)) => {
                ApiResponse::error(500, "Failed to upgrade the server.", Some(&reason))
            }
            Err(_) => ApiResponse::error(
                500,
                "Internal error.",
                Some("The upgrade failed unexpectedly; see the log."),
            ),
        }
    }

    async fn stop(&self, method: Method, kind: StopKind) -> ApiResponse {
        if method != Method::Post {
            return ApiResponse::method("POST");
        }
        match self.service.stop(kind).await {
            Ok(()) => ApiResponse::success("Stopping."),
            Err(reason) => ApiResponse::error(500, "Failed to stop the server.", Some(&reason)),
        }
    }

    async fn restart(&self, method: Method, name: &str) -> ApiResponse {
        // Unit restarts on GET, which should not change anything, so POST works too.
        if !matches!(method, Method::Get | Method::Post) {
            return ApiResponse::method(RESTART);
        }
        let restart = tokio::spawn(self.service.restart(name));
        match restart.await {
            Ok(Ok(())) => ApiResponse::success("Ok"),
            Ok(Err(RestartError::Unknown)) => ApiResponse::missing(),
            Ok(Err(RestartError::Failed(faults))) => {
                let mut report = faults.to_json();
                if let Some(report) = report.as_object_mut() {
                    report.insert(
                        "error".to_owned(),
                        "Failed to restart the application.".into(),
                    );
                }
                ApiResponse::json(500, &report)
            }
            Err(_) => ApiResponse::error(
                500,
                "Internal error.",
                Some("The restart failed unexpectedly; see the log."),
            ),
        }
    }
}

/// RFC 6902 is another format; read as a merge patch it would replace the value by an array.
fn is_json_patch(content_type: &str) -> bool {
    let name = content_type.split(';').next().unwrap_or_default();
    name.trim()
        .eq_ignore_ascii_case("application/json-patch+json")
}

/// Splits a path into names and decodes each, so that an encoded slash stays part of a name. A trailing slash is
/// ignored.
fn segments(path: &[u8]) -> Option<Vec<String>> {
    let path = path.strip_prefix(b"/").unwrap_or(path);
    let path = path.strip_suffix(b"/").unwrap_or(path);
    if path.is_empty() {
        return Some(Vec::new());
    }
    path.split(|&byte| byte == b'/').map(decode).collect()
}

fn decode(segment: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(segment).ok()?;
    String::from_utf8(tutti_config::pattern::percent_decode(text).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_decoded_one_by_one() {
        let names = |path: &str| segments(path.as_bytes());
        let some = |names: &[&str]| {
            Some(
                names
                    .iter()
                    .map(|&name| name.to_owned())
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(names("/"), some(&[]));
        assert_eq!(names("/config/"), some(&["config"]));
        assert_eq!(
            names("/config/listeners/unix:%2Frun%2fsite.sock"),
            some(&["config", "listeners", "unix:/run/site.sock"])
        );
        assert_eq!(
            names("/config/applications/%D0%B6%20x"),
            some(&["config", "applications", "ж x"])
        );
        assert_eq!(names("/config//x"), some(&["config", "", "x"]));
        assert_eq!(names("/config/%zz"), None);
        assert_eq!(names("/config/%4"), None);
        assert_eq!(names("/config/%ff"), None);
    }
}
