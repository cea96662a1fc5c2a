#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Mutex;

use serde_json::{Value, json};
use tutti_config::{Diagnostic, Diagnostics, Document, Pointer};
use tutti_control::{RestartError, ServiceFuture};
use tutti_protocol::{Cause, Token};

use super::*;
use crate::reply::Security;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A name that a browser would interpret as markup, if it were not escaped.
const HOSTILE: &str = "<img src=x onerror=alert(1)>\"'&</script>";

/// A server in which everything has a hostile name; it rejects every change.
#[derive(Default)]
struct Hostile {
    orders: Mutex<Vec<&'static str>>,
}

impl Service for Hostile {
    fn document(&self) -> Arc<Document> {
        let text = json!({"listeners": {(HOSTILE): {"pass": HOSTILE}}, "applications": {(HOSTILE): {"environment": {"A": "hunter2"}}, "other": {"environment": {"A": "hunter2"}}}});
        Arc::new(tutti_config::parse(text.to_string().as_bytes()).unwrap())
    }

    fn apply(&self, _: Document, _: Cause) -> ServiceFuture<Result<Diagnostics, Diagnostics>> {
        self.orders.lock().unwrap().push("apply");
        let fault = Diagnostic::new(
            Pointer::from_segments(["listeners", HOSTILE, "pass"]),
            HOSTILE,
        );
        Box::pin(std::future::ready(Err(Diagnostics::one(fault))))
    }

    fn files(&self) -> ServiceFuture<Result<Option<Document>, Diagnostics>> {
        let document = tutti_config::parse(
            json!({"listeners": {(HOSTILE): {"pass": "x"}}})
                .to_string()
                .as_bytes(),
        );
        Box::pin(std::future::ready(document.map(Some)))
    }

    fn history(&self) -> ServiceFuture<Result<Value, String>> {
        let one = |number: u64| json!({"number": number, "time": HOSTILE, "by": HOSTILE, "change": HOSTILE});
        Box::pin(std::future::ready(Ok(json!([one(2), one(1)]))))
    }

    fn past(&self, number: u64) -> ServiceFuture<Result<Option<Document>, String>> {
        let text = json!({"listeners": {(HOSTILE): {"pass": number}}}).to_string();
        let document = (number < 3).then(|| tutti_config::parse(text.as_bytes()).unwrap());
        Box::pin(std::future::ready(Ok(document)))
    }

    fn status(&self) -> ServiceFuture<Result<Value, String>> {
        let mule = json!({"processes": {"running": 3, "waiting": 1}, "pids": [4242], "last_end": {"result": HOSTILE}});
        let application = json!({"processes": {"running": 0}, "pids": [1], "mules": {(HOSTILE): mule},
            "failures": {"total": 1, "last": {"message": HOSTILE, "step": HOSTILE, "hint": HOSTILE, "output": HOSTILE, "pointer": HOSTILE}}});
        let status = json!({
            "server": {"version": HOSTILE, "pid": 7, "uptime": 5},
            "modules": {(HOSTILE): {"version": HOSTILE}},
            "connections": {"active": 4711, "idle": 2},
            "requests": {"total": 98765},
            "applications": {(HOSTILE): application},
            "upstreams": {(HOSTILE): {"servers": {(HOSTILE): {"state": HOSTILE, "health_check": {"state": HOSTILE, "last_failure": HOSTILE}}}}},
            "spoolers": {(HOSTILE): {"problem": HOSTILE}},
            "schedules": {(HOSTILE): {"last": {"result": HOSTILE, "started": HOSTILE}}},
            "certificates": {
                "uploaded": {"names": [HOSTILE], "until": HOSTILE},
                "acme:le:a.example.com": {"names": ["a.example.com"], "until": null, "account": "le", "state": "missing",
                    "next_order": "2027-01-22T19:12:31Z", "failures": 3, "last_error": {"message": HOSTILE, "at": HOSTILE}},
            },
            "problems": [{"pointer": HOSTILE, "message": HOSTILE}, {"pointer": "/applications/other/environment/A", "message": "`hunter2` is too short"}],
        });
        Box::pin(std::future::ready(Ok(status)))
    }

    fn metrics(
        &self,
        _: tutti_metrics::ExpositionFormat,
    ) -> ServiceFuture<Result<Vec<u8>, String>> {
        let name = HOSTILE.replace('"', "\\\"");
        let text = format!("tutti_requests_total{{application=\"{name}\"}} 5\n");
        Box::pin(std::future::ready(Ok(text.into_bytes())))
    }

