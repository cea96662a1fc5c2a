//! The sites of an imported configuration: where the old server answers for them, and where the server on trial does.
//!
//! Must never: leave an address of the old server in the configuration on trial, let the server on trial write where the old one does,
//! or let it do work that no request asks for.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use serde_json::{Map, Value, json};

/// Routes that lead to each other are followed this far for the names of hosts.
const DEEPEST: usize = 8;

/// The names of hosts of one listener that are asked for.
const MOST_HOSTS: usize = 50;

/// One listener, on both servers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Site {
    /// The listener, as the configuration names it.
    pub(super) listener: String,
    pub(super) old: SocketAddr,
    pub(super) new: SocketAddr,
    pub(super) is_tls: bool,
    /// Names that its routes distinguish.
    pub(super) hosts: Vec<String>,
}

impl Site {
    pub(super) fn scheme(&self) -> &'static str {
        if self.is_tls { "https" } else { "http" }
    }

    /// `Host` for a name: with the port of the old server, unless that is the scheme's.
    pub(super) fn authority(&self, host: &str) -> String {
        let default = if self.is_tls { 443 } else { 80 };
        match self.old.port() {
            port if port == default => host.to_owned(),
            port => format!("{host}:{port}"),
        }
    }
}

/// A configuration to be tried.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) configuration: Value,
    pub(super) sites: Vec<Site>,
    /// Listeners and parts that are not tried, each with the reason.
    pub(super) left_out: Vec<String>,
    /// Names for which the server on trial needs a certificate of its own.
    pub(super) names: BTreeSet<String>,
}

/// Moves the listeners to free ports, which `port` gives. `certificate` is the file of the certificate in place of those that an authority
/// would issue. `old` replaces the addresses of the old server.
pub(super) fn plan(
    configuration: &Value,
    old: Option<IpAddr>,
    certificate: &Path,
    mut port: impl FnMut() -> std::io::Result<u16>,
) -> std::io::Result<Plan> {
    let mut tried = configuration.clone();
    let mut plan = Plan {
        configuration: Value::Null,
        sites: Vec::new(),
        left_out: Vec::new(),
        names: BTreeSet::new(),
    };
    let listeners = tried.get_mut("listeners").map(Value::take);
    let mut moved = Map::new();
    for (name, mut options) in listeners
        .as_ref()
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default()
    {
        let Some(address) = address(&name, old) else {
            plan.left_out
                .push(format!("the listener `{name}` does not use TCP"));
            continue;
        };
        if options.get("stream").is_some() {
            plan.left_out.push(format!(
                "the listener `{name}` passes connections on without reading them as HTTP"
            ));
            continue;
        }
        if options.get("proxy_protocol").is_some() {
            plan.left_out.push(format!(
                "the listener `{name}` expects the PROXY protocol, which only the proxy in front may send"
            ));
            continue;
        }
        let new = SocketAddr::from((Ipv4Addr::LOCALHOST, port()?));
        let is_tls = options.get("tls").is_some();
        let mut hosts = BTreeSet::new();
        hosts_of(&options, configuration, 0, &mut hosts);
        if let Some(own) = options.pointer_mut("/tls/certificate") {
            replace_certificates(own, certificate, &mut plan.names);
        }
        plan.sites.push(Site {
            listener: name,
            old: address,
            new,
            is_tls,
            hosts: hosts.into_iter().take(MOST_HOSTS).collect(),
        });
        moved.insert(new.to_string(), options);
    }
    if let Some(whole) = tried.as_object_mut() {
        whole.insert("listeners".to_owned(), moved.into());
        quiet(whole, &mut plan.left_out);
    }
    plan.configuration = tried;
    Ok(plan)
}

/// Returns the address at which the old server answers for a listener.
fn address(listener: &str, old: Option<IpAddr>) -> Option<SocketAddr> {
    let address: SocketAddr = match listener.strip_prefix("*:") {
        Some(port) => (Ipv4Addr::UNSPECIFIED, port.parse().ok()?).into(),
        None => listener.parse().ok()?,
    };
    let ip = match (old, address.ip()) {
        (Some(old), _) => old,
        (None, IpAddr::V4(Ipv4Addr::UNSPECIFIED)) => Ipv4Addr::LOCALHOST.into(),
        (None, IpAddr::V6(Ipv6Addr::UNSPECIFIED)) => Ipv6Addr::LOCALHOST.into(),
        (None, ip) => ip,
    };
    Some((ip, address.port()).into())
}

/// Takes out work that no request asks for, and what is written where the old server writes.
fn quiet(whole: &mut Map<String, Value>, left_out: &mut Vec<String>) {
    if whole.remove("schedules").is_some() {
        left_out.push("schedules do not run".to_owned());
    }
    let applications = whole.get_mut("applications");
    let applications = applications.and_then(Value::as_object_mut);
    for (name, application) in applications.into_iter().flatten() {
        if let Some(options) = application.as_object_mut()
            && options.remove("mules").is_some()
        {
            left_out.push(format!("the mules of `{name}` do not run"));
        }
    }
    if let Some(settings) = whole.get_mut("settings").and_then(Value::as_object_mut) {
        settings.remove("acme");
    }
    for part in whole.values_mut() {
        without_logs(part);
    }
    whole.remove("access_log");
}

