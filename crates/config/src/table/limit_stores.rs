//! Options of stores that count limits for several servers.

use std::path::PathBuf;
use std::time::Duration;

use tutti_options::table::{Text, ValueKind};
use tutti_options::{Typed as _, Unread, options};

options! {
    /// A store that counts limits for all servers that use it
    pub struct LimitStoreOptions: LIMIT_STORE = "store of limits" {
        /// Valkey 7.2 or later, or Redis 6 or later: one server, or one address that leads to the primary of several
        valkey: Unread [required(), kind(ValkeyOptions::KIND), beyond()],
        /// Time to wait for the response of the store; after that, `on_error` of the limit applies
        timeout: Duration [kind(ValueKind::Number(0.001, 10.0)), default("0.05"), beyond(), unit("seconds")],
        /// Prefix of all keys
        prefix: String [kind(ValueKind::String(Text::NotEmpty)), default("\"tutti:\""), beyond()],
    }
}

options! {
    /// A Valkey server
    pub struct ValkeyOptions: VALKEY = "valkey" {
        /// `valkey://HOST`, `valkey://HOST:PORT` or `valkey://HOST:PORT/DATABASE`; `valkeys://` with TLS. `redis://` and `rediss://` mean the same
        url: String [required(), kind(ValueKind::String(Text::NotEmpty)), beyond()],
        /// The user; without it the password is the server's (`requirepass`)
        user: Option<String> [kind(ValueKind::String(Text::NotEmpty)), needs(&["password_file"]), beyond()],
        /// Absolute path of a file with the password on one line, read as root. A changed password is used from the
        /// next connection on
        password_file: Option<PathBuf> [kind(ValueKind::String(Text::Path)), beyond()],
        /// TLS, if the URL begins with `valkeys://` or `rediss://`
        tls: Unread [kind(ValkeyTlsOptions::KIND), beyond()],
    }
}

options! {
    /// TLS with a Valkey server
    pub struct ValkeyTlsOptions: VALKEY_TLS = "valkey tls" {
        /// Absolute path of a PEM file with the CA certificates to verify the server with, instead of the system's
        ca: Option<PathBuf> [kind(ValueKind::String(Text::Path)), beyond()],
        /// Absolute path of a PEM file with the client certificate, and its chain
        certificate: Option<PathBuf> [kind(ValueKind::String(Text::Path)), needs(&["key"]), beyond()],
        /// Absolute path of a PEM file with the key of that certificate
        key: Option<PathBuf> [kind(ValueKind::String(Text::Path)), needs(&["certificate"]), beyond()],
        /// The name that the server's certificate must have, instead of the host of the URL
        server_name: Option<String> [kind(ValueKind::String(Text::HostName)), beyond()],
    }
}