    fn stored(&self, _: StoreKind) -> Value {
        json!({(HOSTILE): {"key": HOSTILE, "chain": [{"subject": {"common_name": HOSTILE}, "issuer": {"common_name": HOSTILE}}]}})
    }

    fn restart(&self, _: &str) -> ServiceFuture<Result<(), RestartError>> {
        self.orders.lock().unwrap().push("restart");
        Box::pin(std::future::ready(Ok(())))
    }

    fn server_name(&self) -> &str {
        "Tutti"
    }
}

struct Fixture {
    site: Arc<Site>,
    service: Arc<Hostile>,
    changes: Arc<Changes>,
}

/// A dashboard that has polled the server once.
async fn fixture() -> Fixture {
    let service = Arc::new(Hostile::default());
    let changes = Arc::new(Changes::default());
    let null = std::fs::File::options()
        .write(true)
        .open("/dev/null")
        .unwrap();
    let site = Site::new(service.clone(), Arc::clone(&changes), Log::to(null.into()));
    site.set_entry(DashboardAccess {
        token: Some(Token::read(TOKEN).unwrap()),
        tls: None,
    });
    let fixture = Fixture {
        site,
        service,
        changes,
    };
    let watched = Arc::clone(&fixture.site);
    let watching = tokio::spawn(async move { watched.watch().await });
    while fixture.site.watch.read().now.is_none() {
        tokio::task::yield_now().await;
    }
    watching.abort();
    fixture
}

fn request(method: Method, path: &str) -> Request {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    Request {
        method,
        path: path.to_owned(),
        query: query.to_owned(),
        host: b"127.0.0.1:9080".to_vec(),
        origin: None,
        fetch_site: None,
        authorization: None,
        cookies: Vec::new(),
        is_browser: true,
        body: Vec::new(),
        peer: "127.0.0.1:50000".to_owned(),
        security: Security::Plain,
    }
}

fn with_token(method: Method, path: &str) -> Request {
    Request {
        authorization: Some(format!("Bearer {TOKEN}").into_bytes()),
        ..request(method, path)
    }
}

#[tokio::test]
async fn the_applications_page_shows_mules() {
    let reply = fixture()
        .await
        .ask(with_token(Method::Get, "/applications"))
        .await;
    let page = text(&reply);
    for wanted in ["4242", "restarting", "Mules of &lt;img"] {
        assert!(page.contains(wanted), "{wanted} in {page}");
    }
}

