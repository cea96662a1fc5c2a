//! `streams`, and the `stream` of listeners.

use std::sync::Arc;

use tutti_document::{Diagnostic, Pointer, TreeNode, Value};
use tutti_options::table::Opt;

use super::builder::Builder;
use super::pass::{StreamDestination, of_connection};
use super::reader::Reader;
use crate::model::{Stream, StreamAction, StreamStep};
use crate::table::{
    CASELESS, ListenerOptions, PLAIN, StreamActionOptions, StreamMatchOptions, StreamStepOptions,
};

/// The options of a listener that apply to connections which are not read as HTTP.
const OF_CONNECTIONS: [&str; 6] = [
    ListenerOptions::stream.name,
    ListenerOptions::backlog.name,
    ListenerOptions::max_connections.name,
    ListenerOptions::max_connections_per_client.name,
    ListenerOptions::proxy_protocol.name,
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
    pub(super) fn stream_of(&mut self, listener: &Reader<'d>) -> Option<Arc<Stream>> {
        let (node, pointer) = listener.get(&ListenerOptions::stream)?;
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
        self.fits_stream(listener, &stream, node, pointer);
        Some(stream)
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
        for member in listener.node.members() {
            if !OF_CONNECTIONS.contains(&&*member.name) && is_option(&member.name) {
                let message = format!(
                    "`{}` has no effect with `stream` alone: no connection is read as HTTP",
                    member.name
                );
                let diagnostic = Diagnostic::new(listener.pointer.child(&member.name), message);
                self.faults.name(diagnostic, member);
            }
        }
    }
}

/// True for an option of listeners; others have been reported.
fn is_option(name: &str) -> bool {
    crate::table::LISTENER.option(name).is_some()
}
