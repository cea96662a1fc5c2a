//! Options of automatic certificates (RFC 8555).

use std::path::PathBuf;
use std::time::Duration;

use crate::kinds::STRINGS;
use crate::table::{Text, ValueKind};
use crate::{Typed as _, Unread, options, words};

options! {
    /// An account with an ACME certificate authority. Naming the authority agrees to its terms of service
    pub struct AcmeOptions: ACME = "acme" {
        /// URL of the authority's directory; or `internal`: the server is the authority itself, with a root certificate
        /// that clients must trust (`tutti cert root`), and issues certificates for any name
        directory: String [kind(ValueKind::String(Text::NotEmpty)), default("\"https://acme-v02.api.letsencrypt.org/directory\""), beyond()],
        /// Mail addresses at which the authority may contact you
        contact: Vec<String> [kind(STRINGS), beyond()],
        /// The external account binding, if the authority requires one
        eab: Unread [kind(EabOptions::KIND), beyond()],
        /// The certificate profile, if the authority offers several: `shortlived`
        profile: Option<String> [kind(ValueKind::String(Text::NotEmpty)), beyond()],
        /// Method of proving to the authority that you control the names
        challenge: ChallengeWord [default("\"http-01\""), beyond()],
        /// Program that adds and removes the DNS records of `dns-01`: called with `present` or `cleanup`, the name of
        /// the record and its value, as the server's unprivileged user. It must exit successfully once the record is
        /// visible, within five minutes
        hook: Option<PathBuf> [kind(ValueKind::String(Text::Path)), beyond()],
        /// Name server that accepts the records of `dns-01` as signed updates (RFC 2136), instead of a `hook`
        rfc2136: Unread [kind(NameserverOptions::KIND), beyond()],
        /// Certificates for names that the configuration does not list: ordered when a client asks for the name, on
        /// listeners whose `certificate` has `"on_demand": true`
        on_demand: Unread [kind(OnDemandOptions::KIND), beyond()],
        /// PEM file with the root certificates to verify the authority's directory with, instead of the system's; read
        /// as the server's unprivileged user
        roots: Option<PathBuf> [kind(ValueKind::String(Text::Path)), beyond()],
    }
}

options! {
    /// External account binding (RFC 8555 §7.3.4)
    pub struct EabOptions: EAB = "eab" {
        /// The id of the key
        kid: String [required(), kind(ValueKind::String(Text::NotEmpty)), beyond()],
        /// The key, in URL-safe Base64
        hmac_key: String [required(), kind(ValueKind::String(Text::NotEmpty)), beyond()],
    }
}

options! {
    /// Certificates that are ordered when a client first asks for a name
    pub struct OnDemandOptions: ON_DEMAND = "on_demand" {
        /// URL that decides which names may have a certificate: the server sends `GET` with `name` and, if known,
        /// `client` in the query; 200 allows the name, any other answer, including a redirect, does not. It must answer
        /// within ten seconds
        ask: String [required(), kind(ValueKind::String(Text::NotEmpty)), beyond()],
        /// Time that a handshake waits for its certificate
        timeout: Duration [kind(ValueKind::Integer(1, 120)), default("20"), unit("seconds"), beyond()],
        /// New names for which certificates may be ordered in an hour
        hourly: u32 [kind(ValueKind::Integer(1, 10_000)), default("60"), unit("orders"), beyond()],
        /// The same limit for each registered domain (of the public suffix list)
        hourly_per_domain: u32 [kind(ValueKind::Integer(1, 10_000)), default("10"), unit("orders"), beyond()],
        /// The same limit for each client: an IPv4 address, or an IPv6 /64 network
        hourly_per_client: u32 [kind(ValueKind::Integer(1, 10_000)), default("10"), unit("orders"), beyond()],
        /// Maximum number of names with a certificate at once
        most: usize [kind(ValueKind::Integer(1, 5000)), default("1000"), unit("names"), beyond()],
        /// A certificate that no client has asked for in this time is dropped instead of renewed
        unused: u32 [kind(ValueKind::Integer(1, 3650)), default("30"), unit("days"), beyond()],
    }
}

options! {
    /// A name server that takes updates (RFC 2136), signed with a key (TSIG, RFC 8945)
    pub struct NameserverOptions: NAMESERVER = "rfc2136" {
        /// Address of the primary name server: `192.0.2.53`, or with a port
        server: String [required(), kind(ValueKind::String(Text::NameServer)), beyond()],
        /// The zone that contains the records; if unset, it is looked up on the server
        zone: Option<String> [kind(ValueKind::String(Text::HostName)), beyond()],
        /// The name of the key
        key: String [required(), kind(ValueKind::String(Text::NotEmpty)), beyond()],
        /// The algorithm of the key
        algorithm: TsigAlgorithm [default("\"hmac-sha256\""), beyond()],
        /// File with the secret of the key in Base64, or with a BIND `key` statement; read as the server's unprivileged
        /// user
        secret_file: PathBuf [required(), kind(ValueKind::String(Text::Path)), beyond()],
    }
}

words! {
    /// Algorithms of keys that sign updates (RFC 8945 §6).
    pub enum TsigAlgorithm {
        /// HMAC with SHA-256.
        HmacSha256 = "hmac-sha256",
        /// HMAC with SHA-384.
        HmacSha384 = "hmac-sha384",
        /// HMAC with SHA-512.
        HmacSha512 = "hmac-sha512",
    }
}

words! {
    /// The method by which an authority validates control of the names.
    pub enum ChallengeWord {
        /// By a request to port 80.
        Http = "http-01",
        /// By a handshake with port 443.
        TlsAlpn = "tls-alpn-01",
        /// By a record in the DNS.
        Dns = "dns-01",
    }
}
