//! PEM as users upload it: certificates and a key in any order, with text between, or another format altogether.

use rustls::pki_types::pem::{Error, SectionKind, from_buf};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::error::BundleError;

/// The contents of a file.
#[derive(Debug)]
pub(crate) struct Contents {
    /// In the order of the file, without duplicates.
    pub(crate) certificates: Vec<CertificateDer<'static>>,
    pub(crate) key: Option<PrivateKeyDer<'static>>,
}

/// Reads a whole file.
pub(crate) fn read(file: &[u8]) -> Result<Contents, BundleError> {
    refuse_what_cannot_be_read(file)?;
    let mut contents = Contents {
        certificates: Vec::new(),
        key: None,
    };
    let mut rest = file;
    while let Some((kind, der)) = from_buf(&mut rest).map_err(broken)? {
        let key = match kind {
            SectionKind::Certificate => {
                let certificate = CertificateDer::from(der);
                if !contents.certificates.contains(&certificate) {
                    contents.certificates.push(certificate);
                }
                continue;
            }
            SectionKind::PrivateKey => PrivateKeyDer::Pkcs8(der.into()),
            SectionKind::RsaPrivateKey => PrivateKeyDer::Pkcs1(der.into()),
            SectionKind::EcPrivateKey => PrivateKeyDer::Sec1(der.into()),
            SectionKind::Csr => {
                return Err(BundleError::Request);
            }
            // Parameters, public keys, revocation lists: not needed.
            _ => continue,
        };
        if contents.key.replace(key).is_some() {
            return Err(BundleError::SeveralKeys);
        }
    }
    Ok(contents)
}

/// Rejects content that the parser would ignore, or report in unhelpful words.
fn refuse_what_cannot_be_read(file: &[u8]) -> Result<(), BundleError> {
    let has = |needle: &[u8]| file.windows(needle.len()).any(|window| window == needle);
    if !has(b"-----BEGIN ") {
        // DER begins with the tag of a SEQUENCE and a length of two bytes.
        return Err(if file.starts_with(&[0x30, 0x82]) {
            BundleError::Der
        } else {
            BundleError::NotPem
        });
    }
    if has(b"-----BEGIN ENCRYPTED PRIVATE KEY") || has(b"Proc-Type: 4,ENCRYPTED") {
        return Err(BundleError::EncryptedKey);
    }
    if has(b"-----BEGIN TRUSTED CERTIFICATE") {
        return Err(BundleError::Trusted);
    }
    Ok(())
}

fn broken(error: Error) -> BundleError {
    BundleError::Broken(match error {
        Error::MissingSectionEnd { end_marker } => {
            format!("`{}` is missing", String::from_utf8_lossy(&end_marker))
        }
        Error::IllegalSectionStart { line } => format!(
            "the line `{}` is malformed",
            String::from_utf8_lossy(line.trim_ascii())
        ),
        Error::Base64Decode(_) => "what is between BEGIN and END is not Base64".to_owned(),
        other => other.to_string(),
    })
}
