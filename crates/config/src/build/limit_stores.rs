//! `settings.limit_stores`, and `store` of limits.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::sync::Arc;

use tutti_document::Diagnostic;

use super::builder::Builder;
use super::reader::Reader;
use crate::model::{LimitStore, ValkeyAddress};
use crate::table::{
    LimitOptions, LimitStoreOptions, SettingsOptions, ValkeyOptions, ValkeyTlsOptions,
};

/// As registered with IANA.
const PORT: u16 = 6379;

/// Databases are numbered from 0; a server has 16 unless configured otherwise.
const MOST_DATABASES: u32 = 65_536;

const URL_FORMS: &str =
    "`valkey://HOST`, `valkey://HOST:PORT` or `valkey://HOST:PORT/DATABASE`; `valkeys://` with TLS";

impl<'d> Builder<'d> {
    /// The stores, by name.
    pub(super) fn limit_stores(
        &mut self,
        settings: &Reader<'d>,
    ) -> BTreeMap<String, Arc<LimitStore>> {
        let mut stores = BTreeMap::new();
        let Some((node, pointer)) = settings.get(&SettingsOptions::limit_stores) else {
            return stores;
        };
        for member in node.members() {
            let reader = Reader::new(&member.node, pointer.child(&member.name));
            if let Some(store) = self.limit_store(&member.name, &reader) {
                stores.insert(member.name.to_string(), Arc::new(store));
            }
        }
        stores
    }

    fn limit_store(&mut self, name: &str, reader: &Reader<'d>) -> Option<LimitStore> {
        let options: LimitStoreOptions = reader.read();
        let valkey = reader.inner(&LimitStoreOptions::valkey)?;
        let tls = valkey.inner_or_nothing(&ValkeyOptions::tls);
        self.must_be_absolute(&valkey, &ValkeyOptions::password_file);
        for option in [
            &ValkeyTlsOptions::ca,
            &ValkeyTlsOptions::certificate,
            &ValkeyTlsOptions::key,
        ] {
            self.must_be_absolute(&tls, option);
        }
        let (node, pointer) = valkey.get(&ValkeyOptions::url)?;
        let address = match valkey_address(node.as_str()?) {
            Ok(address) => address,
            Err(message) => {
                if !self.faults.has(node) {
                    let fault = Diagnostic::new(pointer, message).expect(URL_FORMS);
                    // The value may contain a password, which must not be shown.
                    self.faults.value(fault, node);
                }
                return None;
            }
        };
        if let (Some(member), false) = (valkey.member(&ValkeyOptions::tls), address.is_secure) {
            let message =
                "the URL begins with neither `valkeys://` nor `rediss://`, so there is no TLS";
            let fault = Diagnostic::new(valkey.place(&ValkeyOptions::tls), message);
            self.faults.name(fault, member);
        }
        Some(LimitStore {
            name: name.to_owned(),
            address,
            valkey: valkey.read(),
            tls: tls.read(),
            options,
            pointer: reader.pointer.clone(),
        })
    }

    /// Checks that the store of a limit exists, and that the limit has a name, by which all servers count it.
    pub(super) fn check_limit_store(&mut self, limit: &Reader<'d>, name: Option<&str>) {
        let Some((node, pointer)) = limit.get(&LimitOptions::store) else {
            return;
        };
        if let (Some(member), None) = (limit.member(&LimitOptions::store), name) {
            let message = "a limit without a name cannot be counted in a store";
            let hint = "write the limit in `limits`, and its name here";
            let fault = Diagnostic::new(pointer.clone(), message).suggest(hint);
            self.faults.name(fault, member);
        }
        let example = r#"{"valkey": {"url": "valkey://HOST"}}"#;
        self.check_store((node, pointer), &SettingsOptions::limit_stores, example);
    }
}

/// Parses the URL of a Valkey server.
fn valkey_address(text: &str) -> Result<ValkeyAddress, &'static str> {
    let (scheme, rest) = text.split_once("://").ok_or("this is not a URL")?;
    let is_secure = match scheme {
        "valkey" | "redis" => false,
        "valkeys" | "rediss" => true,
        _ => return Err("this is not the URL of a Valkey server"),
    };
    let (place, database) = rest.split_once('/').unwrap_or((rest, ""));
    if place.contains('@') {
        return Err("the URL has a user or a password; write `user` and `password_file` instead");
    }
    let database = match database {
        "" => Some(0),
        number => number
            .parse()
            .ok()
            .filter(|number| *number < MOST_DATABASES),
    };
    let database = database.ok_or("this is not the number of a database")?;
    let no_host = "this is not a name or address, with or without a port";
    let (host, port) = match place
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
    {
        Some((host, port)) => {
            host.parse::<Ipv6Addr>().map_err(|_| no_host)?;
            (host, port)
        }
        None => {
            let host = place.split(':').next().unwrap_or_default();
            (host, place.get(host.len()..).unwrap_or_default())
        }
    };
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    if host.is_empty() || !host.bytes().all(is_host) {
        return Err(no_host);
    }
    let port = match port.strip_prefix(':') {
        Some(port) => port.parse().ok().filter(|port| *port != 0),
        None if port.is_empty() => Some(PORT),
        None => None,
    };
    Ok(ValkeyAddress {
        is_secure,
        host: host.to_owned(),
        port: port.ok_or(no_host)?,
        database,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read() {
        let read = |text: &str| {
            let address = valkey_address(text).ok()?;
            Some((
                address.is_secure,
                address.host,
                address.port,
                address.database,
            ))
        };
        for (text, is_secure, host, port, database) in [
            ("valkey://10.0.0.1", false, "10.0.0.1", 6379, 0),
            (
                "rediss://cache.example.com:6380/2",
                true,
                "cache.example.com",
                6380,
                2,
            ),
            ("valkeys://[::1]:1/", true, "::1", 1, 0),
            ("redis://localhost/15", false, "localhost", 6379, 15),
        ] {
            let expected = (is_secure, host.to_owned(), port, database);
            assert_eq!(read(text), Some(expected), "{text}");
        }
        for wrong in [
            "10.0.0.1",
            "http://a",
            "valkey://",
            "valkey://a:0",
            "valkey://a:b",
            "valkey://:secret@a",
            "valkey://a/b",
            "valkey://a/65536",
            "valkey://[a]",
            "valkey://[::1]80",
            "valkey://a b",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
