//! Storing and deleting certificate bundles and script modules, one at a time with changes of the configuration.
//!
//! An `impl` block of the service's [`Inner`]. Must never happen: that one of them is in force but not stored, or the
//! other way round.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tutti_config::{Config, Diagnostic, Pointer};
use tutti_control::StoreError;
use tutti_log::Level;
use tutti_protocol::{Cause, Change, StoreKind};
use tutti_script::Modules;
use tutti_tls::{Bundle, ReplacementError};
use tutti_unprivileged::certificates::{self, Certificates};
use tutti_unprivileged::{js_modules, partial};

use super::service::Inner;

impl Inner {
    /// Stores a bundle, and puts it in force if the configuration refers to it. Open connections keep the former one.
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
        let text = String::from_utf8_lossy(&pem).into_owned();
        self.keep_bundle(name, text, Arc::clone(&bundle)).await?;
        Ok(bundle.warnings().to_vec())
    }

    /// Checks that a bundle that was not put by a person may replace the stored one of this name; logs it if it is an older one.
    pub(super) fn check_replacement(
        &self,
        name: &str,
        bundle: &Bundle,
    ) -> Result<(), ReplacementError> {
        let Some(known) = self.certificates.load().get(name) else {
            return Ok(());
        };
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = now.map_or(0, |now| i64::try_from(now.as_secs()).unwrap_or(i64::MAX));
        bundle.validity().replace(known.validity(), now)?;
        if bundle.validity().since < known.validity().since {
            let text = format!(
                "the certificate `{name}` is replaced by an older one; hint: if you did not do this on purpose, check who can write where it comes from"
            );
            self.log.line(Level::Warn, &text);
        }
        Ok(())
    }

    /// Stores a bundle that has been checked. The caller must hold `changing`.
    pub(super) async fn keep_bundle(
        &self,
        name: String,
        text: String,
        bundle: Arc<Bundle>,
    ) -> Result<(), StoreError> {
        let certificates = self.certificates.load().with(&name, Arc::clone(&bundle));
        let change = Change::Keep {
            store: StoreKind::Certificates,
            name: name.clone(),
            text,
        };
        self.change_stored(change, &certificates, &self.js_modules.load())
            .await?;
        certificates::warn(&name, &bundle, &self.log);
        self.certificates.store(Arc::new(certificates));
        self.note_what_is_sound();
        self.dashboard.due.notify_one();
        Ok(())
    }

    /// Stores a script module, and puts it in force if the configuration refers to it, provided everything in force can
    /// be loaded with it.
    pub(super) async fn store_module(
        &self,
        name: String,
        bytes: Vec<u8>,
    ) -> Result<Vec<String>, StoreError> {
        let module = js_modules::parse(&name, &bytes).map_err(StoreError::Invalid)?;
        let _alone = self.changing.lock().await;
        let before = self.js_modules.load_full();
        let invalid = |fault| StoreError::Invalid(js_modules::fault(&fault, &module));
        tutti_script::check_module(&module, &before).map_err(invalid)?;
        let mut config = Config::clone(&self.config.load());
        if config.settings.modules.get(&name).is_some() {
            config.settings.modules = config.settings.modules.with(module.clone());
            tutti_script::check_modules(&config.settings.modules).map_err(invalid)?;
        }
        let change = Change::Keep {
            store: StoreKind::JsModules,
            name,
            text: module.source.to_string(),
        };
        let modules = before.with(module);
        self.change_stored(change, &self.certificates.load(), &modules)
            .await?;
        self.js_modules.store(Arc::new(modules));
        self.note_what_is_sound();
        Ok(Vec::new())
    }

    /// A stored configuration may have had a part that could not be served without this object.
    fn note_what_is_sound(&self) {
        let config = partial::sound(&self.document.load(), &self.context()).unwrap_or_default();
        self.config.store(Arc::new(config));
    }

    pub(super) async fn discard(&self, store: StoreKind, name: String) -> Result<(), StoreError> {
        let _alone = self.changing.lock().await;
        let config = self.config.load_full();
        let (mut certificates, mut modules) = (
            Certificates::clone(&self.certificates.load()),
            Modules::clone(&self.js_modules.load()),
        );
        let (is_there, places) = match store {
            StoreKind::Certificates => (
                certificates.get(&name).is_some(),
                certificates::places(&config, &name),
            ),
            StoreKind::JsModules => (
                modules.get(&name).is_some(),
                js_modules::places(&config, &name),
            ),
        };
        if !is_there {
            return Err(StoreError::Unknown);
        }
        if !places.is_empty() {
            return Err(StoreError::Used(places));
        }
        match store {
            StoreKind::Certificates => certificates = certificates.without(&name),
            StoreKind::JsModules => modules = modules.without(&name),
        }
        let is_on_demand = certificates::is_on_demand(&config, &name);
        let change = Change::Discard { store, name };
        self.change_stored(change, &certificates, &modules).await?;
        self.certificates.store(Arc::new(certificates));
        self.js_modules.store(Arc::new(modules));
        if is_on_demand {
            // The next client that asks for it triggers a new order.
            self.plan_certificates();
        }
        Ok(())
    }

    /// Makes main replace the stored objects with these. The caller must hold `changing`.
    pub(super) async fn change_stored(
        &self,
        change: Change,
        certificates: &Certificates,
        modules: &Modules,
    ) -> Result<(), StoreError> {
        self.must_take_changes().map_err(StoreError::Failed)?;
        let grants = self.grants_with(certificates, modules);
        // No application is started for this.
        self.have_changed(change, grants, Cause::default(), Duration::ZERO)
            .await
            .map(drop)
            .map_err(StoreError::Failed)
    }
}
