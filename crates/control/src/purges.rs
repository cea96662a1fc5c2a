//! `/control/cache/NAME`: purges responses of a store.

use serde_json::Value;
use tutti_http::Method;
use tutti_protocol::PurgeScope;

use crate::api_response::{self, ApiResponse};
use crate::service::Service;

/// Responds to a request for a path below a store's name.
pub(crate) async fn answer(
    service: &dyn Service,
    method: Method,
    store: &str,
    path: &[&str],
) -> ApiResponse {
    let purge = match path {
        [] => PurgeScope::All,
        ["keys", key] => PurgeScope::Key {
            key: (*key).to_owned(),
        },
        ["prefixes", prefix] => PurgeScope::Prefix {
            prefix: (*prefix).to_owned(),
        },
        ["tags", tag] => PurgeScope::Tag {
            tag: (*tag).to_owned(),
        },
        _ => return ApiResponse::missing(),
    };
    if method != Method::Delete {
        return ApiResponse::method("DELETE");
    }
    match service.purge(store, purge).await {
        Ok(Some(Value::Number(count))) => {
            ApiResponse::success(&format!("{count} responses purged."))
        }
        Ok(_) => ApiResponse::missing(),
        Err(reason) => {
            let detail = api_response::sentence(&reason);
            ApiResponse::error(503, "The cache is not available now.", Some(&detail))
        }
    }
}
