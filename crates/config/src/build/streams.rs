//! `streams`, and the `stream` of listeners.

use std::sync::Arc;

use tutti_document::{Diagnostic, Pointer, TreeNode, Value, shorten};
use tutti_options::table::Opt;

use super::builder::Builder;
use super::pass::{StreamDestination, of_connection};
use super::reader::Reader;
use crate::model::{ListenAddress, Stream, StreamAction, StreamStep};
use crate::table::{
    CASELESS, ListenerOptions, PLAIN, StreamActionOptions, StreamMatchOptions, StreamStepOptions,
    UpstreamGroup, UpstreamOptions,
};

/// The options of a listener that apply to connections which are not read as HTTP.
const OF_CONNECTIONS: [&str; 7] = [
    ListenerOptions::stream.name,
    // Has been refused.
    ListenerOptions::udp.name,
    ListenerOptions::backlog.name,
    ListenerOptions::max_connections.name,
    ListenerOptions::max_connections_per_client.name,
    ListenerOptions::proxy_protocol.name,
    crate::table::ScopeOptions::access_log.name,
];

/// The options of a listener that apply to datagrams.
const OF_DATAGRAMS: [&str; 4] = [
    ListenerOptions::stream.name,
    ListenerOptions::udp.name,
    ListenerOptions::max_connections_per_client.name,
    crate::table::ScopeOptions::access_log.name,
];

impl<'d> Builder<'d> {
    /// Builds `streams`, which listeners name.
    pub(super) fn named_streams(&mut self, node: &'d TreeNode, pointer: &Pointer) {
        for member in node.members() {
            let pointer = pointer.child(&member.name);
            let steps = member.node.elements().iter().enumerate();
            let steps = steps
                .filter_map(|(index, node)| self.stream_step(node, pointer.index(index)))
                .collect();
            self.streams
                .insert(member.name.to_string(), Arc::new(Stream { steps }));
        }
    }

    fn stream_step(&mut self, node: &'d TreeNode, pointer: Pointer) -> Option<StreamStep> {
        let step = Reader::new(node, pointer);
        let conditions = step.inner_or_nothing(&StreamStepOptions::conditions);
        let action = step.inner(&StreamStepOptions::action)?;
        Some(StreamStep {
            tls: match conditions.get(&StreamMatchOptions::tls) {
                Some((node, _)) => match node.value {
                    Value::Bool(value) => Some(value),
                    _ => None,
                },
                None => None,
            },
            server_name: conditions.patterns(&StreamMatchOptions::server_name, CASELESS),
            alpn: conditions.patterns(&StreamMatchOptions::alpn, PLAIN),
            source: conditions.addresses(&StreamMatchOptions::source),
            destination: conditions.addresses(&StreamMatchOptions::destination),
            action: self.stream_action(&action)?,
            pointer: step.pointer,
        })
    }

    fn stream_action(&mut self, reader: &Reader<'d>) -> Option<StreamAction> {
        if let Some((node, pointer)) = reader.get(&StreamActionOptions::pass) {
            let found = of_connection(&self.sections, node.as_str()?, false);
            return match self.resolved(found, node, pointer)? {
                StreamDestination::Upstream(name) => Some(StreamAction::Pass(name)),
                StreamDestination::Stream(_) => None,
            };
        }
        let terminate = self.is_true(reader, &StreamActionOptions::terminate);
        let close = self.is_true(reader, &StreamActionOptions::close);
        match (terminate, close) {
            (true, _) => Some(StreamAction::Terminate),
            (_, true) => Some(StreamAction::Close),
            _ => None,
        }
    }

    /// True if an option is `true`; `false` is reported, because it would leave the step without an action.
    fn is_true(&mut self, reader: &Reader<'d>, option: &Opt) -> bool {
        let Some((node, pointer)) = reader.get(option) else {
            return false;
        };
        if let Value::Bool(false) = node.value {
            let message = format!("`{}` can only be `true`", option.name);
            let hint = "remove the step, or give it another action";
            self.faults
                .value(Diagnostic::new(pointer, message).suggest(hint), node);
        }
        matches!(node.value, Value::Bool(true))
    }

    /// Builds the `stream` of a listener.
    pub(super) fn stream_of(
        &mut self,
        listener: &Reader<'d>,
        address: &ListenAddress,
    ) -> Option<Arc<Stream>> {
        let is_udp = matches!(address, ListenAddress::Udp(_));
        if !is_udp {
            let message = "`udp` applies to listeners whose address begins with `udp:`";
            self.refuse(listener, &ListenerOptions::udp, message);
        }
        let Some((node, pointer)) = listener.get(&ListenerOptions::stream) else {
            if is_udp {
                let message = "datagrams are not read as HTTP: a listener with `udp:` needs `stream` in place of `pass`";
                let fault = Diagnostic::new(listener.pointer.clone(), message)
                    .suggest("for HTTP/3, add `\"http3\": true` to the listener for HTTPS");
                self.faults.value(fault, listener.node);
            }
            return None;
        };
        let found = of_connection(&self.sections, node.as_str()?, true);
        let stream = match self.resolved(found, node, pointer.clone())? {
            StreamDestination::Upstream(name) => Arc::new(Stream {
                steps: vec![StreamStep {
                    pointer: pointer.clone(),
                    tls: None,
                    server_name: None,
                    alpn: None,
                    source: None,
                    destination: None,
                    action: StreamAction::Pass(name),
                }],
            }),
            StreamDestination::Stream(name) => Arc::clone(self.streams.get(&name)?),
        };
        if is_udp {
            self.fits_datagrams(listener, &stream, node, pointer);
        } else {
            self.fits_stream(listener, &stream, node, pointer);
        }
        Some(stream)
    }

