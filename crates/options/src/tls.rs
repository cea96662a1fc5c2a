//! Options of TLS, of listeners and with servers.

use std::path::PathBuf;
use std::time::Duration;

use crate::kinds::AUTHORITIES;
use crate::table::{Names, Referent, Text, ValueKind};
use crate::{Typed as _, Unread, options, words};

options! {
    /// TLS of a listener
    pub struct TlsOptions: TLS = "tls" {
        /// Certificate bundles of `/certificates`, paths of PEM files (with `/` or `./` at the front) that have the key too, or files with their key; with several, the name the client asks for chooses: an exact name
        /// before a wildcard, then the first that the client can use; no match: the first
        certificate: Unread [kind(CERTIFICATES), required()],
        /// OpenSSL configuration commands: `MinProtocol`, `MaxProtocol`, `Protocol`, `CipherString`, `Ciphersuites`,
        /// `Groups` (or `Curves`), `Options`, in any case of letters
        conf_commands: Unread [kind(ValueKind::Map(Names::NotEmpty, &ValueKind::String(Text::Any)))],
        /// Session cache and tickets
        session: Unread [kind(TlsSessionOptions::KIND)],
        /// Certificate bundles of `/certificates`, or absolute paths of PEM files, whose certificates vouch for
        /// clients: a client has to show one that they have signed. A file is read at each change of the configuration,
        /// as the router's user
        client_ca: Unread [kind(AUTHORITIES), beyond()],
        /// Turn a client without a certificate away or not; one that does not hold always is
        client_verify: ClientVerify [default("\"required\""), needs(&["client_ca"]), beyond()],
    }
}

options! {
    /// A certificate in files, which the main process reads: at each change and reload, at a start, and soon after they have changed. Or one
    /// that the server gets and renews by itself
    pub struct CertificateSourceOptions: CERTIFICATE_SOURCE = "certificate" {
        /// PEM file with the certificate and its chain: a path that begins with `/`, or with `./` for a file beside those of `--config`
        file: Option<PathBuf> [kind(ValueKind::String(Text::Path)), beyond()],
        /// PEM file with the key; without it, `file` has it
        key: Option<PathBuf> [kind(ValueKind::String(Text::Path)), beyond(), needs(&["file"])],
        /// The account in `settings/acme` that gets it, instead of a file. Until it is there, handshakes for its names fail
        acme: Option<String> [kind(ValueKind::String(Text::Name(Referent::AcmeAccount))), beyond()],
        /// The names it is for, and addresses where the authority takes them; `*.example.com` needs `dns-01`
        names: Vec<String> [kind(NAMES), beyond(), needs(&["acme"])],
        /// Instead of `names`: certificates for the names that clients ask for, as far as `on_demand` of the account lets them
        on_demand: bool [default("false"), beyond(), needs(&["acme"])],
    }
}

/// One name, or several.
const NAMES: ValueKind = ValueKind::OneOf(&[
    ValueKind::String(Text::NotEmpty),
    ValueKind::Array(&ValueKind::String(Text::NotEmpty)),
]);

/// The name of a bundle, a path, or where it comes from.
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
        /// Sessions kept; 0: none
        cache_size: usize [kind(ValueKind::Integer(0, 1 << 31)), default("0"), unit("sessions")],
        /// How long a session, kept or in a ticket, can be taken up again
        timeout: Duration [kind(ValueKind::Integer(1, 1 << 31)), default("300"), unit("seconds")],
        /// Session tickets: off, on with random keys that are renewed, or with these keys: 48 or 80 random bytes in
        /// Base64; all open tickets, the last one makes them
        tickets: Unread [kind(ValueKind::OneOf(&[ValueKind::Boolean, ValueKind::String(Text::NotEmpty), ValueKind::Array(&ValueKind::String(Text::NotEmpty))])), default("false")],
    }
}

words! {
    /// Clients that are let in.
    pub enum ClientVerify {
        /// Only those that show a certificate.
        Required = "required",
        /// Those that show none, too.
        Optional = "optional",
    }
}

options! {
    /// TLS with servers
    #[derive(Eq, Hash)]
    pub struct UpstreamTlsOptions: UPSTREAM_TLS = "upstream tls" {
        /// Have a server show a certificate that holds; without, anybody on the way can read and change everything, and
        /// the log warns
        verify: bool [default("true"), beyond()],
        /// Who vouches for servers, instead of the authorities of the system: bundles of `/certificates`, or paths of
        /// PEM files (with a `/` at the front), read when the configuration is applied
        ca: Unread [kind(AUTHORITIES), beyond()],
        /// The name that is asked for (SNI) and that the certificate must have; without, the host in the server's
        /// address
        server_name: Option<String> [kind(ValueKind::String(Text::HostName)), beyond()],
        /// Certificate bundle of `/certificates`, or files, for servers that ask for a client's certificate
        certificate: Unread [kind(CERTIFICATE), beyond()],
        /// OpenSSL configuration commands, as in `tls` of a listener
        conf_commands: Unread [kind(ValueKind::Map(Names::NotEmpty, &ValueKind::String(Text::Any))), beyond()],
    }
}
