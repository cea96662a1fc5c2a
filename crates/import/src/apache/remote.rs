//! `RemoteIPHeader`: proxies that are trusted for the client's address. A listener trusts the same ones for all of its
//! hosts.

use serde_json::{Map, Value, json};

use super::grammar::Directive;
use super::site::Compiler;

/// The proxies of a host, and the header field in which they name the client.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Remote {
    header: String,
    sources: Vec<String>,
    /// They stand in a file, or are not addresses.
    is_unknown: bool,
}

/// The proxies of all hosts, if they have the same.
pub(super) struct Remotes {
    common: Option<Remote>,
}

impl Remote {
    /// The proxies of a host, with those of the server around it.
    fn read(own: &[Directive], outer: &[Directive]) -> Option<Remote> {
        let all = || outer.iter().chain(own);
        let header = all().rfind(|directive| directive.is("remoteipheader"))?;
        let mut remote = Remote {
            header: header.argument(0).to_owned(),
            sources: Vec::new(),
            is_unknown: false,
        };
        for directive in all() {
            match directive.key.as_str() {
                "remoteiptrustedproxy" | "remoteipinternalproxy" => {
                    for source in &directive.arguments {
                        let address = source.split('/').next().unwrap_or_default();
                        remote.is_unknown |= address.parse::<std::net::IpAddr>().is_err();
                        remote.sources.push(source.clone());
                    }
                }
                "remoteiptrustedproxylist" | "remoteipinternalproxylist" => {
                    remote.is_unknown = true;
                }
                _ => {}
            }
        }
        // Without a list, Apache trusts every client.
        remote.is_unknown |= remote.sources.is_empty();
        Some(remote)
    }
}

impl Compiler<'_> {
    /// Returns the proxies that the listeners trust: those that all hosts name.
    pub(super) fn remote(&mut self, hosts: &[&[Directive]], outer: &[Directive]) -> Remotes {
        let mut all: Vec<Option<Remote>> =
            hosts.iter().map(|own| Remote::read(own, outer)).collect();
        if all.is_empty() {
            all.push(Remote::read(&[], outer));
        }
        let first = all.first().cloned().flatten();
        let is_common = first.as_ref().is_some_and(|first| !first.is_unknown)
            && all.iter().all(|one| *one == first);
        let mut named = hosts.iter().flat_map(|own| own.iter()).chain(outer);
        let header = named.find(|directive| directive.is("remoteipheader"));
        if let Some(header) = header.filter(|_| !is_common) {
            let problem = "hosts trust different proxies: no proxy is trusted, and rules about addresses respond 403";
            let hint =
                "write `RemoteIPTrustedProxy` with addresses outside all hosts, then import again";
            self.findings
                .lost(&header.place, &header.name, problem, hint);
        }
        Remotes {
            common: first.filter(|_| is_common),
        }
    }
}

impl Remotes {
    /// True if the clients' addresses of a host may differ from those that the source means.
    pub(super) fn is_doubtful(&self, own: &[Directive], outer: &[Directive]) -> bool {
        let wanted = Remote::read(own, outer);
        wanted.is_some() && wanted != self.common
    }

    /// Makes the listeners trust the proxies.
    pub(super) fn configure_listeners(&self, listeners: &mut Map<String, Value>) {
        let Some(remote) = &self.common else {
            return;
        };
        let forwarded =
            json!({"source": remote.sources, "client_ip": remote.header, "recursive": true});
        for listener in listeners.values_mut().filter_map(Value::as_object_mut) {
            listener.insert("forwarded".to_owned(), forwarded.clone());
        }
    }
}
