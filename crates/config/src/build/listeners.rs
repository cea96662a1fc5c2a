//! Listeners, and the addresses they have.

use std::collections::BTreeMap;

use super::builder::Builder;
use super::reader::Reader;
use crate::diagnostic::{Diagnostic, shorten};
use crate::document::Node;
use crate::model::{ListenAddress, Listener};
use crate::pointer::Pointer;
use crate::table::{ListenerOptions, ProxyProtocol};

impl<'d> Builder<'d> {
    pub(super) fn listeners(&mut self, node: &'d Node, pointer: &Pointer) -> Vec<Listener> {
        let mut listeners: Vec<Listener> = Vec::new();
        let mut addresses: BTreeMap<ListenAddress, String> = BTreeMap::new();
        for member in node.members() {
            let reader = Reader::new(&member.node, pointer.child(&member.name));
            let older = reader.get(&ListenerOptions::application);
            let pass = match (reader.get(&ListenerOptions::pass), older) {
                (Some((node, pointer)), _) => self.pass(node, pointer),
                (None, Some((node, pointer))) => self.named_application(node, pointer),
                (None, None) => None,
            };
            let Ok(address) = member.name.parse::<ListenAddress>() else {
                continue;
            };
            let name = member.name.to_string();
            if let Some(other) = addresses.insert(address.clone(), name.clone()) {
                let message = format!(
                    "`{}` is the same address as `{}`",
                    shorten(&name),
                    shorten(&other)
                );
                self.faults
                    .name(Diagnostic::new(reader.pointer.clone(), message), member);
            }
            let options: ListenerOptions = reader.read();
            let forwarded = self.forwarded(&reader);
            let tls = reader.inner(&ListenerOptions::tls);
            let tls = tls.map(|tls| self.tls(tls));
            let Some(pass) = pass else {
                continue;
            };
            let proxies = reader.inner(&ListenerOptions::proxy_protocol);
            listeners.push(Listener {
                proxy_protocol: proxies.and_then(|proxies| proxies.trusted(&ProxyProtocol::source)),
                pointer: reader.pointer,
                name,
                address,
                pass,
                backlog: Some(options.backlog).filter(|backlog| *backlog >= 0),
                forwarded,
                tls,
                http2: options.http2.on(),
            });
        }
        listeners
    }
}
