//! `fastcgi`, `uwsgi` and `scgi`, of an upstream and of a `proxy`.

use std::sync::Arc;

use tutti_options::table::Opt;

use super::builder::Builder;
use super::reader::Reader;
use crate::model::{Gateway, GatewayKind, GatewayParameter, Scripts, Template, UpstreamProtocol};
use crate::table::{ActionOptions, FastCgi, Scgi, UpstreamGroup, Uwsgi};

const KINDS: [GatewayKind; 3] = [GatewayKind::FastCgi, GatewayKind::Uwsgi, GatewayKind::Scgi];

impl<'d> Builder<'d> {
    /// The protocol of an upstream with these options.
    pub(super) fn upstream_protocol(&mut self, upstream: &Reader<'d>) -> UpstreamProtocol {
        let option = |kind| match kind {
            GatewayKind::FastCgi => &UpstreamGroup::fastcgi,
            GatewayKind::Uwsgi => &UpstreamGroup::uwsgi,
            GatewayKind::Scgi => &UpstreamGroup::scgi,
        };
        let mut given = KINDS.into_iter().filter(|kind| upstream.has(option(*kind)));
        let Some(kind) = given.next() else {
            return UpstreamProtocol::Http;
        };
        for other in given {
            let message = format!(
                "`{}` and `{}` exclude each other",
                kind.name(),
                other.name()
            );
            self.refuse(upstream, option(other), message);
        }
        self.gateway(upstream, kind, option(kind))
    }

    /// The protocol of the server of a `proxy`; `scheme` is that of its URL.
    pub(super) fn proxy_protocol(
        &mut self,
        action: &Reader<'d>,
        scheme: Option<GatewayKind>,
    ) -> UpstreamProtocol {
        let option = |kind| match kind {
            GatewayKind::FastCgi => &ActionOptions::fastcgi,
            GatewayKind::Uwsgi => &ActionOptions::uwsgi,
            GatewayKind::Scgi => &ActionOptions::scgi,
        };
        for kind in KINDS {
            if Some(kind) != scheme {
                let name = kind.name();
                let message =
                    format!("`{name}` has no effect here: the URL does not begin with `{name}://`");
                self.refuse(action, option(kind), message);
            }
        }
        match scheme {
            Some(kind) => self.gateway(action, kind, option(kind)),
            None => UpstreamProtocol::Http,
        }
    }

    fn gateway(&mut self, outer: &Reader<'d>, kind: GatewayKind, option: &Opt) -> UpstreamProtocol {
        let reader = outer.inner_or_nothing(option);
        let (scripts, params) = match kind {
            GatewayKind::FastCgi => (self.scripts(&reader), &FastCgi::params),
            GatewayKind::Uwsgi => (None, &Uwsgi::params),
            GatewayKind::Scgi => (None, &Scgi::params),
        };
        let members = reader
            .get(params)
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
        let options: FastCgi = reader.read();
        let root = options.root?;
        for option in [&FastCgi::index, &FastCgi::script] {
            let climbs = |text: &str| text.split('/').any(|part| part == "..");
            if let Some((node, pointer)) = reader.get(option)
                && node.as_str().is_some_and(climbs)
            {
                self.wrong(
                    node,
                    pointer,
                    format!("`{}` leads out of `root`", option.name),
                );
            }
        }
        let bytes = |text: &str| Box::<[u8]>::from(text.as_bytes());
        Some(Scripts {
            root: bytes(root.trim_end_matches('/')),
            index: bytes(options.index.trim_start_matches('/')),
            script: options
                .script
                .map(|script| bytes(&format!("/{}", script.trim_start_matches('/')))),
            suffixes: options.split_path.iter().map(|end| bytes(end)).collect(),
            check_files: options.check_files,
        })
    }
}
