//! The source of the configuration, as the controller sees it: the configured source, its documents, and its part of
//! `/status`.
//!
//! The source process reads data from a store. A document from it is a change like any other: checked, prepared,
//! stored, put in force, and in the history. Must never happen: that a document is put in force that a `PUT` could not,
//! or that a document disconnects the node from its source.

use std::sync::Arc;

use serde_json::{Value, json};
use tutti_config::model::written;
use tutti_config::{Diagnostic, Document, Pointer};
use tutti_protocol::{
    Cause, FLEET, FleetAnswer, FleetRequest, FleetStanding, FromController, PurgeScope,
    RouterQuery, SourceNews,
};

use super::control::Control;
use super::fleet_certificates;
use super::fleet_faults::refused;
use super::service::{ControllerService, Inner, LONGEST_STATUS};
use super::source;

/// The family that counts requests by status class.
const REQUESTS: &str = "tutti_listener_requests_total{";

/// The format of metrics with one number per line.
const METRICS: &str = "text/plain; version=0.0.4";

/// Returns a digest of a configuration, without the node's own parts.
fn form(document: &Document) -> String {
    let document = tutti_control::without_own(document.clone());
    let text = document.map_or_else(|_| String::new(), |one| one.root().to_compact_json());
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
    data_encoding::HEXLOWER.encode(digest.as_ref())
}

impl ControllerService {
    /// Sends main the source to follow.
    pub(super) fn plan_source(&self) {
        self.0.plan_source();
    }

    /// Carries out a request of the source process.
    pub(super) async fn obey_fleet(self, control: Control, id: u64, request: FleetRequest) {
        let answer = match request {
            FleetRequest::Apply {
                generation,
                selector,
                text,
            } => {
                let cause = Cause {
                    by: FLEET.to_owned(),
                    change: format!("generation {generation} of `{selector}`"),
                };
                // If another version is about to take over, it takes the document then.
                match control.follow(text.as_bytes(), cause).await {
                    Ok(_) => FleetAnswer::Applied {
                        form: form(&self.0.document.load()),
                        router_ends: 0,
                    },
                    Err(faults) => refused(&faults),
                }
            }
            FleetRequest::Certificate { name, pem } => self.0.take_from_fleet(name, pem).await,
            FleetRequest::Discard { name } => self.0.discard_of_fleet(name).await,
            FleetRequest::Challenges { challenges } => self.0.challenges_of_fleet(challenges).await,
            FleetRequest::Look => self.0.look().await,
            FleetRequest::News { news } => {
                self.0.source_news.store(Some(news.into()));
                FleetAnswer::Noted
            }
            FleetRequest::Purge { cache, purge } => self.0.purge_for_fleet(cache, purge).await,
            FleetRequest::Standing { standing } => self.0.report_standing(standing).await,
        };
        self.0.link.send(&FromController::FleetDone { id, answer });
    }
}

impl Inner {
    pub(super) fn plan_source(self: &Arc<Self>) {
        let config = self.config.load();
        let own = config.settings.source.as_ref();
        let plan = match &self.given_source {
            Some(given) => Some(given.clone()),
            None => own.map(|source| Box::new(source::plan(source))),
        };
        let has_left = plan.is_none() && self.source_news.swap(None).is_some();
        self.link.send(&FromController::Source { plan });
        if has_left {
            let inner = Arc::clone(self);
            let alone = FleetStanding {
                nodes: 1,
                is_purged: true,
            };
            tokio::spawn(async move { inner.report_standing(alone).await });
        }
    }

    /// Makes the router purge caches. A cache that is not in the configuration has nothing to purge.
    async fn purge_for_fleet(&self, store: Option<String>, purge: PurgeScope) -> FleetAnswer {
        match self
            .ask_for_value(RouterQuery::Purge { store, purge })
            .await
        {
            Ok(_) => FleetAnswer::Purged,
            Err(reason) => FleetAnswer::Unavailable { reason },
        }
    }

    /// Sends the state of the fleet to the router.
    async fn report_standing(&self, standing: FleetStanding) -> FleetAnswer {
        match self
            .ask(RouterQuery::Fleet { standing }, LONGEST_STATUS)
            .await
        {
            Ok(_) => FleetAnswer::Noted,
            Err(refused) => FleetAnswer::Unavailable {
                reason: refused.message,
            },
        }
    }

    async fn look(&self) -> FleetAnswer {
        let looked = async {
            let metrics = RouterQuery::Metrics {
                media_type: METRICS.to_owned(),
            };
            let metrics = self.ask_for_content(metrics).await?;
            let status = self.ask_for_content(RouterQuery::Status).await?;
            let status: Value = serde_json::from_slice(&status).map_err(|e| e.to_string())?;
            Ok::<_, String>((String::from_utf8_lossy(&metrics).into_owned(), status))
        };
        match looked.await {
            Ok((metrics, status)) => {
                let (requests, errors) = requests(&metrics);
                FleetAnswer::Seen {
                    form: form(&self.document.load()),
                    requests,
                    errors,
                    start_failures: start_failures(&status),
                    router_ends: 0,
                }
            }
            Err(reason) => FleetAnswer::Unavailable { reason },
        }
    }

