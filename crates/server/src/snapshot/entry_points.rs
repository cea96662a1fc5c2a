//! The listeners of one configuration, and internal ones without a socket.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tutti_config::model::{self, Switch};
use tutti_conn::listener::{Peer, SharedListener};
use tutti_quic::Spoken;
use tutti_tls::Offer;
use tutti_upstream::ServerGroup;

/// The next listener id; never reused.
static NEXT_LISTENER: AtomicU64 = AtomicU64::new(1);

/// A unique id for a listener.
pub(crate) fn next_id() -> u64 {
    NEXT_LISTENER.fetch_add(1, Ordering::Relaxed)
}

/// A listener of this configuration.
pub(crate) struct ListenerEntry {
    /// Its socket and its counters, which outlive a configuration.
    pub(crate) listener: Arc<SharedListener>,
    /// Its address, by which it is recognised after a change.
    pub(crate) address: model::ListenAddress,
    /// Numbers, switches and protocols.
    pub(crate) options: model::ListenerOptions,
    /// From which proxies, and in which fields, client addresses are trusted.
    pub(crate) forwarded: Option<model::Forwarded>,
    /// `None`: plain HTTP.
    pub(crate) offer: Option<Arc<Offer>>,
    /// HTTP/3, if enabled.
    pub(crate) http3: Option<Spoken>,
    /// From which proxies a connection begins with a PROXY protocol header.
    pub(crate) proxy_protocol: Option<model::AddressSet>,
    /// The steps for its connections; `None`: all are read as HTTP.
    pub(crate) stream: Option<Arc<CompiledStream>>,
}

/// The steps of a stream, with their servers.
pub(crate) struct CompiledStream {
    /// In the order of the configuration.
    steps: Vec<CompiledStreamStep>,
    /// Connections that do not begin with TLS may match one of them.
    pub(crate) distinguishes_tls: bool,
}

/// A step of a stream.
pub(crate) struct CompiledStreamStep {
    /// Its conditions.
    pub(crate) model: model::StreamStep,
    /// The servers, if it passes connections on.
    pub(crate) upstream: Option<Arc<ServerGroup>>,
}

impl CompiledStream {
    /// With the servers of this configuration. Named upstreams come first among these.
    pub(crate) fn new(stream: &model::Stream, upstreams: &[Arc<ServerGroup>]) -> Self {
        let step = |model: &model::StreamStep| CompiledStreamStep {
            model: model.clone(),
            upstream: match &model.action {
                model::StreamAction::Pass(name) => {
                    let mut upstreams = upstreams.iter();
                    upstreams.find(|one| one.name() == name).cloned()
                }
                model::StreamAction::Terminate | model::StreamAction::Close => None,
            },
        };
        Self {
            steps: stream.steps.iter().map(step).collect(),
            distinguishes_tls: stream.distinguishes_tls(),
        }
    }

    /// The steps whose conditions on addresses match.
    pub(crate) fn steps_between(
        &self,
        source: Option<SocketAddr>,
        destination: Option<SocketAddr>,
    ) -> impl Iterator<Item = &CompiledStreamStep> {
        let matches = move |set: &Option<model::AddressSet>, address| {
            set.as_ref().is_none_or(|set| set.matches(address))
        };
        self.steps.iter().filter(move |step| {
            matches(&step.model.source, source) && matches(&step.model.destination, destination)
        })
    }
}

impl ListenerEntry {
    /// True if its clients speak TLS.
    pub(crate) fn speaks_tls(&self) -> bool {
        self.offer.is_some()
    }

    /// True if the peer is a trusted proxy, and not a client.
    pub(crate) fn is_proxy(&self, peer: Peer) -> bool {
        let forwarded = self.forwarded.as_ref().map(|forwarded| &forwarded.source);
        let mut believed = forwarded.into_iter().chain(&self.proxy_protocol);
        believed.any(|set| set.matches(peer.address()))
    }
}

/// An internal listener: the existing one, or a new one.
pub(crate) fn own(name: &str, kept: Option<&ListenerEntry>, threads: usize) -> ListenerEntry {
    let listener = match kept {
        Some(entry) => Arc::clone(&entry.listener),
        None => SharedListener::without_socket(name, next_id(), threads),
    };
    ListenerEntry {
        listener,
        // Means that there is no internet address.
        address: model::ListenAddress::Unix(PathBuf::new()),
        options: model::ListenerOptions {
            http2: Switch::Off,
            ..model::ListenerOptions::default()
        },
        forwarded: None,
        offer: None,
        http3: None,
        proxy_protocol: None,
        stream: None,
    }
}

/// The internal listeners for the questions of guards: those of `before`, of other guards, for equal questions, and new ones. A question
/// that is on its way during a change must not arrive at another service, so the place in the document does not count. Their client fields
/// are the server's own, and trusted.
pub(crate) fn for_questions(
    guards: &[Arc<model::Guard>],
    (former, before): (&[Arc<model::Guard>], &[ListenerEntry]),
    threads: usize,
) -> Vec<ListenerEntry> {
    let ours = model::AddressPattern::parse("unix").into_iter().collect();
    let forwarded = model::Forwarded {
        source: model::AddressSet::new(ours),
        options: model::ForwardedOptions {
            client_ip: Some("X-Forwarded-For".to_owned()),
            protocol: Some("X-Forwarded-Proto".to_owned()),
            ..model::ForwardedOptions::default()
        },
    };
    let former = former.iter().filter_map(|one| one.question());
    let mut former: Vec<_> = former.zip(before).collect();
    let questions = guards.iter().filter_map(|one| one.question());
    let one = |question: &model::AuthRequest| {
        let found = former.iter().position(|(one, _)| *one == question);
        let kept = found.map(|index| former.remove(index).1);
        ListenerEntry {
            forwarded: Some(forwarded.clone()),
            ..own(question.pointer.as_str(), kept, threads)
        }
    };
    questions.map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: &str = r#"{"match": {"uri": "/other"}, "action": {"return": 200, "authenticate": {"forward": {"pass": "routes/other"}}}}"#;
    const ASKED: &str =
        r#"{"action": {"return": 200, "authenticate": {"forward": {"pass": "routes/asked"}}}}"#;

    fn guards(routes: &[&str]) -> Vec<Arc<model::Guard>> {
        let routes = routes.join(", ");
        let text = format!(
            r#"{{"listeners": {{"*:80": {{"pass": "routes/main"}}}}, "routes": {{"main": [{routes}],
                "asked": [{{"action": {{"return": 200}}}}], "other": [{{"action": {{"return": 200}}}}]}}}}"#
        );
        let document = tutti_config::parse(text.as_bytes()).unwrap();
        let context = tutti_config::ValidationContext::default();
        let config = tutti_config::validate(&document, &context).unwrap();
        config.guards().cloned().collect()
    }

    #[test]
    fn a_question_has_its_listener_wherever_it_is_written() {
        let ids = |entries: &[ListenerEntry]| -> Vec<u64> {
            entries.iter().map(|entry| entry.listener.id).collect()
        };
        let former = guards(&[ASKED]);
        let before = for_questions(&former, (&[], &[]), 1);
        let after = for_questions(&guards(&[OTHER, ASKED]), (&former, &before), 1);
        assert_eq!(ids(&after)[1], ids(&before)[0]);
        assert_ne!(ids(&after)[0], ids(&before)[0]);
    }
}