#[tokio::test]
async fn the_overview_begins_with_alerts_and_their_commands() {
    let fixture = fixture().await;
    let page = text(&fixture.ask(with_token(Method::Get, "/")).await);
    let alerts = page.find("cannot start</strong>").unwrap();
    assert!(alerts < page.find("id=\"now\"").unwrap(), "{page}");
    for part in [
        "/applications/other/environment/A is not in force",
        "tutti config edit applications/other",
        "tutti restart '&lt;img",
        "Problems (",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
    assert!(!page.contains("Everything is healthy"));
}

#[tokio::test]
async fn the_search_finds_names_and_lines_but_no_secret() {
    let fixture = fixture().await;
    let search = async |wanted: &str| {
        let path = format!("/search?q={wanted}");
        text(&fixture.ask(with_token(Method::Get, &path)).await)
    };
    let page = search("OTHER").await;
    assert!(page.contains("href=\"/configuration#line-"), "{page}");
    assert!(page.contains("1 result for"), "{page}");
    let page = search("onerror").await;
    assert!(
        page.contains("href=\"/applications#application-0\""),
        "{page}"
    );
    let page = search("hunter2").await;
    assert!(page.contains("Nothing has"), "{page}");
    assert!(search("").await.contains("Type a name"));
}

fn form(path: &str, body: &str) -> Request {
    Request {
        body: body.as_bytes().to_vec(),
        ..request(Method::Post, path)
    }
}

impl Fixture {
    async fn ask(&self, request: Request) -> Reply {
        self.site.reply(request).await.0
    }
}

fn text(reply: &Reply) -> String {
    String::from_utf8(reply.body.clone()).unwrap()
}

#[tokio::test]
async fn every_page_shows_hostile_names_as_text_and_no_secret() {
    let fixture = fixture().await;
    // A rejected change with a hostile message, so that it is shown too.
    fixture
        .changes
        .reload(&*fixture.service, HOSTILE)
        .await
        .unwrap_err();
    for (path, _) in PAGES.into_iter().chain([
        ("/configuration/compare?from=1&to=2", ""),
        ("/search?q=%3Cimg", ""),
    ]) {
        let reply = fixture.ask(with_token(Method::Get, path)).await;
        let page = text(&reply);
        assert_eq!(reply.status, 200, "{path}");
        assert!(page.contains("&lt;img src=x onerror"), "{path}: {page}");
        assert!(!page.contains("<img"), "{path}");
        assert_eq!(page.matches("</script>").count(), 1, "{path}");
        assert!(!page.contains("hunter2"), "{path}");
        assert!(
            !page.contains(" style="),
            "the policy forbids styles in {path}"
        );
    }
    assert_eq!(
        *fixture.service.orders.lock().unwrap(),
        ["apply"],
        "the reload's alone"
    );
}

#[tokio::test]
async fn certificates_that_come_by_themselves_are_shown_with_their_next_order_and_last_error() {
    let fixture = fixture().await;
    let page = text(&fixture.ask(with_token(Method::Get, "/certificates")).await);
    let table = page.split("Automatic certificates").nth(1);
    let table = table.unwrap().split("</table>").next().unwrap();
    for expected in [
        "acme:le:a.example.com",
        "missing",
        "2027-01-22T19:12:31Z",
        "3",
        "&lt;img",
    ] {
        assert!(table.contains(expected), "{expected}: {table}");
    }
    // An uploaded certificate has no next order.
    assert!(!table.contains("uploaded"), "{table}");
}

#[tokio::test]
async fn faults_of_a_refused_change_stand_at_their_lines() {
    let fixture = fixture().await;
    fixture
        .changes
        .reload(&*fixture.service, "me")
        .await
        .unwrap_err();
    let page = text(&fixture.ask(with_token(Method::Get, "/configuration")).await);
    let line = page.split("id=\"refused-4\"").nth(1).unwrap();
    let line = line.split("</li>").next().unwrap();
    assert!(
        line.contains("\"pass\": \"x\"".replace('"', "&quot;").as_str()),
        "{line}"
    );
    assert!(line.contains("Problem: </strong>&lt;img"), "{line}");
    assert!(page.contains("href=\"#refused-4\""));
}

#[tokio::test]
async fn the_token_opens_a_session_that_ends_with_it() {
    let fixture = fixture().await;
    let first = fixture.ask(request(Method::Get, "/jobs?a=b")).await;
    assert_eq!(first.status, 303);
    assert_eq!(first.location.as_deref(), Some("/login?to=%2Fjobs%3Fa%3Db"));
    let form_page = text(
        &fixture
            .ask(request(Method::Get, "/login?to=%2Fjobs%3Fa%3Db"))
            .await,
    );
    assert!(
        form_page.contains("name=\"to\" value=\"/jobs?a=b\""),
        "{form_page}"
    );
    let entered = fixture
        .ask(form("/login", &format!("token={TOKEN}&to=%2Fjobs")))
        .await;
    assert_eq!(
        (entered.status, entered.location.as_deref()),
        (303, Some("/jobs"))
    );
    let cookie = entered.cookie.unwrap();
    for part in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age="] {
        assert!(cookie.contains(part), "{cookie}");
    }
    let pair = cookie.split(';').next().unwrap().to_owned();
    let with_cookie = |method, path: &str| Request {
        cookies: format!("other=1; {pair}").into_bytes(),
        ..request(method, path)
    };
    assert_eq!(fixture.ask(with_cookie(Method::Get, "/")).await.status, 200);
    let broken = Request {
        cookies: format!("{pair}A").into_bytes(),
        ..request(Method::Get, "/")
    };
    assert_eq!(fixture.ask(broken).await.status, 303);
    // Another token ends the sessions.
    fixture.site.set_entry(DashboardAccess {
        token: Some(Token::read(&TOKEN.repeat(2)).unwrap()),
        tls: None,
    });
    assert_eq!(fixture.ask(with_cookie(Method::Get, "/")).await.status, 303);
}

