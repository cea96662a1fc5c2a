//! Certificate bundles and script modules that come and go, in turn with changes of the configuration.
//!
//! An `impl` block of the service's [`Inner`]. What must never happen: one of them in force that is not stored, or the
//! other way round.

use std::sync::Arc;
use std::time::SystemTime;

use tutti_config::{Config, Diagnostic, Diagnostics, Pointer};
use tutti_control::StoreError;
use tutti_tls::Bundle;

use super::service::{Inner, fault};
use super::{certificates, js_modules};
use crate::protocol::{Store, ToMain};

impl Inner {
    /// Stores a bundle and puts it in force where the configuration names it: prepare, store, commit, as for any change. Connections
    /// go on with what they began with.
    pub(super) async fn store_certificate(
        &self,
        name: String,
        pem: Vec<u8>,
    ) -> Result<Vec<String>, StoreError> {
        let bundle = Bundle::parse(&pem, SystemTime::now()).map_err(|error| {
            let fault = Diagnostic::new(Pointer::default(), error.to_string());
            StoreError::Invalid(Box::new(fault))
        })?;
        let bundle = Arc::new(bundle);
        let _alone = self.changing.lock().await;
        self.must_not_be_frozen().map_err(StoreError::Failed)?;
        let config = self.config.load_full();
        let certificates = self.certificates.load().with(&name, Arc::clone(&bundle));
        let prepared = if certificates::places(&config, &name).is_empty() {
            None
        } else {
            let prepared = self.prepare_running(&config, &certificates);
            Some(prepared.map_err(StoreError::Failed)?)
        };
        let pem = String::from_utf8_lossy(&pem).into_owned();
        self.have_kept(Store::Certificates, &name, &pem).await?;
        certificates::warn(&name, &bundle, &self.log);
        self.certificates.store(Arc::new(certificates));
        if let Some(prepared) = prepared {
            tokio::spawn(self.server.commit(prepared).end());
        }
        Ok(bundle.warnings().to_vec())
    }

    /// Stores a script module and puts it in force where the configuration names it, if all that is in force can be loaded with it.
    pub(super) async fn store_module(
        &self,
        name: String,
        bytes: Vec<u8>,
    ) -> Result<Vec<String>, StoreError> {
        let module = js_modules::parse(&name, &bytes).map_err(StoreError::Invalid)?;
        let _alone = self.changing.lock().await;
        self.must_not_be_frozen().map_err(StoreError::Failed)?;
        let before = self.js_modules.load();
        let invalid = |fault| StoreError::Invalid(js_modules::fault(&fault, &module));
        tutti_script::check_module(&module, &before).map_err(invalid)?;
        let config = self.config.load_full();
        let modules = &config.settings.modules;
        let renewed = if modules.get(&name).is_some() {
            let mut renewed = Config::clone(&config);
            renewed.settings.modules = modules.with(module.clone());
            tutti_script::check_modules(&renewed.settings.modules).map_err(invalid)?;
            let prepared = self.prepare_running(&renewed, &self.certificates.load());
            Some((renewed, prepared.map_err(StoreError::Failed)?))
        } else {
            None
        };
        self.have_kept(Store::JsModules, &name, &module.source)
            .await?;
        self.js_modules.store(Arc::new(before.with(module)));
        if let Some((config, prepared)) = renewed {
            self.config.store(Arc::new(config));
            tokio::spawn(self.server.commit(prepared).end());
        }
        Ok(Vec::new())
    }

    pub(super) async fn discard(&self, store: Store, name: String) -> Result<(), StoreError> {
        let _alone = self.changing.lock().await;
        self.must_not_be_frozen().map_err(StoreError::Failed)?;
        let config = self.config.load();
        let (is_there, places) = match store {
            Store::Certificates => (
                self.certificates.load().get(&name).is_some(),
                certificates::places(&config, &name),
            ),
            Store::JsModules => (
                self.js_modules.load().get(&name).is_some(),
                js_modules::places(&config, &name),
            ),
        };
        if !is_there {
            return Err(StoreError::Unknown);
        }
        if !places.is_empty() {
            return Err(StoreError::Used(places));
        }
        let discard = |id| ToMain::Discard {
            id,
            store,
            name: name.clone(),
        };
        self.have_done(&discard, "deleted").await?;
        match store {
            Store::Certificates => {
                let left = self.certificates.load().without(&name);
                self.certificates.store(Arc::new(left));
            }
            Store::JsModules => {
                let left = self.js_modules.load().without(&name);
                self.js_modules.store(Arc::new(left));
            }
        }
        Ok(())
    }

    async fn have_kept(&self, store: Store, name: &str, text: &str) -> Result<(), StoreError> {
        let keep = |id| ToMain::Keep {
            id,
            store,
            name: name.to_owned(),
            text: text.to_owned(),
        };
        self.have_done(&keep, "stored").await
    }

    async fn have_done(
        &self,
        make: &(dyn Fn(u64) -> ToMain + Sync),
        what: &str,
    ) -> Result<(), StoreError> {
        let done = self.link.request(make, Vec::new()).await;
        done.map(drop).map_err(|refused| {
            let message = format!("it cannot be {what}: {}", refused.message);
            let fault = fault(Pointer::default(), message, refused.hint);
            StoreError::Failed(Diagnostics::one(fault))
        })
    }
}
