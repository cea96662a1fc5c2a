//! Options of TLS, of listeners and with servers.

use std::path::PathBuf;
use std::time::Duration;

use crate::kinds::AUTHORITIES;
use crate::table::{Names, Referent, Text, ValueKind};
use crate::{Typed as _, Unread, options, words};

options! {
    /// TLS of a listener
    pub struct TlsOptions: TLS = "tls" {
        /// Certificates: bundles of `/certificates`, paths of PEM files that contain the key too (beginning with `/` or
        /// `./`), or objects. Of several, the server name that the client asks for decides: an exact name before a
        /// wildcard, then the first that the client supports; without a match, the first
        certificate: Unread [kind(CERTIFICATES), required()],
        /// OpenSSL configuration commands: `MinProtocol`, `MaxProtocol`, `Protocol`, `CipherString`, `Ciphersuites`,
        /// `Groups` (or `Curves`), `Options`, in any case of letters
        conf_commands: Unread [kind(ValueKind::Map(Names::NotEmpty, &ValueKind::String(Text::Any)))],
        /// Session cache and tickets
        session: Unread [kind(TlsSessionOptions::KIND)],
        /// CA certificates for client certificates: bundles of `/certificates`, or absolute paths of PEM files. A
        /// client must present a certificate signed by one of them. Files are read at each change of the configuration,
        /// as the router's user
        client_ca: Unread [kind(AUTHORITIES), beyond()],
        /// Reject or accept clients without a certificate
        client_verify: ClientVerify [default("\"required\""), needs(&["client_ca"]), beyond()],
        /// Treatment of a client whose certificate is invalid, or missing although it is required. `handshake`: the
        /// handshake fails; `page`: every request gets 400; `report`: requests are served, and `$tls_client_verify`
        /// has the reason
        client_failure: ClientFailure [default("\"handshake\""), needs(&["client_ca"]), beyond()],
    }
}

options! {
    /// A certificate in files, which the main process reads at a start, at each change and reload, and shortly after
    /// they have changed; or one that the server obtains and renews automatically
    pub struct CertificateSourceOptions: CERTIFICATE_SOURCE = "certificate" {
        /// PEM file with the certificate and its chain: an absolute path, or one that begins with `./`, relative to the
        /// files of `--config`
        file: Option<PathBuf> [kind(ValueKind::String(Text::Path)), beyond()],
        /// PEM file with the key, if it is not in `file`
        key: Option<PathBuf> [kind(ValueKind::String(Text::Path)), beyond(), needs(&["file"])],
        /// The account in `settings/acme` that obtains the certificate, instead of a file. Until then, handshakes for
        /// its names fail
        acme: Option<String> [kind(ValueKind::String(Text::Name(Referent::AcmeAccount))), beyond()],
        /// Names for the certificate, and addresses if the authority supports them; `*.example.com` needs `dns-01`
        names: Vec<String> [kind(NAMES), beyond(), needs(&["acme"])],
        /// Instead of `names`: obtain certificates for the names that clients ask for, within `on_demand` of the
        /// account
        on_demand: bool [default("false"), beyond(), needs(&["acme"])],
    }
}

/// One name, or several.
const NAMES: ValueKind = ValueKind::OneOf(&[
    ValueKind::String(Text::NotEmpty),
    ValueKind::Array(&ValueKind::String(Text::NotEmpty)),
]);

/// The name of a bundle, a path, or an object that says where the certificate comes from.
const CERTIFICATE: ValueKind = ValueKind::OneOf(&[
    ValueKind::String(Text::Name(Referent::Certificate)),
    CertificateSourceOptions::KIND,
]);
const CERTIFICATES: ValueKind = ValueKind::OneOf(&[
    ValueKind::String(Text::Name(Referent::Certificate)),
    CertificateSourceOptions::KIND,
    ValueKind::Array(&CERTIFICATE),
]);

options! {
    /// Session cache and tickets of a listener
    #[derive(Eq)]
    pub struct TlsSessionOptions: TLS_SESSION = "tls session" {
        /// Sessions to cache; 0: none
        cache_size: usize [kind(ValueKind::Integer(0, 1 << 31)), default("0"), unit("sessions")],
        /// Time for which a session, cached or in a ticket, can be resumed
        timeout: Duration [kind(ValueKind::Integer(1, 1 << 31)), default("300"), unit("seconds")],
        /// Session tickets: off, on with random keys that are rotated, or with these keys: 48 or 80 random bytes in
        /// Base64; all keys accept tickets, the last one issues them
        tickets: Unread [kind(ValueKind::OneOf(&[ValueKind::Boolean, ValueKind::String(Text::NotEmpty), ValueKind::Array(&ValueKind::String(Text::NotEmpty))])), default("false")],
    }
}

words! {
    /// Clients that are accepted.
    pub enum ClientVerify {
        /// Only clients with a valid certificate.
        Required = "required",
        /// Clients without a certificate, too.
        Optional = "optional",
    }
}

words! {
    /// The treatment of clients without a valid certificate.
    pub enum ClientFailure {
        /// The handshake fails.
        Handshake = "handshake",
        /// Requests get 400.
        Page = "page",
        /// Requests are served; the configuration or the application decides.
        Report = "report",
    }
}

options! {
    /// TLS with servers
    #[derive(Eq, Hash)]
    pub struct UpstreamTlsOptions: UPSTREAM_TLS = "upstream tls" {
        /// Verify the server's certificate; if `false`, anyone on the network path can read and change everything, and
        /// the log warns
        verify: bool [default("true"), beyond()],
        /// CA certificates to verify servers with, instead of the system's: bundles of `/certificates`, or absolute
        /// paths of PEM files, read when the configuration is applied
        ca: Unread [kind(AUTHORITIES), beyond()],
        /// The server name to ask for (SNI) and to verify the certificate against; by default the host in the server's
        /// address
        server_name: Option<String> [kind(ValueKind::String(Text::HostName)), beyond()],
        /// Client certificate for servers that ask for one: a bundle of `/certificates`, or files
        certificate: Unread [kind(CERTIFICATE), beyond()],
        /// OpenSSL configuration commands, as in `tls` of a listener
        conf_commands: Unread [kind(ValueKind::Map(Names::NotEmpty, &ValueKind::String(Text::Any))), beyond()],
    }
}