/// Takes out logs and files of caches, which the old server may be writing. The depth is that of a configuration.
fn without_logs(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.remove("access_log");
            members.remove("slow_log");
            let stores = members.get_mut("cache").and_then(Value::as_object_mut);
            for store in stores.into_iter().flat_map(Map::values_mut) {
                if let Some(store) = store.as_object_mut() {
                    store.remove("disk");
                }
            }
            members.values_mut().for_each(without_logs);
        }
        Value::Array(elements) => elements.iter_mut().for_each(without_logs),
        _ => {}
    }
}

/// Puts a file in the place of each certificate that the server would have to get, and collects their names.
fn replace_certificates(value: &mut Value, file: &Path, names: &mut BTreeSet<String>) {
    match value {
        Value::Array(all) => {
            for one in all.iter_mut() {
                replace_certificates(one, file, names);
            }
            let mut known = Vec::new();
            all.retain(|one| {
                let is_new = !known.contains(one);
                known.push(one.clone());
                is_new
            });
        }
        Value::Object(certificate) if certificate.get("file").is_none() => {
            let named = certificate.get("names").and_then(Value::as_array);
            names.extend(
                named
                    .into_iter()
                    .flatten()
                    .filter_map(|name| Some(name.as_str()?.to_owned())),
            );
            *value = json!({"file": file});
        }
        _ => {}
    }
}

/// The names of hosts that the routes behind an action distinguish first.
fn hosts_of(action: &Value, whole: &Value, depth: usize, hosts: &mut BTreeSet<String>) {
    let pass = action.get("pass").and_then(Value::as_str);
    let Some(name) = pass.and_then(|pass| pass.strip_prefix("routes/")) else {
        return;
    };
    let steps = whole.get("routes").and_then(|routes| routes.get(name));
    let steps = steps.and_then(Value::as_array).filter(|_| depth < DEEPEST);
    for step in steps.into_iter().flatten() {
        let named = step.pointer("/match/host");
        let named: Vec<&str> = match named {
            Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect(),
            Some(one) => one.as_str().into_iter().collect(),
            None => Vec::new(),
        };
        let is_plain = |name: &&str| {
            name.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
        };
        let plain: Vec<String> = named
            .iter()
            .filter(|name| is_plain(name))
            .map(|name| (*name).to_owned())
            .collect();
        if named.is_empty()
            && let Some(action) = step.get("action")
        {
            hosts_of(action, whole, depth + 1, hosts);
        }
        hosts.extend(plain);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(configuration: &Value) -> Plan {
        let mut next = 40_000;
        let port = || {
            next += 1;
            Ok(next)
        };
        plan(configuration, None, Path::new("/t/own.pem"), port).unwrap()
    }

    #[test]
    fn no_address_of_the_old_server_stays() {
        let plan = planned(&json!({
            "listeners": {"*:80": {"pass": "routes/a"}, "[::]:443": {"pass": "routes/a", "tls": {"certificate": [{"acme": "x", "names": ["a.com"]}, {"file": "/c"}]}},
                          "unix:/run/app.sock": {"pass": "routes/a"}, "192.0.2.1:81": {"pass": "routes/a", "proxy_protocol": {"source": "10.0.0.1"}}},
            "routes": {"a": [{"match": {"host": ["a.com", "*.b.com"]}, "action": {"return": 200}}, {"action": {"pass": "routes/b"}}],
                       "b": [{"match": {"host": "c.com"}, "action": {"return": 200}}]},
        }));
        let listeners = plan.configuration["listeners"].as_object().unwrap();
        let names: Vec<&String> = listeners.keys().collect();
        assert_eq!(names, ["127.0.0.1:40001", "127.0.0.1:40002"]);
        let old: Vec<String> = plan.sites.iter().map(|site| site.old.to_string()).collect();
        assert_eq!(old, ["127.0.0.1:80", "[::1]:443"]);
        assert_eq!(plan.sites[0].hosts, ["a.com", "c.com"]);
        assert_eq!(
            listeners["127.0.0.1:40002"]["tls"]["certificate"],
            json!([{"file": "/t/own.pem"}, {"file": "/c"}])
        );
        assert_eq!(plan.names.first().map(String::as_str), Some("a.com"));
        assert_eq!(plan.left_out.len(), 2, "{:?}", plan.left_out);
    }

    #[test]
    fn nothing_works_by_itself_and_nothing_is_logged() {
        let plan = planned(&json!({
            "listeners": {"*:80": {"pass": "applications/a", "access_log": {"path": "/var/log/a"}}},
            "applications": {"a": {"type": "python", "mules": {"m": {}}}},
            "schedules": {"s": {}},
            "settings": {"acme": {"a": {}}},
            "access_log": {"path": "/var/log/nginx/access.log"},
        }));
        let text = plan.configuration.to_string();
        for gone in ["mules", "schedules", "acme", "log"] {
            assert!(!text.contains(gone), "{gone}: {text}");
        }
    }

    #[test]
    fn a_host_has_the_port_of_the_old_server() {
        let mut site = planned(&json!({"listeners": {"*:8080": {}}}))
            .sites
            .remove(0);
        assert_eq!(site.authority("a.com"), "a.com:8080");
        site.old.set_port(80);
        assert_eq!(site.authority("a.com"), "a.com");
        site.is_tls = true;
        assert_eq!(site.authority("a.com"), "a.com:80");
    }
}
