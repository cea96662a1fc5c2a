//! A thousand changes of the configuration while requests run.

use std::time::Instant;

use serde_json::json;
use tutti_faults::{Site, print_outcome, scaled};
use tutti_testkit::ServerOptions;

#[test]
fn a_thousand_changes_lose_no_request() {
    let site = Site::start(&json!(2), &ServerOptions::default());
    let load = site.load(8, 1);
    let changes = scaled(250, 1000);
    let start = Instant::now();
    for turn in 0..changes {
        match turn % 5 {
            // Routes: no process may notice.
            0 => site.server.put(
                "/config/routes",
                &json!([
                    {"match": {"uri": format!("/no-{turn}")}, "action": {"return": 404}},
                    site.configuration(&json!(2))["routes"][0]
                ]),
            ),
            1 => site
                .server
                .put("/config/routes", &site.configuration(&json!(2))["routes"]),
            // Process counts.
            2 => site
                .server
                .put("/config/applications/site/processes", &json!(3)),
            3 => site
                .server
                .put("/config/applications/site/processes", &json!(2)),
            // The application itself.
            _ => site.server.put(
                "/config/applications/site/environment",
                &json!({"TURN": turn.to_string()}),
            ),
        }
    }
    let per_minute = changes as f64 * 60.0 / start.elapsed().as_secs_f64();
    site.wait_for_workers(2);
    let outcome = load.stop();
    print_outcome(
        &format!("{changes} changes, {per_minute:.0} a minute"),
        &outcome,
    );
    assert_eq!((outcome.failures(), outcome.refused), (0, 0), "{outcome}");
}

#[test]
fn refused_changes_change_nothing() {
    let site = Site::start(&json!(2), &ServerOptions::default());
    let workers = site.server.wait_for_workers("site", 2);
    let before = site.server.call("GET", "/config", &json!(null)).text();
    let load = site.load(4, 1);
    for (path, value) in [
        ("/config/listeners", json!({"*:99999": {"pass": "routes"}})),
        ("/config/applications/site/processes", json!("many")),
        ("/config/applications/site/root", json!("/does/not/exist")),
        (
            "/config/routes/0/action",
            json!({"pass": "applications/nobody"}),
        ),
        ("/config/settings", json!({"http": {"idle_timeouts": 3}})),
        // Taken by the control socket's neighbour: this very server.
        ("/config/listeners/192.0.2.1:80", json!({"pass": "routes"})),
    ] {
        let reply = site.server.call("PUT", path, &value);
        assert!(
            reply.status >= 400,
            "PUT {path} {value} was accepted: {}",
            reply.text()
        );
        let errors = &reply.json()["errors"];
        assert!(
            errors[0]["pointer"].is_string(),
            "no place named: {}",
            reply.text()
        );
    }
    assert_eq!(
        site.server.call("GET", "/config", &json!(null)).text(),
        before
    );
    assert_eq!(
        site.server.workers("site"),
        workers,
        "no worker was touched"
    );
    let outcome = load.stop();
    print_outcome("refused changes", &outcome);
    assert_eq!((outcome.failures(), outcome.refused), (0, 0), "{outcome}");
}