    /// Checks that a stream and the other options of a listener fit datagrams.
    fn fits_datagrams(
        &mut self,
        listener: &Reader<'d>,
        stream: &Stream,
        node: &'d TreeNode,
        pointer: Pointer,
    ) {
        let mut steps = stream.steps.iter();
        if steps.any(|step| step.needs_hello() || step.action == StreamAction::Terminate) {
            let message =
                "a step of the stream needs TLS over TCP, and the listener receives datagrams";
            let hint = "give it a stream whose steps have only `source` and `destination`";
            let diagnostic = Diagnostic::new(pointer, message);
            self.faults.value(diagnostic.suggest(hint), node);
            return;
        }
        let upstreams = stream.steps.iter().filter_map(|step| match &step.action {
            StreamAction::Pass(name) => Some(name),
            StreamAction::Terminate | StreamAction::Close => None,
        });
        let lack = upstreams.filter_map(|name| Some((name, self.lacks_datagrams(name)?)));
        if let Some((name, (lack, hint))) = lack.take(1).next() {
            let message = format!(
                "the upstream `{}` has {lack}, and the listener receives datagrams",
                shorten(name)
            );
            let diagnostic = Diagnostic::new(pointer, message);
            self.faults.value(diagnostic.suggest(hint), node);
        }
        self.only(listener, &OF_DATAGRAMS, "for datagrams");
    }

    /// A reason why an upstream cannot get datagrams, and the remedy.
    fn lacks_datagrams(&self, name: &str) -> Option<(&'static str, &'static str)> {
        let upstream = self.root.child("upstreams")?.child(name)?;
        if upstream.child(UpstreamOptions::tls.name).is_some() {
            return Some((
                "`tls`",
                "remove it: DTLS passes as it is, like any other datagram",
            ));
        }
        let header = upstream.child(UpstreamOptions::proxy_protocol.name);
        if header.and_then(TreeNode::as_str) == Some("v1") {
            return Some((
                "`proxy_protocol` of version 1",
                "it is only for TCP: write `v2`",
            ));
        }
        let servers = upstream.child(UpstreamGroup::servers.name)?;
        let mut servers = servers.members().iter();
        servers
            .any(|server| server.name.starts_with("unix:"))
            .then_some((
                "a unix socket",
                "name its servers by their addresses and UDP ports",
            ))
    }

    /// Reports options of a listener that are not among these.
    fn only(&mut self, listener: &Reader<'d>, options: &[&str], purpose: &str) {
        for member in listener.node.members() {
            if !options.contains(&&*member.name) && is_option(&member.name) {
                let message = format!("`{}` has no effect {purpose}", member.name);
                let diagnostic = Diagnostic::new(listener.pointer.child(&member.name), message);
                self.faults.name(diagnostic, member);
            }
        }
    }

    /// Checks that the other options of a listener fit its stream.
    fn fits_stream(
        &mut self,
        listener: &Reader<'d>,
        stream: &Stream,
        node: &'d TreeNode,
        pointer: Pointer,
    ) {
        let has_pass =
            listener.has(&ListenerOptions::pass) || listener.has(&ListenerOptions::application);
        let has_tls = listener.has(&ListenerOptions::tls);
        if stream.terminates() && !(has_pass && has_tls) {
            let message = "a step of the stream has `terminate`, which needs `pass` and `tls` here";
            let hint = "add them: where requests go, and the certificate";
            let diagnostic = Diagnostic::new(pointer, message);
            self.faults.value(diagnostic.suggest(hint), node);
            return;
        }
        if !stream.terminates() && has_pass {
            let message = "no step of the stream has `terminate`, so `pass` gets no requests";
            let hint = "add such a step, or remove `pass` and the other options for HTTP";
            let diagnostic = Diagnostic::new(pointer, message);
            self.faults.value(diagnostic.suggest(hint), node);
            return;
        }
        if has_pass {
            let http3 = listener.get(&ListenerOptions::http3);
            if http3.is_some_and(|(node, _)| !matches!(node.value, Value::Bool(false))) {
                let message = "`http3` and `stream` exclude each other: the steps of the stream do not apply to QUIC";
                self.refuse(listener, &ListenerOptions::http3, message);
            }
            return;
        }
        let purpose = "with `stream` alone: no connection is read as HTTP";
        self.only(listener, &OF_CONNECTIONS, purpose);
    }
}

/// True for an option of listeners; others have been reported.
fn is_option(name: &str) -> bool {
    crate::table::LISTENER.option(name).is_some()
}
