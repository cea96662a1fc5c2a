//! From a request to its page.

use std::sync::Arc;

use maud::{Markup, html};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tutti_control::{Changes, Service, is_own_host, is_same_authority};
use tutti_http::Method;
use tutti_log::{Level, Log};
use tutti_metrics::Alert;
use tutti_protocol::StoreKind;

use crate::access::{DashboardAccess, Door};
use crate::listing::Listing;
use crate::page::{Frame, PAGES, page};
use crate::redact::Redactor;
use crate::reply::{Reply, Request, parameter};
use crate::watch::{Seen, Watch};
use crate::{
    alerts, certificates, comparison, configuration, jobs, login, numbers, overview, problems,
    running, search,
};

const STYLE: &str = include_str!("../assets/style.css");
const SCRIPT: &str = include_str!("../assets/script.js");
const ICON: &str = include_str!("../assets/icon.svg");

/// The status on a connection from before a change of TLS or of the rule about client certificates: the client may send
/// the request again on a new one (RFC 9110 §15.5.20).
pub(crate) const MISDIRECTED: u16 = 421;

/// The longest path to return to after the login.
const LONGEST_WAY_BACK: usize = 500;

/// The dashboard of one server. It remembers the last hour, even while nothing listens.
pub struct Site {
    service: Arc<dyn Service>,
    changes: Arc<Changes>,
    log: Log,
    redactor: Redactor,
    watch: Watch,
    pub(crate) door: Door,
}

impl Site {
    /// Creates a dashboard that admits no client until there is a [`DashboardAccess`].
    pub fn new(service: Arc<dyn Service>, changes: Arc<Changes>, log: Log) -> Arc<Site> {
        Arc::new(Site {
            service,
            changes,
            log,
            redactor: Redactor::new(),
            watch: Watch::default(),
            door: Door::default(),
        })
    }

    /// Uses these credentials from now on.
    pub fn set_entry(&self, entry: DashboardAccess) {
        self.door.set(entry);
    }

    /// Polls the server forever.
    pub async fn watch(&self) {
        self.watch.run(&*self.service).await;
    }

    /// Returns the reply, and whether the client is authenticated.
    pub(crate) async fn reply(&self, request: Request) -> (Reply, bool) {
        if request.security != self.door.security() {
            let text = "The connection is from before a change of the dashboard's TLS or client certificates: use a new one.\n";
            return (Reply::text(MISDIRECTED, text), false);
        }
        // Over TLS, a browser has no valid certificate for a foreign name.
        if self.door.tls().is_none() && !is_own_host(&request.host) {
            let host = String::from_utf8_lossy(&request.host);
            let text = format!(
                "`{host}` is not a name of the dashboard: it listens only on this machine, so send an IP address or `localhost` as `Host`.\n"
            );
            return (Reply::text(403, text), false);
        }
        if let Some(reply) = asset(&request) {
            return (reply, false);
        }
        match (request.method, request.path.as_str()) {
            (Method::Get | Method::Head, "/login") => {
                let to = way_back(request.parameter("to"));
                if self.door.lets_in(&request) || !self.door.asks_for_token() {
                    return (Reply::redirect(to), true);
                }
                (Reply::html(200, login::page(&to, false)), false)
            }
            (Method::Post, "/login") => self.log_in(&request).await,
            (Method::Post, "/logout") => (self.log_out(&request), false),
            (_, "/login" | "/logout") => (not_allowed("GET, HEAD, POST"), false),
            _ if !self.door.lets_in(&request) => (self.refuse(&request).await, false),
            (Method::Get | Method::Head, _) => (self.page(&request).await, true),
            _ => (not_allowed("GET, HEAD"), true),
        }
    }

    async fn log_in(&self, request: &Request) -> (Reply, bool) {
        if !is_from_here(request) {
            let text = "A page of another site must not log users in.\n";
            return (Reply::text(403, text), false);
        }
        let to = way_back(parameter(&request.body, "to"));
        let token = parameter(&request.body, "token").unwrap_or_default();
        match self.door.log_in(&token, &request.peer, &self.log).await {
            Some(cookie) => {
                let text = format!("dashboard: {} has logged in", request.peer);
                self.log.line(Level::Info, &text);
                let mut reply = Reply::redirect(to);
                reply.cookie = Some(cookie);
                (reply, true)
            }
            None => (Reply::html(403, login::page(&to, true)), false),
        }
    }

    fn log_out(&self, request: &Request) -> Reply {
        if !is_from_here(request) {
            return Reply::text(403, "A page of another site must not log users out.\n");
        }
        let mut reply = Reply::redirect("/login");
        reply.cookie = Some(self.door.log_out(request));
        reply
    }

    /// Browsers get the form, programs an explanation of the required header.
    async fn refuse(&self, request: &Request) -> Reply {
        if request.authorization.is_some() {
            self.door.refuse(&request.peer, &self.log).await;
        } else if request.is_browser && matches!(request.method, Method::Get | Method::Head) {
            let path = match request.query.as_str() {
                "" => request.path.clone(),
                query => format!("{}?{query}", request.path),
            };
            let to = utf8_percent_encode(&path, NON_ALPHANUMERIC);
            return Reply::redirect(format!("/login?to={to}"));
        }
        let text = "Send the token of `settings.dashboard` as `Authorization: Bearer TOKEN`, or log in at /login.\n";
        let mut reply = Reply::text(401, text);
        reply.authenticate = Some("Bearer");
        reply
    }

