//! Listeners and their addresses.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

use tutti_document::{Diagnostic, Pointer, TreeNode, shorten};

use super::builder::Builder;
use super::reader::Reader;
use crate::model::{Http3, ListenAddress, Listener, Tls};
use crate::table::{ListenerOptions, ProxyProtocol};

impl<'d> Builder<'d> {
    pub(super) fn listeners(&mut self, node: &'d TreeNode, pointer: &Pointer) -> Vec<Listener> {
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
            let delivery = self.errors(&reader);
            let scope = self.scope(&reader, &ListenerOptions::http);
            let stream = self.stream_of(&reader, &address);
            if pass.is_none() && stream.is_none() {
                continue;
            }
            if let Some(http3) = options.http3.on() {
                self.speaks_quic(&reader, &address, tls.as_ref(), http3);
            }
            let proxies = reader.inner(&ListenerOptions::proxy_protocol);
            listeners.push(Listener {
                proxy_protocol: proxies
                    .and_then(|proxies| proxies.addresses(&ProxyProtocol::source)),
                pointer: reader.pointer,
                name,
                address,
                pass,
                stream,
                options,
                forwarded,
                tls,
                delivery,
                scope,
            });
        }
        self.check_ports_of_udp(node, pointer, &listeners);
        listeners
    }

    /// Reports listeners for datagrams at an address where HTTP/3 receives them.
    fn check_ports_of_udp(&mut self, node: &'d TreeNode, pointer: &Pointer, all: &[Listener]) {
        for listener in all {
            let ListenAddress::Udp(wanted) = listener.address else {
                continue;
            };
            let mut others = all.iter().filter(|one| one.options.http3.on().is_some());
            let taken = others.find(|one| match one.address {
                ListenAddress::Any(port) => {
                    wanted == SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))
                }
                ListenAddress::Ip(address) => address == wanted,
                _ => false,
            });
            let mut members = node.members().iter();
            if let Some(taken) = taken
                && let Some(member) = members.find(|member| *member.name == *listener.name)
            {
                let other = shorten(&taken.name);
                let message =
                    format!("HTTP/3 of the listener `{other}` receives the datagrams of this port");
                let hint = "take another port, or remove `http3` there";
                let fault = Diagnostic::new(pointer.child(&member.name), message).suggest(hint);
                self.faults.name(fault, member);
            }
        }
    }

    /// Checks that a listener meets the requirements of `http3`.
    fn speaks_quic(
        &mut self,
        reader: &Reader<'d>,
        address: &ListenAddress,
        tls: Option<&Tls>,
        options: Http3,
    ) {
        let lack = match (address, tls) {
            (ListenAddress::Unix(_) | ListenAddress::Abstract(_) | ListenAddress::Udp(_), _) => {
                "`http3` needs an address and a port: a unix socket has no UDP"
            }
            (_, None) => "`http3` needs `tls`: HTTP/3 is always encrypted",
            (_, Some(tls)) if !tls.protocol.allows_tls13 => {
                "`http3` needs TLS 1.3, which `tls/conf_commands` does not allow"
            }
            _ if reader.get(&ListenerOptions::proxy_protocol).is_some() => {
                "`http3` and `proxy_protocol` exclude each other: QUIC has no PROXY protocol header"
            }
            (_, Some(tls)) if options.early_data && tls.clients.is_some() => {
                "`early_data` of `http3` cannot be combined with `client_ca`: an attacker may replay early data"
            }
            _ => return,
        };
        if let Some((node, pointer)) = reader.get(&ListenerOptions::http3) {
            self.faults.value(Diagnostic::new(pointer, lack), node);
        }
    }
}
