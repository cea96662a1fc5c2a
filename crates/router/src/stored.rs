//! Certificate bundles and script modules that come and go, in turn with changes of the configuration.
//!
//! An `impl` block of the service's [`Inner`]. The controller has checked what is kept; here it becomes part of what is served, where
//! the configuration names it. Connections go on with what they began with.

use std::sync::Arc;
use std::time::SystemTime;

use tutti_config::{Config, Diagnostic, Diagnostics, Pointer};
use tutti_protocol::Store;
use tutti_role::certificates::{self, Certificates};
use tutti_role::js_modules;
use tutti_script::Modules;
use tutti_tls::Bundle;

use super::service::{Inner, ReadyChange};

/// What is stored as it will be, ready to be served.
pub(super) struct Renewed {
    certificates: Certificates,
    js_modules: Modules,
    /// Where what has changed is served.
    served: Option<(Config, tutti_server::Prepared)>,
}

impl Inner {
    /// Makes something kept ready to be served.
    pub(super) fn prepare_keeping(
        &self,
        store: Store,
        name: &str,
        text: &str,
    ) -> Result<ReadyChange, Diagnostics> {
        let invalid =
            |message: String| Diagnostics::one(Diagnostic::apply(Pointer::default(), message));
        let mut config = Config::clone(&self.config.load());
        let mut renewed = self.as_stored();
        let is_named = match store {
            Store::Certificates => {
                let bundle = Bundle::parse(text.as_bytes(), SystemTime::now())
                    .map_err(|error| invalid(error.to_string()))?;
                renewed.certificates = renewed.certificates.with(name, Arc::new(bundle));
                !certificates::places(&config, name).is_empty()
            }
            Store::JsModules => {
                let module = js_modules::parse(name, text.as_bytes())
                    .map_err(|fault| Diagnostics::one(*fault))?;
                let is_named = config.settings.modules.get(name).is_some();
                if is_named {
                    config.settings.modules = config.settings.modules.with(module.clone());
                }
                renewed.js_modules = renewed.js_modules.with(module);
                is_named
            }
        };
        if is_named {
            let server = self.prepare_running(&config, &renewed.certificates)?;
            renewed.served = Some((config, server));
        }
        Ok(ReadyChange::Stored(Box::new(renewed)))
    }

    /// Makes ready that something is kept no longer, which nothing names.
    pub(super) fn prepare_discarding(&self, store: Store, name: &str) -> ReadyChange {
        let mut renewed = self.as_stored();
        match store {
            Store::Certificates => renewed.certificates = renewed.certificates.without(name),
            Store::JsModules => renewed.js_modules = renewed.js_modules.without(name),
        }
        ReadyChange::Stored(Box::new(renewed))
    }

    fn as_stored(&self) -> Renewed {
        Renewed {
            certificates: Certificates::clone(&self.certificates.load()),
            js_modules: Modules::clone(&self.js_modules.load()),
            served: None,
        }
    }

    pub(super) fn commit_stored(&self, renewed: Renewed) {
        self.certificates.store(Arc::new(renewed.certificates));
        self.js_modules.store(Arc::new(renewed.js_modules));
        if let Some((config, server)) = renewed.served {
            self.config.store(Arc::new(config));
            tokio::spawn(self.server.commit(server).end());
        }
    }
}
