//! Options of automatic certificates (RFC 8555).

use std::path::PathBuf;
use std::time::Duration;

use crate::kinds::STRINGS;
use crate::table::{Text, ValueKind};
use crate::{Typed as _, Unread, options, words};

options! {
    /// An account with an authority that certificates come from by ACME. Naming the authority agrees to its terms of service
    pub struct AcmeOptions: ACME = "acme" {
        /// URL of the authority's directory
        directory: String [kind(ValueKind::String(Text::NotEmpty)), default("\"https://acme-v02.api.letsencrypt.org/directory\""), beyond()],
        /// Mail addresses that the authority may write to
        contact: Vec<String> [kind(STRINGS), beyond()],
        /// The binding to an account elsewhere, where the authority asks for one
        eab: Unread [kind(EabOptions::KIND), beyond()],
        /// The kind of certificate, where the authority has several: `shortlived`
        profile: Option<String> [kind(ValueKind::String(Text::NotEmpty)), beyond()],
        /// How to show that the names are ours
        challenge: ChallengeWord [default("\"http-01\""), beyond()],
        /// Program that puts and removes the DNS records of `dns-01`: called with `present` or `cleanup`, the name of the record and its
        /// value, as the server's unprivileged user. It has to end well once the record is there, within five minutes
        hook: Option<PathBuf> [kind(ValueKind::String(Text::Path)), beyond()],
        /// Name server that takes the records of `dns-01` as signed updates (RFC 2136), in the place of a `hook`
        rfc2136: Unread [kind(NameserverOptions::KIND), beyond()],
        /// Certificates for names that the configuration does not have: got when a client asks for one, for listeners whose `certificate`
        /// says `"on_demand": true`
        on_demand: Unread [kind(OnDemandOptions::KIND), beyond()],
        /// PEM file with the certificates that vouch for the directory, instead of those of the system; read as the server's unprivileged user
        roots: Option<PathBuf> [kind(ValueKind::String(Text::Path)), beyond()],
    }
}

options! {
    /// External account binding (RFC 8555 §7.3.4)
    pub struct EabOptions: EAB = "eab" {
        /// The name of the key
        kid: String [required(), kind(ValueKind::String(Text::NotEmpty)), beyond()],
        /// The key, in Base64 for URLs
        hmac_key: String [required(), kind(ValueKind::String(Text::NotEmpty)), beyond()],
    }
}

options! {
    /// Certificates that are got when a client asks for one
    pub struct OnDemandOptions: ON_DEMAND = "on_demand" {
        /// URL that says which names may have one: it is asked by `GET` with `name` and, where it is known, `client` in the query, and
        /// 200 is yes; anything else, a redirect too, is no. It has ten seconds
        ask: String [required(), kind(ValueKind::String(Text::NotEmpty)), beyond()],
        /// How long a handshake waits for its certificate
        timeout: Duration [kind(ValueKind::Integer(1, 120)), default("20"), unit("seconds"), beyond()],
        /// Names that are ordered for the first time, in an hour
        hourly: u32 [kind(ValueKind::Integer(1, 10_000)), default("60"), unit("orders"), beyond()],
        /// The same of one registered domain (of the public suffix list)
        hourly_per_domain: u32 [kind(ValueKind::Integer(1, 10_000)), default("10"), unit("orders"), beyond()],
        /// The same for one client: an IPv4 address, or an IPv6 network of 64 bits
        hourly_per_client: u32 [kind(ValueKind::Integer(1, 10_000)), default("10"), unit("orders"), beyond()],
        /// Most names at the same time
        most: usize [kind(ValueKind::Integer(1, 5000)), default("1000"), unit("names"), beyond()],
        /// A certificate that nobody has asked for in this time is let go, and not renewed
        unused: u32 [kind(ValueKind::Integer(1, 3650)), default("30"), unit("days"), beyond()],
    }
}

options! {
    /// A name server that takes updates (RFC 2136), signed with a key (TSIG, RFC 8945)
    pub struct NameserverOptions: NAMESERVER = "rfc2136" {
        /// Address of the primary name server: `192.0.2.53`, or with a port
        server: String [required(), kind(ValueKind::String(Text::NameServer)), beyond()],
        /// The zone that has the records; without it, the server is asked
        zone: Option<String> [kind(ValueKind::String(Text::HostName)), beyond()],
        /// The name of the key
        key: String [required(), kind(ValueKind::String(Text::NotEmpty)), beyond()],
        /// The algorithm of the key
        algorithm: TsigAlgorithm [default("\"hmac-sha256\""), beyond()],
        /// File with the secret of the key in Base64, or with a `key` of BIND; read as the server's unprivileged user
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
    /// How an authority looks whether names are ours.
    pub enum ChallengeWord {
        /// By a request to port 80.
        Http = "http-01",
        /// By a handshake with port 443.
        TlsAlpn = "tls-alpn-01",
        /// By a record in the DNS.
        Dns = "dns-01",
    }
}
