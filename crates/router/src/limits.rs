//! Limits that several servers share, in `/status` and in the metrics.

use serde_json::{Map, Value, json};
use tutti_metrics::{Page, names};
use tutti_server::{Server, SharedLimit};

/// `limits` of `/status`, where there are some.
pub(super) fn status(server: &Server) -> Option<Value> {
    let limits = server.shared_limits();
    let limits = limits.iter().map(|limit| (limit.name.clone(), one(limit)));
    some(limits.collect())
}

/// `limit_stores` of `/status`, where there are some.
pub(super) fn stores(server: &Server) -> Option<Value> {
    let stores = server.limit_stores().into_iter().map(|store| {
        let mut state = json!({
            "connected": store.status.is_connected,
            "requests": {"counted": store.status.answered, "failed": store.status.failed},
        });
        if let Some(error) = store.status.error {
            state["error"] = error.into();
        }
        (store.name, state)
    });
    some(stores.collect())
}

fn some(members: Map<String, Value>) -> Option<Value> {
    (!members.is_empty()).then_some(Value::Object(members))
}

fn one(limit: &SharedLimit) -> Value {
    // Requests per second.
    let rate = 1.0 / limit.interval.as_secs_f64();
    let nodes = f64::from(limit.nodes);
    json!({
        "nodes": limit.nodes,
        "store": limit.store,
        "rate": rate,
        "burst": limit.whole.requests - 1,
        "share": {"rate": rate / nodes, "burst": limit.own.requests - 1},
        "exceeded": limit.beyond,
    })
}

/// Adds them to a page of metrics.
pub(super) fn measure(server: &Server, page: &mut Page) {
    if !server.shared_limits().is_empty() {
        page.add(names::LIMIT_NODES, &[], u64::from(server.nodes()));
    }
    for store in server.limit_stores() {
        let name = store.name.as_str();
        let status = &store.status;
        page.add(
            names::LIMIT_STORE_UP,
            &[name],
            u64::from(status.is_connected),
        );
        page.add(
            names::LIMIT_STORE_REQUESTS,
            &[name, "counted"],
            status.answered,
        );
        page.add(
            names::LIMIT_STORE_REQUESTS,
            &[name, "failed"],
            status.failed,
        );
    }
}
