//! WebAssembly: modules and components.

use std::path::PathBuf;
use std::time::Duration;

use crate::application::{ApplicationSupport, Common};
use crate::table::{Text, ValueKind};
use crate::{Complaints, OptionalLimit, Options, options};

/// The page size of WebAssembly's memory (its specification, §4.2.8): no instance has less.
const PAGE: i64 = 65_536;

/// The limit of 32-bit addresses.
const MAX_MEMORY: i64 = 1 << 32;

options! {
    /// The parts of the system that a WebAssembly module may use
    pub struct ModuleAccess: MODULE_ACCESS = "wasm access" {
        /// Folders that it may read and write, under the same names
        filesystem: Vec<PathBuf> [],
    }
}

options! {
    /// Limits of an instance of a WebAssembly module
    #[derive(Copy)]
    pub struct ModuleInstance: MODULE_INSTANCE = "wasm instance" {
        /// Linear memory of an instance, of which 32 MiB are for requests and responses
        memory: u64 [kind(ValueKind::Size(PAGE, MAX_MEMORY)), beyond(), default("268435456"), unit("bytes")],
        /// Computing time of an instance for a request, excluding time spent waiting; 0: no limit
        time: OptionalLimit<Duration> [kind(ValueKind::Integer(0, 0x7fff_ffff)), beyond(), default("60"), unit("seconds")],
    }
}

options! {
    /// The parts of the system that a WebAssembly component may use
    pub struct Access: ACCESS = "component access" {
        /// Folders that it may read and write, under the same names
        filesystem: Vec<PathBuf> [],
        /// Hosts that it may send HTTP requests to: `api.example.com` (its ports 80 and 443), `api.example.com:8080`, `*.example.com`, `*` for every host and port
        network: Vec<String> [kind(ValueKind::Array(&ValueKind::String(Text::NotEmpty))), beyond()],
    }
}

options! {
    /// The lifetime and limits of an instance of a WebAssembly component
    #[derive(Copy)]
    pub struct Instance: INSTANCE = "instance" {
        /// Requests that an instance handles, one after the other, before it is replaced
        requests: u32 [kind(ValueKind::Integer(1, 0x7fff_ffff)), beyond(), default("1"), unit("requests")],
        /// Linear memory of an instance
        memory: u64 [kind(ValueKind::Size(PAGE, MAX_MEMORY)), beyond(), default("268435456"), unit("bytes")],
        /// Computing time of an instance for a request, excluding time spent waiting; 0: no limit
        time: OptionalLimit<Duration> [kind(ValueKind::Integer(0, 0x7fff_ffff)), beyond(), default("60"), unit("seconds")],
    }
}

options! {
    /// A WebAssembly module of NGINX Unit's SDK (`unit-wasm`)
    pub struct Wasm: WASM = "wasm", beside [Common::ROWS] {
        /// The .wasm file
        module: PathBuf [required()],
        /// Function that handles a request, or a part of one with a large body
        request_handler: String [required(), kind(ValueKind::String(Text::NotEmpty))],
        /// Function that allocates memory for requests and responses
        malloc_handler: String [required(), kind(ValueKind::String(Text::NotEmpty))],
        /// Function that frees that memory
        free_handler: String [required(), kind(ValueKind::String(Text::NotEmpty))],
        /// Function that is called once at the start
        module_init_handler: Option<String> [kind(ValueKind::String(Text::NotEmpty))],
        /// Function that is called once at the end
        module_end_handler: Option<String> [kind(ValueKind::String(Text::NotEmpty))],
        /// Function that is called before a request
        request_init_handler: Option<String> [kind(ValueKind::String(Text::NotEmpty))],
        /// Function that is called when it has received all of a request
        request_end_handler: Option<String> [kind(ValueKind::String(Text::NotEmpty))],
        /// Function that is called when it has completed a response
        response_end_handler: Option<String> [kind(ValueKind::String(Text::NotEmpty))],
        /// The parts of the system that it may use
        access: ModuleAccess [],
        /// Limits of an instance
        instance: ModuleInstance [beyond()],
    }
}

options! {
    /// A WebAssembly component (wasi:http)
    pub struct Wasi: WASI = "wasm-wasi-component", beside [Common::ROWS] {
        /// The .wasm file
        component: PathBuf [required()],
        /// The parts of the system that it may use
        access: Access [],
        /// The lifetime and limits of an instance
        instance: Instance [beyond()],
    }
}

impl ApplicationSupport for Wasm {
    const HAS_VERSIONS: bool = false;
    const MAY_RUN_EVENT_LOOPS: bool = true;

