//! Listeners with certificates, and the port of `http` beside them.

use serde_json::{Map, Value, json};

use super::certificates::{ACCOUNT, INTERNAL};
use super::{Caddy, Listens};
use crate::output::when;

impl Caddy<'_> {
    /// Adds an automatic certificate to a listener, and the account that gets it.
    pub(super) fn add_certificate(&mut self, listen: &str, certificate: Value) {
        let mut account = Map::new();
        if let Some(email) = &self.certificates.email {
            account.insert("contact".to_owned(), email.clone().into());
        }
        if let Some(directory) = &self.certificates.directory {
            account.insert("directory".to_owned(), directory.clone().into());
        }
        let is_internal = certificate.get("acme").and_then(Value::as_str) == Some(INTERNAL);
        let (name, account) = match is_internal {
            true => (INTERNAL, when("directory", "internal")),
            false => (ACCOUNT, account),
        };
        let accounts = self.out.settings.entry("acme").or_insert_with(|| json!({}));
        if let Some(accounts) = accounts.as_object_mut() {
            accounts.insert(name.to_owned(), account.into());
        }
        self.put_certificate(listen, certificate);
    }

    /// Adds a certificate to a listener, beside those of other sites.
    pub(super) fn put_certificate(&mut self, listen: &str, certificate: Value) {
        let listener = self.out.listeners.entry(listen.to_owned());
        let listener = listener.or_insert_with(|| json!({}));
        let known = listener.pointer_mut("/tls/certificate");
        match known {
            Some(Value::Array(known)) if known.contains(&certificate) => {}
            Some(Value::Array(known)) => known.push(certificate),
            Some(known) if *known == certificate => {}
            Some(known) => {
                let former = known.take();
                *known = json!([former, certificate]);
            }
            None => *listener = json!({"tls": {"certificate": certificate}}),
        }
    }

    /// Port 80 sends clients of names with automatic certificates to port 443, as Caddy does.
    pub(super) fn redirects(&mut self, listens: &mut Listens) {
        if self.certificates.redirects_not || !self.out.settings.contains_key("acme") {
            return;
        }
        let mut redirected: Vec<(String, Option<String>)> = Vec::new();
        for (address, hosts) in listens.iter() {
            let automatic = self.out.listeners.get(address);
            let automatic = automatic.and_then(|listener| listener.pointer("/tls/certificate"));
            let names = automatic.map_or_else(String::new, Value::to_string);
            let (Some(interface), true) = (
                address.strip_suffix(&format!(":{}", self.ports.1)),
                names.contains("\"acme\""),
            ) else {
                continue;
            };
            let is_automatic = |host: &str| {
                let name = host.trim_start_matches('[').trim_end_matches(']');
                names.contains(&format!("\"{name}\""))
            };
            for (host, _) in hosts {
                if host.as_deref().is_some_and(is_automatic) {
                    redirected.push((format!("{interface}:{}", self.ports.0), host.clone()));
                }
            }
        }
        if redirected.is_empty() {
            return;
        }
        let steps =
            vec![json!({"action": {"return": 308, "location": "https://$host$request_uri"}})];
        let route = self.out.add_route("to-https", steps);
        for (address, host) in redirected {
            match listens.iter_mut().find(|(known, _)| *known == address) {
                Some((_, hosts)) if hosts.iter().any(|(known, _)| *known == host) => {}
                Some((_, hosts)) => hosts.push((host, route.clone())),
                None => listens.push((address, vec![(host, route.clone())])),
            }
        }
    }
}