    async fn page(&self, request: &Request) -> Reply {
        let seen = self.watch.read();
        let path = request.path.as_str();
        let alerts = alerts::of(&seen, &self.service.document(), &self.redactor);
        let wanted = match path {
            "/search" => request.parameter("q").unwrap_or_default(),
            _ => String::new(),
        };
        let made = match path {
            "/configuration/compare" => self
                .comparison(request)
                .await
                .map_err(|(status, why)| (status, "Comparison", html! { p.alert { (why) } })),
            _ => match self.content(path, &seen, &alerts, &wanted).await {
                Some(content) => Ok(content),
                None => Err((404, "Not found", html! { p { "There is no such page." } })),
            },
        };
        let (status, title, content) = match made {
            Ok(content) => (200, title_of(path), content),
            Err(failed) => failed,
        };
        let frame = Frame {
            path,
            title,
            seen: &seen,
            alerts: alerts.len(),
            wanted: &wanted,
            has_session: self.door.asks_for_token(),
        };
        Reply::html(status, page(&frame, &content))
    }

    /// Renders the content of a page; `None` if there is no such page.
    async fn content(
        &self,
        path: &str,
        seen: &Seen,
        alerts: &[Alert],
        wanted: &str,
    ) -> Option<Markup> {
        Some(match path {
            "/" => overview::content(seen, alerts),
            "/applications" => running::content(seen),
            "/traffic" => numbers::traffic(seen, &self.service.document()),
            "/jobs" => jobs::content(seen),
            "/configuration" => self.configuration(seen).await,
            "/certificates" => {
                certificates::content(seen, &self.service.stored(StoreKind::Certificates))
            }
            "/problems" => problems::content(seen, alerts, self.changes.refused().is_some()),
            "/metrics" => numbers::everything(seen),
            "/search" => {
                let document = self.service.document();
                let certificates = self.service.stored(StoreKind::Certificates);
                let listing = Listing::of(&document, &self.redactor);
                search::content(wanted, seen, &document, &certificates, &listing)
            }
            _ => return None,
        })
    }

    async fn configuration(&self, seen: &Seen) -> Markup {
        let history = self.service.history().await;
        let refused = self.changes.refused();
        let document = self.service.document();
        configuration::content(
            seen,
            &document,
            refused.as_deref(),
            &history,
            &self.redactor,
        )
    }

    async fn comparison(&self, request: &Request) -> Result<Markup, (u16, String)> {
        let number = |name: &str| {
            let number = request
                .parameter(name)
                .and_then(|text| text.parse::<u64>().ok());
            number.ok_or_else(|| (400, format!("`{name}` has to be the number of a change.")))
        };
        let (from, to) = (number("from")?, number("to")?);
        let past = async |number: u64| match self.service.past(number).await {
            Ok(Some(document)) => Ok(Listing::of(&document, &self.redactor)),
            Ok(None) => Err((404, format!("Change {number} is not in the history."))),
            Err(why) => Err((500, format!("The history cannot be read: {why}"))),
        };
        let (before, after) = (past(from).await?, past(to).await?);
        Ok(comparison::content((from, &before), (to, &after)))
    }
}

/// Returns the title of an existing page.
fn title_of(path: &str) -> &'static str {
    match path {
        "/configuration/compare" => "Comparison",
        "/search" => "Search",
        _ => {
            let mut named = PAGES.iter().filter(|(known, _)| *known == path);
            named.next().map_or("Not found", |(_, name)| name)
        }
    }
}

/// Public files: the login form needs them.
fn asset(request: &Request) -> Option<Reply> {
    let (media_type, text) = match request.path.as_str() {
        "/style.css" => ("text/css; charset=utf-8", STYLE),
        "/script.js" => ("text/javascript; charset=utf-8", SCRIPT),
        "/icon.svg" => ("image/svg+xml", ICON),
        _ => return None,
    };
    if !matches!(request.method, Method::Get | Method::Head) {
        return Some(not_allowed("GET, HEAD"));
    }
    Some(Reply::new(200, media_type, text))
}

fn not_allowed(allow: &'static str) -> Reply {
    let mut reply = Reply::text(405, "The dashboard is read-only.\n");
    reply.allow = Some(allow);
    reply
}

/// True if a form was sent by one of our pages, or not by a browser.
fn is_from_here(request: &Request) -> bool {
    if let Some(origin) = &request.origin {
        return is_same_authority(origin, &request.host);
    }
    let site = request.fetch_site.as_deref();
    site.is_none_or(|site| matches!(site, b"same-origin" | b"none"))
}

/// Returns a path on this site: not `//elsewhere.example`, nor any form that a browser treats the same.
fn way_back(to: Option<String>) -> String {
    let is_ours = |path: &String| {
        let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'\\';
        path.starts_with('/')
            && !path.starts_with("//")
            && !path.starts_with("/login")
            && path.len() <= LONGEST_WAY_BACK
            && path.bytes().all(is_plain)
    };
    to.filter(is_ours).unwrap_or_else(|| "/".to_owned())
}

#[cfg(test)]
mod tests;
