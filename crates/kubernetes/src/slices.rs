//! The slices of one Service, and those of their endpoints that get requests.
//!
//! No I/O. A Service has several slices: one per hundred endpoints, per address type, and per set of ports.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use crate::objects::{EndpointObject, EndpointSlice, PortObject};

/// The port of a Service.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Port {
    /// Its name in the Service.
    Name(String),
    /// The number on which the pods listen.
    Number(u16),
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Port::Name(name) => write!(f, "`{name}`"),
            Port::Number(number) => write!(f, "{number}"),
        }
    }
}

/// A ready endpoint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReadyEndpoint {
    /// The name of the pod, if the slice has it.
    pub name: Option<String>,
    /// Its address.
    pub address: SocketAddr,
}

/// The slices, by name.
#[derive(Debug, Default)]
pub(crate) struct Slices(BTreeMap<String, EndpointSlice>);

impl Slices {
    pub(crate) fn insert(&mut self, slice: EndpointSlice) {
        self.0.insert(slice.metadata.name.clone(), slice);
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// Returns the endpoints that get requests, and the reason if there are none.
    pub(crate) fn ready(&self, port: Option<&Port>) -> (Vec<ReadyEndpoint>, Option<String>) {
        let mut found = BTreeSet::new();
        let mut others: BTreeSet<String> = BTreeSet::new();
        for slice in self.0.values() {
            let ports = slice.ports.as_deref().unwrap_or_default();
            let ports: Vec<&PortObject> = ports.iter().filter(|port| is_tcp(port)).collect();
            let wanted = match (port, ports.as_slice()) {
                (None, [only]) => Some(*only),
                (None, _) => None,
                (Some(port), all) => all.iter().copied().find(|one| is(one, port)),
            };
            let Some(number) = wanted.and_then(|port| port.port).filter(|port| *port != 0) else {
                others.extend(ports.iter().map(|port| described(port)));
                continue;
            };
            let endpoints = slice.endpoints.iter().flatten();
            let endpoints = endpoints.filter(|endpoint| is_ready(endpoint));
            found.extend(endpoints.filter_map(|endpoint| one(slice, endpoint, number)));
        }
        let why = found.is_empty().then(|| self.reason(port, &others));
        // An endpoint that moves from one slice to another is in both for a while.
        let mut seen = BTreeSet::new();
        let found = found.into_iter().filter(|one| seen.insert(one.address));
        (found.collect(), why)
    }

    fn reason(&self, port: Option<&Port>, others: &BTreeSet<String>) -> String {
        let listed = others.iter().cloned().collect::<Vec<_>>().join(", ");
        match port {
            _ if self.0.is_empty() => "there is no such Service, or it has no endpoints".to_owned(),
            None if others.len() > 1 => {
                format!("it has several ports; hint: select one with `port`: {listed}")
            }
            Some(port) if !others.is_empty() => {
                format!("it has no port {port} for TCP; there are {listed}")
            }
            _ => "none of its endpoints is ready".to_owned(),
        }
    }
}

fn is_tcp(port: &PortObject) -> bool {
    port.protocol
        .as_deref()
        .is_none_or(|protocol| protocol == "TCP")
}

fn is(one: &PortObject, wanted: &Port) -> bool {
    match wanted {
        Port::Name(name) => one.name.as_deref() == Some(name),
        Port::Number(number) => one.port == Some(*number),
    }
}

fn described(port: &PortObject) -> String {
    let number = port
        .port
        .map_or_else(|| "any".to_owned(), |port| port.to_string());
    match port.name.as_deref() {
        Some(name) if !name.is_empty() => format!("`{name}` ({number})"),
        _ => number,
    }
}

/// True if it gets new requests. An endpoint that still serves while it terminates (`serving`, `terminating`) does not.
fn is_ready(endpoint: &EndpointObject) -> bool {
    let conditions = endpoint.conditions.clone().unwrap_or_default();
    conditions.ready != Some(false) && conditions.terminating != Some(true)
}

/// Returns the first address: the others have no meaning.
fn one(slice: &EndpointSlice, endpoint: &EndpointObject, port: u16) -> Option<ReadyEndpoint> {
    let ip: IpAddr = endpoint.addresses.as_ref()?.first()?.parse().ok()?;
    let is_of_kind = match slice.address_type.as_str() {
        "IPv4" => ip.is_ipv4(),
        "IPv6" => ip.is_ipv6(),
        _ => false,
    };
    let target = endpoint.target_ref.as_ref();
    let name = target.map(|target| target.name.clone());
    is_of_kind.then(|| ReadyEndpoint {
        name: name.filter(|name| !name.is_empty()),
        address: SocketAddr::new(ip, port),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn slices(list: &[Value]) -> Slices {
        let mut slices = Slices::default();
        for slice in list {
            slices.insert(serde_json::from_value(slice.clone()).unwrap());
        }
        slices
    }

    fn slice(name: &str, ports: &Value, endpoints: &Value) -> Value {
        json!({"metadata": {"name": name, "resourceVersion": "1"}, "addressType": "IPv4",
               "ports": ports, "endpoints": endpoints})
    }

    fn addresses(slices: &Slices, port: Option<Port>) -> Vec<String> {
        let (found, _) = slices.ready(port.as_ref());
        found.iter().map(|one| one.address.to_string()).collect()
    }

    #[test]
    fn only_endpoints_that_are_ready_count() {
        let slices = slices(&[slice(
            "web-1",
            &json!([{"name": "http", "port": 8080, "protocol": "TCP"}]),
            &json!([
                {"addresses": ["10.0.0.1"], "conditions": {"ready": true, "serving": true, "terminating": false},
                 "targetRef": {"kind": "Pod", "name": "web-a"}},
                {"addresses": ["10.0.0.2"], "conditions": {"ready": false, "serving": true, "terminating": true}},
                {"addresses": ["10.0.0.3"], "conditions": {"ready": false, "serving": false}},
                // As with `publishNotReadyAddresses`.
                {"addresses": ["10.0.0.4"], "conditions": {"ready": true, "serving": true, "terminating": true}},
                // Unknown.
                {"addresses": ["10.0.0.5"], "conditions": {}},
                {"addresses": ["10.0.0.6", "10.0.0.7"]},
                {"addresses": []}, {"addresses": null}, {"addresses": ["web.example"]},
            ]),
        )]);
        let (found, why) = slices.ready(None);
        assert_eq!(why, None);
        assert_eq!(found.last().unwrap().name.as_deref(), Some("web-a"));
        let expected = ["10.0.0.5:8080", "10.0.0.6:8080", "10.0.0.1:8080"];
        assert_eq!(addresses(&slices, None), expected);
    }

    #[test]
    fn ports_are_chosen_by_name_and_by_number() {
        let pod = |last: u8| json!([{"addresses": [format!("10.0.0.{last}")]}]);
        let slices = slices(&[
            slice(
                "a",
                &json!([{"name": "http", "port": 8080}, {"name": "admin", "port": 9000}]),
                &pod(1),
            ),
            // A named port may have another number in other pods.
            slice("b", &json!([{"name": "http", "port": 8081}]), &pod(2)),
            slice(
                "c",
                &json!([{"name": "dns", "port": 53, "protocol": "UDP"}]),
                &pod(3),
            ),
            slice("d", &json!(null), &pod(4)),
        ]);
        let name = |name: &str| Some(Port::Name(name.to_owned()));
        assert_eq!(
            addresses(&slices, name("http")),
            ["10.0.0.1:8080", "10.0.0.2:8081"]
        );
        assert_eq!(addresses(&slices, name("admin")), ["10.0.0.1:9000"]);
        assert_eq!(
            addresses(&slices, Some(Port::Number(8081))),
            ["10.0.0.2:8081"]
        );
        let why = |port: Option<Port>| slices.ready(port.as_ref()).1;
        let listed = "there are `admin` (9000), `http` (8080), `http` (8081)";
        assert_eq!(
            why(name("dns")),
            Some(format!("it has no port `dns` for TCP; {listed}"))
        );
        assert_eq!(
            why(Some(Port::Number(1))),
            Some(format!("it has no port 1 for TCP; {listed}"))
        );
    }

    #[test]
    fn reasons_are_reported_where_no_address_is_ready() {
        let why = |slices: &Slices| slices.ready(None).1.unwrap();
        assert!(why(&Slices::default()).contains("no such Service"));
        let two = json!([{"name": "a", "port": 1}, {"name": "b", "port": 2}]);
        let two = slices(&[slice("a", &two, &json!([{"addresses": ["10.0.0.1"]}]))]);
        assert!(
            why(&two).contains("select one with `port`: `a` (1), `b` (2)"),
            "{}",
            why(&two)
        );
        let resting = slices(&[slice("a", &json!([{"port": 1}]), &json!(null))]);
        assert!(why(&resting).contains("is ready"));
    }

    #[test]
    fn both_families_count_and_one_that_is_in_two_slices_counts_once() {
        let port = json!([{"name": "", "port": 80}]);
        let mut six = slice(
            "six",
            &port,
            &json!([{"addresses": ["fd00::1"]}, {"addresses": ["10.0.0.9"]}]),
        );
        six["addressType"] = json!("IPv6");
        let mut names = slice("names", &port, &json!([{"addresses": ["10.0.0.8"]}]));
        names["addressType"] = json!("FQDN");
        let pod = json!([{"addresses": ["10.0.0.1"]}]);
        let mut slices = slices(&[slice("a", &port, &pod), slice("b", &port, &pod), six, names]);
        assert_eq!(addresses(&slices, None), ["10.0.0.1:80", "[fd00::1]:80"]);
        slices.remove("a");
        slices.remove("six");
        assert_eq!(addresses(&slices, None), ["10.0.0.1:80"]);
    }
}