    fn watched(&self) -> Vec<PathBuf> {
        vec![self.module.clone()]
    }
}

impl ApplicationSupport for Wasi {
    const HAS_VERSIONS: bool = false;
    const MAY_RUN_EVENT_LOOPS: bool = true;

    fn check(&self, complaints: &mut Complaints<'_>) {
        for (index, host) in self.access.network.iter().enumerate() {
            if let Err(problem) = NetworkDestination::parse(host) {
                complaints.value_with_hint(
                    &format!("access/network/{index}"),
                    problem,
                    "name a host, and its port unless that is 80 or 443: `api.example.com`, `api.example.com:8080`",
                );
            }
        }
    }

    fn watched(&self) -> Vec<PathBuf> {
        vec![self.component.clone()]
    }
}

/// The destinations that one entry of `access.network` allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkDestination {
    host: Host,
    /// `None`: the ports of HTTP and HTTPS.
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Host {
    /// Every host, and every port unless one is given.
    Any,
    /// This one, in lower case; an IPv6 address without brackets.
    Named(String),
    /// Hosts whose names end with this, which begins with a dot.
    Below(String),
}

/// The ports of HTTP and HTTPS (RFC 9110 §4.2).
const DEFAULT_PORTS: [u16; 2] = [80, 443];

impl NetworkDestination {
    /// Parses an entry.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some((scheme, _)) = text.split_once("://") {
            return Err(format!("`{scheme}://` begins a URL, which is not a host"));
        }
        let (host, port) = match text.rsplit_once(':') {
            // An IPv6 address has colons of its own.
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, Some(port)),
            _ => (text, None),
        };
        let port = match port.map(str::parse::<u16>) {
            Some(Ok(0) | Err(_)) => {
                return Err("the port is not a number from 1 to 65535".to_owned());
            }
            Some(Ok(port)) => Some(port),
            None => None,
        };
        let host = host
            .strip_prefix('[')
            .map_or(host, |rest| rest.strip_suffix(']').unwrap_or(rest));
        let is_name = |name: &str| {
            let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
            !name.is_empty() && name.bytes().all(is_part)
        };
        let host = match host.strip_prefix('*') {
            Some("") => Host::Any,
            Some(rest) if rest.starts_with('.') && is_name(rest) => {
                Host::Below(rest.to_ascii_lowercase())
            }
            None if is_name(host) => Host::Named(host.to_ascii_lowercase()),
            _ => return Err("this is not the name or address of a host".to_owned()),
        };
        Ok(Self { host, port })
    }

    /// True if requests may be sent to this port of this host (an IPv6 address with or without brackets).
    pub fn allows(&self, host: &str, port: u16) -> bool {
        let host = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_ascii_lowercase();
        let is_host = match &self.host {
            Host::Any => true,
            Host::Named(name) => *name == host,
            Host::Below(end) => host.len() > end.len() && host.ends_with(end.as_str()),
        };
        let is_port = match self.port {
            Some(own) => own == port,
            None => self.host == Host::Any || DEFAULT_PORTS.contains(&port),
        };
        is_host && is_port
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_allows_the_hosts_and_ports_it_names() {
        for (entry, host, port, is_allowed) in [
            ("api.example.com", "api.example.com", 443, true),
            ("api.example.com", "API.example.com", 80, true),
            ("api.example.com", "api.example.com", 8080, false),
            ("api.example.com", "example.com", 443, false),
            ("api.example.com", "api.example.com.evil.test", 443, false),
            ("api.example.com:8080", "api.example.com", 8080, true),
            ("api.example.com:8080", "api.example.com", 80, false),
            ("*.example.com", "a.b.example.com", 443, true),
            ("*.example.com", "example.com", 443, false),
            ("*.example.com", "evilexample.com", 443, false),
            ("*", "anything.test", 25, true),
            ("*:443", "anything.test", 443, true),
            ("*:443", "anything.test", 80, false),
            ("127.0.0.1:3000", "127.0.0.1", 3000, true),
            ("[::1]:3000", "[::1]", 3000, true),
            ("::1", "[::1]", 80, true),
        ] {
            let found = NetworkDestination::parse(entry).unwrap().allows(host, port);
            assert_eq!(found, is_allowed, "{entry}: {host}:{port}");
        }
        for entry in [
            "https://api.example.com",
            "example.com/path",
            "",
            "*com",
            "a*.com",
            "host:",
            "host:0",
            "host:65536",
            "a b",
        ] {
            assert!(NetworkDestination::parse(entry).is_err(), "{entry}");
        }
    }
}
