//! Limits that several servers share, on the page of `tutti status`.

use serde_json::Value;
use tutti_metrics::status_value::{members, number, plural};

use crate::style;

/// Returns a line for each limit, and one for each limit store.
pub(super) fn lines(status: &Value) -> Vec<String> {
    let limits = members(status, "/limits").map(|(name, limit)| limit_line(name, limit));
    let stores = members(status, "/limit_stores").map(|(name, store)| store_line(name, store));
    limits.chain(stores).collect()
}

/// `limit        api: 50/s of 100/s, burst 12 of 25, shared by 2 nodes, 7 exceeded`.
fn limit_line(name: &str, limit: &Value) -> String {
    let (whole, own) = (rate(limit, "/rate"), rate(limit, "/share/rate"));
    let (burst, part) = (number(limit, "/burst"), number(limit, "/share/burst"));
    let nodes = number(limit, "/nodes");
    let how = match limit.get("store").and_then(Value::as_str) {
        Some(store) => format!("{whole}, burst {burst}, counted in {store}"),
        None => {
            format!(
                "{own} of {whole}, burst {part} of {burst}, shared by {}",
                plural(nodes, "node")
            )
        }
    };
    let exceeded = number(limit, "/exceeded");
    format!("{:<13}{name}: {how}, {exceeded} exceeded", "limit")
}

/// `limit store  shared: answers, 40 requests counted`.
fn store_line(name: &str, store: &Value) -> String {
    let counted = number(store, "/requests/counted");
    let failed = number(store, "/requests/failed");
    let state = match store.get("connected").and_then(Value::as_bool) {
        Some(true) => "answers".to_owned(),
        _ => style::bad("does not answer"),
    };
    let mut text = format!(
        "{:<13}{name}: {state}, {counted} requests counted",
        "limit store"
    );
    if failed > 0 {
        text.push_str(&format!(", {failed} without a response"));
    }
    if let Some(error) = store.get("error").and_then(Value::as_str) {
        text.push_str(&format!("\n  {error}"));
    }
    text
}

/// `100/s`, `0.5/s`.
fn rate(limit: &Value, pointer: &str) -> String {
    let rate = limit.pointer(pointer).and_then(Value::as_f64);
    let text = format!("{:.3}", rate.unwrap_or_default());
    format!("{}/s", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn limits_and_stores_have_a_line_each() {
        let status = json!({
            "limits": {
                "api": {"nodes": 2, "store": null, "rate": 100.0, "burst": 25, "share": {"rate": 50.0, "burst": 12}, "exceeded": 7},
                "login": {"nodes": 1, "store": "shared", "rate": 0.083_333, "burst": 4, "share": {"rate": 0.083_333, "burst": 4}, "exceeded": 0},
            },
            "limit_stores": {"shared": {"connected": false, "error": "refused", "requests": {"counted": 40, "failed": 2}}},
        });
        let lines = lines(&status);
        assert_eq!(
            lines[0],
            "limit        api: 50/s of 100/s, burst 12 of 25, shared by 2 nodes, 7 exceeded"
        );
        assert_eq!(
            lines[1],
            "limit        login: 0.083/s, burst 4, counted in shared, 0 exceeded"
        );
        assert!(lines[2].starts_with("limit store  shared: ") && lines[2].ends_with("\n  refused"));
        assert!(lines[2].contains("40 requests counted, 2 without a response"));
        assert!(super::lines(&json!({})).is_empty());
    }
}
