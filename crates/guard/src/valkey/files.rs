//! The content of the files that a store needs: read for each connection, so that new passwords and certificates are used.

use std::sync::Arc;

use rustls::ClientConfig;
use tutti_config::model::LimitStore;
use tutti_dialer::{authorities, client_config, system_authorities};

use super::environment::StoreEnvironment;

const LONGEST_PASSWORD: usize = 4096;

/// The password, if there is one.
pub(crate) async fn password(
    model: &LimitStore,
    around: &dyn StoreEnvironment,
) -> Result<Option<String>, String> {
    let Some(file) = &model.valkey.password_file else {
        return Ok(None);
    };
    let named = |what: &str| format!("the password in `{}` {what}", file.display());
    let bytes = around.read(file).await?;
    if bytes.len() > LONGEST_PASSWORD {
        return Err(named("is too long"));
    }
    let text = String::from_utf8(bytes).map_err(|_| named("is not text"))?;
    let password = text.trim_end_matches(['\n', '\r']);
    match password.is_empty() || password.contains(char::is_control) {
        true => Err(named("is not one line")),
        false => Ok(Some(password.to_owned())),
    }
}

/// The parameters of TLS.
pub(crate) async fn tls(
    model: &LimitStore,
    around: &dyn StoreEnvironment,
) -> Result<Arc<ClientConfig>, String> {
    let tls = &model.tls;
    let roots = match &tls.ca {
        None => system_authorities().map_err(|why| format!("{why}, or name a file in `ca`"))?,
        Some(file) => {
            let pem = around.read(file).await?;
            authorities(&pem).map_err(|error| format!("`{}`: {error}", file.display()))?
        }
    };
    let Some((chain, key)) = tls.certificate.as_deref().zip(tls.key.as_deref()) else {
        return client_config(roots, None).map(Arc::new);
    };
    let (chain, key) = (around.read(chain).await?, around.read(key).await?);
    client_config(roots, Some((&chain, &key))).map(Arc::new)
}
