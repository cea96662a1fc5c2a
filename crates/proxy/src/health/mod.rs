//! Health checks: servers of upstreams are checked periodically.
//!
//! One task for all listen threads, on the thread that monitors upstreams ([`monitor`](crate::monitor)). A round checks all servers of a
//! group at the same time, each on a new connection, to see that it accepts one. The result is stored in the [`GroupServer`], where the threads
//! that choose a server read it.
//!
//! Must never: take a server out of rotation without logging that and the reason; delay the checks of others because one does not answer.

mod cgi;
mod http;

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tutti_config::model::{HealthCheckOptions, HealthQuestion, UpstreamAddress, UpstreamProtocol};
use tutti_conn::clock::now_millis;
use tutti_log::Level;
use tutti_upstream::{GroupServer, ServerGroup, ServerHealth, UpstreamConnection, UpstreamError};

use crate::cgi::frame::write_announcement;

/// Writes a line to the daemon's log.
pub type Report = Arc<dyn Fn(Level, &str) + Send + Sync>;

/// Most connections that the checks of a group open at once.
const AT_ONCE: usize = 64;

/// Checks the servers of a group by these `rules`, for as long as this runs.
pub(crate) async fn check(upstream: Arc<ServerGroup>, rules: HealthCheckOptions, report: Report) {
    let rules = Arc::new(rules);
    let room = Arc::new(Semaphore::new(AT_ONCE));
    let mut is_hopeless = false;
    let mut is_lacking = false;
    loop {
        let begun = Instant::now();
        let mut round = JoinSet::new();
        for server in upstream.servers() {
            let (upstream, rules) = (Arc::clone(&upstream), Arc::clone(&rules));
            let (room, report) = (Arc::clone(&room), Arc::clone(&report));
            round.spawn(async move {
                // The semaphore is never closed.
                let _permit = room.acquire().await;
                let outcome = match ask(&upstream, &server, &rules).await {
                    Ok(()) => Ok(()),
                    Err(CheckError::Server(why)) => Err(why),
                    Err(CheckError::Machine(why)) => return Some(why),
                };
                if let Some(health) = server.checked(outcome.clone(), &rules, now_millis()) {
                    log_change(&upstream, &server, health, &rules, outcome.err(), &report);
                }
                None
            });
        }
        let mut lack = None;
        while let Some(ended) = round.join_next().await {
            lack = lack.or(ended.ok().flatten());
        }
        let was_lacking = std::mem::replace(&mut is_lacking, lack.is_some());
        if let Some(why) = lack.filter(|_| !was_lacking) {
            let name = upstream.name();
            let text = format!("upstream \"{name}\": servers cannot be checked: {why}");
            report(Level::Error, &text);
        }
        let was_hopeless = std::mem::replace(&mut is_hopeless, upstream.is_failing_as_a_whole());
        if is_hopeless && !was_hopeless {
            let text = format!(
                "upstream \"{}\": no server passes its health check; requests are sent to all of them as if there were no checks",
                upstream.name()
            );
            report(Level::Error, &text);
        }
        sleep_until(begun + rules.interval).await;
    }
}

/// Why a check did not succeed.
enum CheckError {
    /// The server fails.
    Server(String),
    /// This machine cannot open a connection, which says nothing about the server.
    Machine(String),
}

impl From<String> for CheckError {
    fn from(why: String) -> Self {
        Self::Server(why)
    }
}

/// Checks one server once.
async fn ask(
    upstream: &ServerGroup,
    server: &GroupServer,
    rules: &HealthCheckOptions,
) -> Result<(), CheckError> {
    let asked = async {
        let mut greeting = Vec::new();
        if let Some(version) = upstream.options().proxy_protocol {
            write_announcement(&mut greeting, version, None);
        }
        let opened = UpstreamConnection::open(server, &greeting).await;
        let connection = opened.map_err(|failure| match failure {
            UpstreamError::Exhausted { .. } => CheckError::Machine(failure.to_string()),
            failure => CheckError::Server(failure.to_string()),
        })?;
        match rules.question() {
            HealthQuestion::Connection => Ok(()),
            HealthQuestion::Grpc(service) => {
                let asked = (service, &*host(server));
                Ok(http::ask_grpc(upstream, connection, asked).await?)
            }
            HealthQuestion::Request(uri) => {
                let host = rules.host.clone().unwrap_or_else(|| host(server));
                let asked = (uri, &*host);
                let status = match &upstream.model().protocol {
                    UpstreamProtocol::Http => http::ask(upstream, connection, asked).await?,
                    UpstreamProtocol::Gateway(gateway) => {
                        cgi::ask(gateway, connection, asked).await?
                    }
                };
                let is_good = match rules.statuses.as_slice() {
                    [] => (200..400).contains(&status),
                    statuses => statuses.contains(&status),
                };
                is_good
                    .then_some(())
                    .ok_or_else(|| format!("its answer is {status}").into())
            }
        }
    };
    let in_time = timeout(rules.timeout, asked).await;
    in_time.unwrap_or_else(|_| Err(format!("no answer within {:?}", rules.timeout).into()))
}

/// Logs a changed health.
fn log_change(
    upstream: &ServerGroup,
    server: &GroupServer,
    health: ServerHealth,
    rules: &HealthCheckOptions,
    why: Option<String>,
    report: &Report,
) {
    let subject = format!("upstream \"{}\": server {}", upstream.name(), server.name());
    let question = match rules.question() {
        HealthQuestion::Connection => "connecting".to_owned(),
        HealthQuestion::Request(uri) => format!("GET {uri}"),
        HealthQuestion::Grpc(service) => format!("gRPC health of \"{service}\""),
    };
    match health {
        ServerHealth::Failing => {
            let why = why.unwrap_or_default();
            let passes = match rules.passes {
                1 => "a check succeeds".to_owned(),
                more => format!("{more} consecutive checks succeed"),
            };
            let text = format!(
                "{subject} fails its health check ({question}): {why}; it gets no requests until {passes}, unless no server passes"
            );
            report(Level::Warn, &text);
        }
        ServerHealth::Passing | ServerHealth::Unknown => {
            let text = format!("{subject} passes its health check ({question})");
            report(Level::Notice, &text);
        }
    }
}

/// The `Host` of a check's request if none is configured.
fn host(server: &GroupServer) -> String {
    match (server.address(), server.host()) {
        (UpstreamAddress::Inet(address), Some(name)) => format!("{name}:{}", address.port()),
        (UpstreamAddress::Inet(address), None) => address.to_string(),
        _ => "localhost".to_owned(),
    }
}
