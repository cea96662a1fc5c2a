//! The order of a chain: the certificate of the key first, each followed by that of its issuer.

use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::describe;
use crate::error::BundleError;

/// A certificate in a file: its position there, from 1, and its name.
pub(crate) fn parse<'a>(
    number: usize,
    der: &'a CertificateDer<'static>,
) -> Result<X509Certificate<'a>, BundleError> {
    match X509Certificate::from_der(der) {
        Ok(([], certificate)) => Ok(certificate),
        _ => Err(BundleError::Certificate(number)),
    }
}

/// True if `issuer` may have issued `issued`, by names and key identifiers.
fn has_issued(issuer: &X509Certificate<'_>, issued: &X509Certificate<'_>) -> bool {
    if issuer.subject().as_raw() != issued.issuer().as_raw() {
        return false;
    }
    match (
        describe::authority_key(issued),
        describe::subject_key(issuer),
    ) {
        (Some(wanted), Some(found)) => wanted == found,
        _ => true,
    }
}

/// Sorts a chain. `leaf` is the index of the certificate that belongs to the key.
pub(crate) fn order(
    ders: Vec<CertificateDer<'static>>,
    leaf: usize,
) -> Result<Vec<CertificateDer<'static>>, BundleError> {
    let indices = {
        let parsed: Vec<X509Certificate<'_>> = ders
            .iter()
            .enumerate()
            .map(|(index, der)| parse(index + 1, der))
            .collect::<Result<_, _>>()?;
        let mut indices = vec![leaf];
        let mut left: Vec<usize> = (0..parsed.len()).filter(|index| *index != leaf).collect();
        while let Some(last) = indices.last().and_then(|last| parsed.get(*last)) {
            let next = left.iter().position(|index| {
                parsed
                    .get(*index)
                    .is_some_and(|next| has_issued(next, last))
            });
            let Some(next) = next else { break };
            indices.push(left.remove(next));
        }
        if let Some(stranger) = left.first() {
            let name = parsed
                .get(*stranger)
                .map(|certificate| certificate.subject().to_string());
            let last = indices.last().and_then(|last| parsed.get(*last));
            let wanted = last.map(|last| last.issuer().to_string());
            return Err(BundleError::Stranger {
                number: stranger + 1,
                subject: name.unwrap_or_default(),
                wanted: wanted.unwrap_or_default(),
            });
        }
        indices
    };
    let mut ders: Vec<Option<CertificateDer<'static>>> = ders.into_iter().map(Some).collect();
    let in_order = indices
        .into_iter()
        .filter_map(|index| ders.get_mut(index).and_then(Option::take));
    Ok(in_order.collect())
}
