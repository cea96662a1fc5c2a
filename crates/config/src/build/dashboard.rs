//! `settings.dashboard`: clients that can reach it must authenticate.

use std::net::{Ipv4Addr, SocketAddr};

use tutti_document::{Diagnostic, shorten};

use super::builder::Builder;
use super::reader::Reader;
use crate::model::{ClientFailure, Dashboard, ListenAddress};
use crate::table::{DashboardOptions, RootOptions};

impl<'d> Builder<'d> {
    pub(super) fn dashboard(&mut self, reader: Reader<'d>) -> Option<Dashboard> {
        let tls = reader.inner(&DashboardOptions::tls);
        let tls = tls.map(|tls| self.tls(tls));
        if tls.as_ref().is_some_and(|tls| tls.on_demand.is_some()) {
            let message = "the dashboard cannot use certificates on demand: write its `names`";
            self.refuse(&reader, &DashboardOptions::tls, message);
        }
        let clients = tls.as_ref().and_then(|tls| tls.clients.as_ref());
        if clients.is_some_and(|clients| clients.failure != ClientFailure::Handshake) {
            let message = "`client_failure` is for listeners: the dashboard ends the handshake";
            self.refuse(&reader, &DashboardOptions::tls, message);
        }
        let options: DashboardOptions = reader.read();
        if let Some((node, pointer)) = reader.get(&DashboardOptions::token_file)
            && options
                .token_file
                .as_ref()
                .is_some_and(|path| !path.is_absolute())
        {
            self.wrong(
                node,
                pointer,
                "the path of the token does not begin with `/`",
            );
        }
        let address = self.dashboard_address(&reader, tls.is_some())?;
        let dashboard = Dashboard {
            pointer: reader.pointer,
            address,
            tls,
            options,
        };
        if dashboard.options.token_file.is_none() && !dashboard.verifies_clients() {
            let fault = Diagnostic::new(
                dashboard.pointer.clone(),
                "a dashboard needs a `token_file`, or `tls` with `client_ca` that requires a certificate of each client",
            )
            .suggest("create one with `(umask 077; openssl rand -hex 32 > /etc/tutti/dashboard-token)`");
            self.faults.value(fault, reader.node);
        }
        Some(dashboard)
    }

    fn dashboard_address(&mut self, reader: &Reader<'d>, has_tls: bool) -> Option<SocketAddr> {
        let (node, pointer) = reader.get(&DashboardOptions::listen)?;
        let text = node.as_str()?;
        let parsed = match text.parse::<ListenAddress>() {
            Ok(ListenAddress::Any(port)) => Ok(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))),
            Ok(ListenAddress::Ip(address)) => Ok(address),
            Ok(ListenAddress::Unix(_) | ListenAddress::Abstract(_)) => {
                Err("browsers cannot connect to a unix socket".to_owned())
            }
            Ok(ListenAddress::Udp(_)) => Err("browsers connect by TCP".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        let address = match parsed {
            Ok(address) => address,
            Err(reason) => {
                let message = format!(
                    "`{}` is not an address for the dashboard: {reason}",
                    shorten(text)
                );
                let fault = Diagnostic::new(pointer, message).expect("ADDRESS:PORT");
                self.faults.value(fault, node);
                return None;
            }
        };
        if !has_tls && !address.ip().is_loopback() {
            let message = format!(
                "`{}` can be reached from other machines, and there is no `tls`",
                shorten(text)
            );
            let fault = Diagnostic::new(pointer.clone(), message).suggest(
                "listen on `127.0.0.1` and connect through `ssh -L`, or add `tls` with a certificate",
            );
            self.faults.value(fault, node);
        }
        let listeners = self.root.child(RootOptions::listeners.name);
        let mut names = listeners.into_iter().flat_map(|node| node.members());
        let same = names.find(|member| match member.name.parse::<ListenAddress>() {
            Ok(ListenAddress::Any(port)) => port == address.port() && address.is_ipv4(),
            Ok(ListenAddress::Ip(other)) => other == address,
            _ => false,
        });
        if let Some(listener) = same {
            let message = format!(
                "`{}` is taken by the listener `{}`",
                shorten(text),
                shorten(&listener.name)
            );
            self.wrong(node, pointer, message);
        }
        Some(address)
    }
}
