//! `fastcgi`, `uwsgi` and `scgi`, of an upstream and of a `proxy`.

use std::sync::Arc;

use super::{Builder, Reader, strings};
use crate::diagnostic::Diagnostic;
use crate::model::{Gateway, GatewayKind, GatewayParameter, Scripts, Template, UpstreamProtocol};
use crate::table::{FASTCGI, Object, SCGI, UWSGI};

const KINDS: [GatewayKind; 3] = [GatewayKind::FastCgi, GatewayKind::Uwsgi, GatewayKind::Scgi];

impl<'d> Builder<'d> {
    /// What an upstream with these options speaks.
    pub(super) fn upstream_protocol(&mut self, upstream: &Reader<'d>) -> UpstreamProtocol {
        let mut given = KINDS
            .into_iter()
            .filter(|kind| upstream.member(kind.name()).is_some());
        let Some(kind) = given.next() else {
            return UpstreamProtocol::Http;
        };
        for other in given {
            let message = format!(
                "`{}` and `{}` exclude each other",
                kind.name(),
                other.name()
            );
            self.refuse(upstream, other, message);
        }
        self.gateway(upstream, kind)
    }

    /// What the server of a `proxy` speaks; `scheme` is that of its URL.
    pub(super) fn proxy_protocol(
        &mut self,
        action: &Reader<'d>,
        scheme: Option<GatewayKind>,
    ) -> UpstreamProtocol {
        for kind in KINDS {
            if Some(kind) != scheme && action.member(kind.name()).is_some() {
                let name = kind.name();
                let message =
                    format!("`{name}` has no effect here: the URL does not begin with `{name}://`");
                self.refuse(action, kind, message);
            }
        }
        match scheme {
            Some(kind) => self.gateway(action, kind),
            None => UpstreamProtocol::Http,
        }
    }

    fn refuse(&mut self, reader: &Reader<'d>, kind: GatewayKind, message: String) {
        if let Some(member) = reader.member(kind.name()) {
            let pointer = reader.pointer.child(kind.name());
            self.faults.name(Diagnostic::new(pointer, message), member);
        }
    }

    fn gateway(&mut self, outer: &Reader<'d>, kind: GatewayKind) -> UpstreamProtocol {
        let table: &'static Object = match kind {
            GatewayKind::FastCgi => &FASTCGI,
            GatewayKind::Uwsgi => &UWSGI,
            GatewayKind::Scgi => &SCGI,
        };
        let reader = outer
            .inner(kind.name(), table)
            .unwrap_or_else(|| super::settings::nothing(outer, kind.name(), table));
        let scripts = match kind {
            GatewayKind::FastCgi => self.scripts(&reader),
            GatewayKind::Uwsgi | GatewayKind::Scgi => None,
        };
        let members = reader
            .get("params")
            .map(|(node, _)| node.members())
            .unwrap_or_default();
        let parameters = members.iter().map(|member| GatewayParameter {
            name: member.name.to_string(),
            value: member
                .node
                .as_str()
                .and_then(|text| Template::parse(text).ok()),
        });
        UpstreamProtocol::Gateway(Arc::new(Gateway {
            kind,
            scripts,
            parameters: parameters.collect(),
        }))
    }

    fn scripts(&mut self, reader: &Reader<'d>) -> Option<Scripts> {
        let root = reader.string("root")?;
        for name in ["index", "script"] {
            let climbs = |text: &str| text.split('/').any(|part| part == "..");
            if let Some((node, pointer)) = reader.get(name)
                && node.as_str().is_some_and(climbs)
            {
                let message = format!("`{name}` leads out of `root`");
                self.faults.value(Diagnostic::new(pointer, message), node);
            }
        }
        let bytes = |text: &str| Box::<[u8]>::from(text.as_bytes());
        let suffixes = match reader.get("split_path") {
            Some((node, _)) => strings(node).into_iter().map(bytes).collect(),
            None => vec![bytes(&reader.text("split_path"))],
        };
        Some(Scripts {
            root: bytes(root.trim_end_matches('/')),
            index: bytes(reader.text("index").trim_start_matches('/')),
            script: reader
                .string("script")
                .map(|script| bytes(&format!("/{}", script.trim_start_matches('/')))),
            suffixes,
            check_files: reader.boolean("check_files"),
        })
    }
}
