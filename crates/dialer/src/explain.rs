//! Describes a TLS failure of a server for the log: the cause, and the remedy.

use std::time::{Duration, UNIX_EPOCH};

use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, Error};

/// Describes the failure, with the server as the subject.
pub(crate) fn explain(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(fault) => certificate(fault),
        Error::InvalidMessage(_) => {
            "what it sends is not TLS; perhaps it speaks plain HTTP on this port".to_owned()
        }
        Error::AlertReceived(alert) => refusal(*alert),
        Error::PeerIncompatible(why) => {
            format!("it offers no TLS version that is allowed here: {why:?}")
        }
        Error::NoApplicationProtocol => refusal(AlertDescription::NoApplicationProtocol),
        other => other.to_string(),
    }
}

fn certificate(fault: &CertificateError) -> String {
    match fault {
        CertificateError::Expired => "its certificate has expired".to_owned(),
        CertificateError::ExpiredContext { not_after, .. } => {
            format!("its certificate has expired: {}", time(*not_after))
        }
        CertificateError::NotValidYet => "its certificate is not valid yet".to_owned(),
        CertificateError::NotValidYetContext { not_before, .. } => {
            format!("its certificate is not valid before {}", time(*not_before))
        }
        CertificateError::UnknownIssuer => {
            "its certificate is not signed by a trusted authority; hint: name the authority in `ca`"
                .to_owned()
        }
        CertificateError::NotValidForName => {
            "its certificate is for another name; hint: set it with `server_name`".to_owned()
        }
        CertificateError::NotValidForNameContext {
            expected,
            presented,
        } => {
            let presented: Vec<String> = presented.iter().take(5).map(|one| name(one)).collect();
            let presented = if presented.is_empty() {
                "no name at all".to_owned()
            } else {
                presented.join(", ")
            };
            format!(
                "its certificate is not for `{}` but for {presented}; hint: set it with `server_name`",
                expected.to_str()
            )
        }
        CertificateError::Revoked => "its certificate has been revoked".to_owned(),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "its certificate is not meant for servers".to_owned()
        }
        CertificateError::BadSignature => "the signature of its certificate is wrong; hint: `ca` may name another authority of the same name".to_owned(),
        // webpki's `CaUsedAsEndEntity` has no variant here.
        CertificateError::Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            "its certificate is a CA certificate (CA:TRUE), which servers must not use".to_owned()
        }
        other => format!("its certificate is not valid: {other}"),
    }
}

/// Names have the form `DnsName("a.example")` or `IpAddress(10.0.0.1)`.
fn name(presented: &str) -> String {
    let inner = presented
        .split_once('(')
        .and_then(|(_, rest)| rest.strip_suffix(')'));
    format!("`{}`", inner.unwrap_or(presented).trim_matches('"'))
}

fn refusal(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::CertificateRequired => {
            "it wants a certificate of us; hint: name a bundle in `certificate`".to_owned()
        }
        AlertDescription::UnknownCA
        | AlertDescription::BadCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateRevoked
        | AlertDescription::AccessDenied => {
            format!("it does not accept our certificate ({alert:?})")
        }
        AlertDescription::UnrecognisedName => {
            "it does not know the requested server name; hint: set `server_name`"
                .to_owned()
        }
        AlertDescription::NoApplicationProtocol => {
            "it does not support the requested version of HTTP over TLS; hint: `http_version`"
                .to_owned()
        }
        AlertDescription::ProtocolVersion => "it refuses the versions of TLS offered".to_owned(),
        AlertDescription::HandshakeFailure => {
            "it refuses what was offered (HandshakeFailure): ciphers, or a certificate that is missing"
                .to_owned()
        }
        other => format!("it broke off with the alert {other:?}"),
    }
}

/// The first second after the year 9999, where dates end (RFC 5280 §4.1.2.5).
const END_OF_DATES: u64 = 253_402_300_800;

fn time(time: UnixTime) -> String {
    let time = Duration::from_secs(time.as_secs().min(END_OF_DATES - 1));
    httpdate::fmt_http_date(UNIX_EPOCH + time)
}
