//! Options of automatic certificates (RFC 8555).

use std::path::PathBuf;

use tutti_options::table::{Kind, Text};
use tutti_options::{Typed as _, Unread, options, words};

use super::kinds::STRINGS;

options! {
    /// An account with an authority that certificates come from by ACME. Naming the authority agrees to its terms of service
    pub struct AcmeOptions: ACME = "acme" {
        /// URL of the authority's directory
        directory: String [kind(Kind::String(Text::NotEmpty)), default("\"https://acme-v02.api.letsencrypt.org/directory\""), beyond()],
        /// Mail addresses that the authority may write to
        contact: Vec<String> [kind(STRINGS), beyond()],
        /// The binding to an account elsewhere, where the authority asks for one
        eab: Unread [kind(EabOptions::KIND), beyond()],
        /// The kind of certificate, where the authority has several: `shortlived`
        profile: Option<String> [kind(Kind::String(Text::NotEmpty)), beyond()],
        /// How to show that the names are ours
        challenge: ChallengeWord [default("\"http-01\""), beyond()],
        /// Program that puts and removes the DNS records of `dns-01`: called with `present` or `cleanup`, the name of the record and its
        /// value, as the server's unprivileged user. It has to end well once the record is there, within five minutes
        hook: Option<PathBuf> [kind(Kind::String(Text::Path)), beyond()],
        /// PEM file with the certificates that vouch for the directory, instead of those of the system; read as the server's unprivileged user
        roots: Option<PathBuf> [kind(Kind::String(Text::Path)), beyond()],
    }
}

options! {
    /// External account binding (RFC 8555 §7.3.4)
    pub struct EabOptions: EAB = "eab" {
        /// The name of the key
        kid: String [required(), kind(Kind::String(Text::NotEmpty)), beyond()],
        /// The key, in Base64 for URLs
        hmac_key: String [required(), kind(Kind::String(Text::NotEmpty)), beyond()],
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