    /// Returns the warning for a manual change on a node that follows a source.
    pub(super) fn differs_from_fleet(&self, cause: &Cause) -> Option<Diagnostic> {
        let news = self.source_news.load_full()?;
        let generation = news.generation.filter(|_| cause.by != FLEET)?;
        let message = format!(
            "this node follows a source and now differs from generation {generation} of its fleet, until the next one replaces this change"
        );
        let hint = "`tutti fleet put` changes all nodes";
        Some(Diagnostic::new(Pointer::root(), message).suggest(hint))
    }

    /// Returns `source` of `/status`; `None` if there is none.
    pub(super) fn source_status(&self) -> Option<Value> {
        let news = self.source_news.load_full()?;
        Some(status(&news))
    }
}

fn status(news: &SourceNews) -> Value {
    let at = |seconds: u64| Value::from(written(seconds.saturating_mul(1000)));
    let is_behind = news.wanted.is_some() && news.wanted != news.generation;
    let refused = news.refused.as_ref();
    let state = match (news.wanted, news.generation) {
        _ if is_behind && refused.map(|one| one.generation) == news.wanted => "refused",
        (Some(_), _) if is_behind => "applying",
        (_, None) => "waiting",
        _ if news.differs => "differs",
        _ => "applied",
    };
    let mut status = json!({
        "kind": "etcd",
        "node": news.name,
        "address": news.address,
        "connected": news.error.is_none() && news.endpoint.is_some(),
        "endpoint": news.endpoint,
        "state": state,
        "generation": news.generation,
        "wanted": news.wanted,
        "of": news.selector,
        "since": news.since.map(at),
        "nodes": news.nodes.unwrap_or_default(),
        "purge": news.purge,
        "lag": news.wanted_since.filter(|_| is_behind).map_or(0, |since| {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            now.map_or(0, |now| now.as_secs()).saturating_sub(since)
        }),
    });
    if let Some(error) = &news.error {
        status["error"] = error.as_str().into();
    }
    if let Some(certificates) = fleet_certificates::status(&news.certificates) {
        status["certificates"] = certificates;
    }
    if let Some(refused) = refused {
        status["refused"] = json!({
            "generation": refused.generation,
            "pointer": refused.pointer,
            "reason": refused.reason,
            "at": at(refused.at),
        });
    }
    status
}

/// Returns the number of requests, and of those with a 5xx, from a page of metrics.
fn requests(page: &str) -> (u64, u64) {
    let lines = page.lines().filter_map(|line| {
        let (labels, number) = line.strip_prefix(REQUESTS)?.rsplit_once(' ')?;
        Some((
            labels.contains("class=\"5xx\""),
            number.parse::<f64>().ok()? as u64,
        ))
    });
    lines.fold((0, 0), |(all, errors), (is_error, count)| {
        (all + count, errors + if is_error { count } else { 0 })
    })
}

fn start_failures(status: &Value) -> u64 {
    let applications = status.get("applications").and_then(Value::as_object);
    let applications = applications.into_iter().flat_map(|all| all.values());
    let counts = applications.filter_map(|one| one.pointer("/failures/total")?.as_u64());
    counts.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_class() {
        let page = "# TYPE tutti_listener_requests_total counter\n\
            tutti_listener_requests_total{listener=\"*:80\",class=\"2xx\"} 40\n\
            tutti_listener_requests_total{listener=\"*:80\",class=\"5xx\"} 2\n\
            tutti_listener_requests_total{listener=\"*:81\",class=\"5xx\"} 1\n\
            tutti_received_bytes_total 7\n";
        assert_eq!(requests(page), (43, 3));
        let status = json!({"applications": {"a": {"failures": {"total": 2}}, "b": {"failures": {"total": 1}}}});
        assert_eq!(start_failures(&status), 3);
        assert_eq!(start_failures(&json!({})), 0);
    }

    #[test]
    fn what_is_a_nodes_own_makes_no_difference() {
        let of = |text: &str| form(&tutti_config::parse(text.as_bytes()).unwrap());
        assert_eq!(
            of(r#"{"routes":[]}"#),
            of(r#"{"routes":[],"settings":{"maintenance":{}}}"#)
        );
        assert_ne!(of(r#"{"routes":[]}"#), of("{}"));
    }

    #[test]
    fn the_state_is_one_word() {
        let state = |news: &SourceNews| {
            status(news)["state"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        let mut news = SourceNews::default();
        assert_eq!(state(&news), "waiting");
        news.wanted = Some(2);
        assert_eq!(state(&news), "applying");
        news.refused = Some(tutti_protocol::RefusedDocument {
            generation: 2,
            pointer: "/routes".to_owned(),
            reason: String::new(),
            at: 0,
        });
        assert_eq!(state(&news), "refused");
        news.generation = Some(2);
        assert_eq!(state(&news), "applied");
        news.differs = true;
        assert_eq!(state(&news), "differs");
    }
}
