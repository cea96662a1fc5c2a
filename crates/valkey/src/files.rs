//! The content of the files that a store needs: asked for with each connection, so that new passwords and certificates count.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tutti_config::model::LimitStore;

use crate::surroundings::Surroundings;

/// Longest password.
const LONGEST_PASSWORD: usize = 4096;

/// The password, if there is one.
pub(crate) async fn password(
    model: &LimitStore,
    around: &dyn Surroundings,
) -> Result<Option<String>, String> {
    let Some(file) = &model.valkey.password_file else {
        return Ok(None);
    };
    let named = |what: &str| format!("the password in `{}` {what}", file.display());
    let bytes = around.read(file).await?;
    if bytes.len() > LONGEST_PASSWORD {
        return Err(named("is too long"));
    }
    let text = String::from_utf8(bytes).map_err(|_| named("is no text"))?;
    let password = text.trim_end_matches(['\n', '\r']);
    match password.is_empty() || password.contains(char::is_control) {
        true => Err(named("is not one line")),
        false => Ok(Some(password.to_owned())),
    }
}

/// The terms of TLS.
pub(crate) async fn tls(
    model: &LimitStore,
    around: &dyn Surroundings,
) -> Result<Arc<ClientConfig>, String> {
    let tls = &model.tls;
    let trusted = trusted(tls.ca.as_deref(), around).await?;
    let builder = ClientConfig::builder_with_provider(tutti_tls::provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS: {error}"))?
        .with_root_certificates(trusted);
    let Some((chain, key)) = tls.certificate.as_deref().zip(tls.key.as_deref()) else {
        return Ok(Arc::new(builder.with_no_client_auth()));
    };
    let named = |file: &Path, why: &dyn std::fmt::Display| format!("`{}`: {why}", file.display());
    let pem = around.read(chain).await?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let certificates = certificates.map_err(|error| named(chain, &error))?;
    let pem = around.read(key).await?;
    let secret = PrivateKeyDer::from_pem_slice(&pem).map_err(|error| named(key, &error))?;
    let config = builder.with_client_auth_cert(certificates, secret);
    config.map(Arc::new).map_err(|error| named(chain, &error))
}

async fn trusted(ca: Option<&Path>, around: &dyn Surroundings) -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    let Some(file) = ca else {
        let found = rustls_native_certs::load_native_certs();
        store.add_parsable_certificates(found.certs);
        return match store.is_empty() {
            true => Err(
                "there is no certificate that vouches for it; hint: name a file in `ca`".to_owned(),
            ),
            false => Ok(store),
        };
    };
    let named = |why: &dyn std::fmt::Display| format!("`{}`: {why}", file.display());
    let pem = around.read(file).await?;
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| named(&error))?;
        store.add(certificate).map_err(|error| named(&error))?;
    }
    match store.is_empty() {
        true => Err(named(&"has no certificate")),
        false => Ok(store),
    }
}