#[tokio::test]
async fn a_session_that_was_logged_out_has_ended() {
    let fixture = fixture().await;
    let entered = fixture.ask(form("/login", &format!("token={TOKEN}"))).await;
    let pair = entered
        .cookie
        .unwrap()
        .split(';')
        .next()
        .unwrap()
        .to_owned();
    let with_cookie = |method, path: &str| Request {
        cookies: pair.clone().into_bytes(),
        ..request(method, path)
    };
    let left = fixture.ask(with_cookie(Method::Post, "/logout")).await;
    assert!(left.cookie.unwrap().contains("Max-Age=0"));
    assert_eq!(fixture.ask(with_cookie(Method::Get, "/")).await.status, 303);
}

#[tokio::test]
async fn a_wrong_token_is_slow_and_lets_no_client_in() {
    let fixture = fixture().await;
    let begun = std::time::Instant::now();
    let refused = fixture.ask(form("/login", "token=wrong")).await;
    assert_eq!((refused.status, refused.cookie.as_deref()), (403, None));
    assert!(text(&refused).contains("role=\"alert\""));
    let program = Request {
        authorization: Some(b"Bearer wrong".to_vec()),
        ..request(Method::Get, "/")
    };
    let refused = fixture.ask(program).await;
    assert_eq!(
        (refused.status, refused.authenticate),
        (401, Some("Bearer"))
    );
    assert!(begun.elapsed() >= std::time::Duration::from_secs(2));
    let silent = Request {
        is_browser: false,
        ..request(Method::Get, "/")
    };
    assert_eq!(fixture.ask(silent).await.status, 401);
}

#[tokio::test]
async fn pages_of_other_sites_and_strange_hosts_get_nothing() {
    let fixture = fixture().await;
    let strange = Request {
        host: b"evil.example:9080".to_vec(),
        ..with_token(Method::Get, "/")
    };
    assert_eq!(fixture.ask(strange).await.status, 403);
    for (origin, site) in [
        (Some("http://evil.example"), None),
        (Some("null"), None),
        (Some("http://127.0.0.1:8080"), None),
        (None, Some("cross-site")),
        (None, Some("same-site")),
    ] {
        let foreign = Request {
            origin: origin.map(|origin| origin.as_bytes().to_vec()),
            fetch_site: site.map(|site| site.as_bytes().to_vec()),
            ..form("/login", &format!("token={TOKEN}"))
        };
        let reply = fixture.ask(foreign).await;
        assert_eq!(
            (reply.status, reply.cookie),
            (403, None),
            "{origin:?} {site:?}"
        );
    }
    let own = Request {
        origin: Some(b"http://127.0.0.1:9080".to_vec()),
        ..form("/login", &format!("token={TOKEN}&to=//evil.example"))
    };
    let reply = fixture.ask(own).await;
    assert_eq!((reply.status, reply.location.as_deref()), (303, Some("/")));
}

#[tokio::test]
async fn nothing_but_reading_is_allowed() {
    let fixture = fixture().await;
    for method in [Method::Put, Method::Post, Method::Delete, Method::Patch] {
        for path in [
            "/",
            "/configuration",
            "/config",
            "/control/applications/a/restart",
            "/style.css",
        ] {
            let reply = fixture.ask(with_token(method, path)).await;
            assert_eq!(reply.status, 405, "{method:?} {path}");
            assert_eq!(reply.allow, Some("GET, HEAD"));
        }
    }
    assert_eq!(
        fixture.ask(with_token(Method::Get, "/config")).await.status,
        404
    );
    assert!(fixture.service.orders.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_comparison_that_cannot_be_made_says_why() {
    let fixture = fixture().await;
    for (query, status, why) in [
        ("", 400, "`from` has to be"),
        ("?from=1&to=9", 404, "Change 9 is not in the history"),
    ] {
        let path = format!("/configuration/compare{query}");
        let reply = fixture.ask(with_token(Method::Get, &path)).await;
        assert_eq!(reply.status, status);
        assert!(text(&reply).contains(why), "{}", text(&reply));
    }
    let page = text(
        &fixture
            .ask(with_token(
                Method::Get,
                "/configuration/compare?from=1&to=2",
            ))
            .await,
    );
    assert!(page.contains("1 line removed, 1 line added"), "{page}");
}

#[tokio::test]
async fn a_door_without_token_and_without_tls_lets_no_client_in() {
    let fixture = fixture().await;
    fixture.site.set_entry(DashboardAccess::default());
    assert_ne!(fixture.ask(with_token(Method::Get, "/")).await.status, 200);
}
