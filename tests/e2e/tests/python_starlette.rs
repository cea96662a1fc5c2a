//! Starlette's own tests, unmodified: their applications behind the whole server, their client in front of it.

use serde_json::json;
use tutti_e2e::python::{PythonSite, environment_with_source};
use tutti_e2e::suite::{assert_passed, run_tests};

const REQUIREMENTS: &str =
    include_str!("../../conformance/python/starlette_suite/requirements.txt");
const DISABLED: &str = include_str!("../../conformance/python/starlette_suite/disabled.txt");

#[test]
fn starlettes_own_tests_pass() {
    let site = PythonSite::bare();
    let prepared = environment_with_source("starlette-suite", REQUIREMENTS, "starlette");
    let (home, source) = site.copied(&prepared);
    site.configure(&json!({
        "path": [site.root().join("starlette_suite"), site.root()], "home": home, "module": "suite", "processes": 1, "threads": 5,
        "environment": {"STARLETTE": source, "SERVER_PORT": site.server.port().to_string(), "PYTHONDONTWRITEBYTECODE": "1", "THREADS": "5"}
    }));
    assert_eq!(site.get("/threads").json(), json!({"limit": 5}));
    let body = vec![b'x'; 300_000];
    let reply = site.send(
        "POST",
        "/wsgi/a%20b?c=d",
        "X-Name: one\r\nX-Name: two\r\n",
        &body,
    );
    assert_eq!(
        (reply.status, reply.text().as_str()),
        (201, "POST /wsgi/a b?c=d 300000 one,two")
    );
    let head = reply.head.to_ascii_lowercase();
    assert!(
        head.contains("x-twice: 1\r\n") && head.contains("x-twice: 2\r\n"),
        "{head}"
    );
    // Each that is disabled has a line, in groups with their reason.
    assert_passed(&run_tests(&site), DISABLED, 440);
}
