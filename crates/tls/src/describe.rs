//! Descriptions of certificates for the control API: keys, names and validity as documented for NGINX Unit.

use serde_json::{Map, Value, json};
use x509_parser::prelude::{
    AttributeTypeAndValue, GeneralName, ParsedExtension, X509Certificate, X509Name,
};
use x509_parser::public_key::PublicKey;
use x509_parser::time::ASN1Time;

/// The kind of a certificate's key: `RSA (2048 bits)`.
pub(crate) fn key(certificate: &X509Certificate<'_>) -> String {
    /// RFC 8410 §3.
    const ED25519: &str = "1.3.101.112";
    if certificate.public_key().algorithm.algorithm.to_id_string() == ED25519 {
        return "Ed25519 (256 bits)".to_owned();
    }
    match certificate.public_key().parsed() {
        Ok(PublicKey::RSA(key)) => format!("RSA ({} bits)", key.key_size()),
        // NGINX Unit's term for keys of elliptic curves.
        Ok(PublicKey::EC(_)) => "ECDH".to_owned(),
        _ => "unknown".to_owned(),
    }
}

/// One certificate of a chain.
pub(crate) fn certificate(certificate: &X509Certificate<'_>) -> Value {
    let validity = certificate.validity();
    json!({
        "subject": name(certificate.subject(), &alt_names(certificate)),
        "issuer": name(certificate.issuer(), &[]),
        "validity": {
            "since": time(&validity.not_before),
            "until": time(&validity.not_after),
        },
    })
}

fn name(name: &X509Name<'_>, alt_names: &[String]) -> Value {
    let text = |part: Option<&AttributeTypeAndValue<'_>>| {
        part.and_then(|part| part.as_str().ok()).map(Value::from)
    };
    let alt_names = (!alt_names.is_empty()).then(|| json!(alt_names));
    let members = [
        ("common_name", common_name(name).map(Value::from)),
        ("alt_names", alt_names),
        ("country", text(name.iter_country().next())),
        (
            "state_or_province",
            text(name.iter_state_or_province().next()),
        ),
        ("organization", text(name.iter_organization().next())),
    ];
    let present = members
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value?)));
    Value::Object(present.collect::<Map<_, _>>())
}

/// The first common name that is text.
pub(crate) fn common_name<'a>(name: &'a X509Name<'_>) -> Option<&'a str> {
    name.iter_common_name().find_map(|part| part.as_str().ok())
}

/// Alternative names: DNS names and addresses.
fn alt_names(certificate: &X509Certificate<'_>) -> Vec<String> {
    general_names(certificate, |name| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => address(bytes),
        _ => None,
    })
}

/// DNS names among the alternative names.
pub(crate) fn dns_names(certificate: &X509Certificate<'_>) -> Vec<String> {
    general_names(certificate, |name| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        _ => None,
    })
}

fn general_names(
    certificate: &X509Certificate<'_>,
    take: impl Fn(&GeneralName<'_>) -> Option<String>,
) -> Vec<String> {
    match certificate.subject_alternative_name() {
        Ok(Some(extension)) => extension
            .value
            .general_names
            .iter()
            .filter_map(take)
            .collect(),
        _ => Vec::new(),
    }
}

fn address(bytes: &[u8]) -> Option<String> {
    if let Ok(bytes) = <[u8; 4]>::try_from(bytes) {
        return Some(std::net::Ipv4Addr::from(bytes).to_string());
    }
    let bytes = <[u8; 16]>::try_from(bytes).ok()?;
    Some(std::net::Ipv6Addr::from(bytes).to_string())
}

/// `Sep 18 19:46:19 2022 GMT`
pub(crate) fn time(time: &ASN1Time) -> String {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let time = time.to_datetime();
    let month = MONTHS
        .get(usize::from(u8::from(time.month())).saturating_sub(1))
        .copied()
        .unwrap_or("Jan");
    format!(
        "{month} {:2} {:02}:{:02}:{:02} {} GMT",
        time.day(),
        time.hour(),
        time.minute(),
        time.second(),
        time.year()
    )
}

/// True if it may issue certificates.
pub(crate) fn is_authority(certificate: &X509Certificate<'_>) -> bool {
    matches!(certificate.basic_constraints(), Ok(Some(constraints)) if constraints.value.ca)
}

pub(crate) fn subject_key<'a>(certificate: &'a X509Certificate<'_>) -> Option<&'a [u8]> {
    certificate
        .extensions()
        .iter()
        .find_map(|extension| match extension.parsed_extension() {
            ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0),
            _ => None,
        })
}

pub(crate) fn authority_key<'a>(certificate: &'a X509Certificate<'_>) -> Option<&'a [u8]> {
    certificate
        .extensions()
        .iter()
        .find_map(|extension| match extension.parsed_extension() {
            ParsedExtension::AuthorityKeyIdentifier(id) => {
                id.key_identifier.as_ref().map(|id| id.0)
            }
            _ => None,
        })
}
