//! Options of stores that limits are counted in, for several servers.

use std::path::PathBuf;
use std::time::Duration;

use tutti_options::table::{Text, ValueKind};
use tutti_options::{Typed as _, Unread, options};

options! {
    /// A store that limits are counted in, for all servers that use it
    pub struct LimitStoreOptions: LIMIT_STORE = "store of limits" {
        /// Valkey 7.2 or later, or Redis 6 or later: one server, or one address that leads to the primary of several
        valkey: Unread [required(), kind(ValkeyOptions::KIND), beyond()],
        /// How long a request waits for the answer. Without one, `on_error` of the limit says what is done
        timeout: Duration [kind(ValueKind::Number(0.001, 10.0)), default("0.05"), beyond(), unit("seconds")],
        /// The beginning of all keys
        prefix: String [kind(ValueKind::String(Text::NotEmpty)), default("\"tutti:\""), beyond()],
    }
}

options! {
    /// A Valkey
    pub struct ValkeyOptions: VALKEY = "valkey" {
        /// `valkey://HOST`, `valkey://HOST:PORT` or `valkey://HOST:PORT/DATABASE`; `valkeys://` with TLS. `redis://` and `rediss://` mean the same
        url: String [required(), kind(ValueKind::String(Text::NotEmpty)), beyond()],
        /// The user; without it the password is that of all (`requirepass`)
        user: Option<String> [kind(ValueKind::String(Text::NotEmpty)), needs(&["password_file"]), beyond()],
        /// Absolute path of a file with the password, one line, which root reads. A new one counts with the next connection
        password_file: Option<PathBuf> [kind(ValueKind::String(Text::Path)), beyond()],
        /// TLS, where the URL begins with `valkeys://` or `rediss://`
        tls: Unread [kind(ValkeyTlsOptions::KIND), beyond()],
    }
}

options! {
    /// TLS with a Valkey
    pub struct ValkeyTlsOptions: VALKEY_TLS = "valkey tls" {
        /// Absolute path of a PEM file with the certificates that vouch for it, instead of those of the system
        ca: Option<PathBuf> [kind(ValueKind::String(Text::Path)), beyond()],
        /// Absolute path of a PEM file with the certificate that is shown to it, and its chain
        certificate: Option<PathBuf> [kind(ValueKind::String(Text::Path)), needs(&["key"]), beyond()],
        /// Absolute path of a PEM file with the key of that certificate
        key: Option<PathBuf> [kind(ValueKind::String(Text::Path)), needs(&["certificate"]), beyond()],
        /// The name that its certificate is for, where it is not that of the URL
        server_name: Option<String> [kind(ValueKind::String(Text::HostName)), beyond()],
    }
}
