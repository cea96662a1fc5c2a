//! Certificate bundles and script modules that are stored and deleted, serialised with changes of the configuration.
//!
//! Called by the service. The controller has checked what is stored; here it is put in force, if the configuration names it. Connections
//! continue with what they began with.

use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use tutti_config::{Config, Diagnostic, Diagnostics, Pointer};
use tutti_protocol::StoreKind;
use tutti_script::Modules;
use tutti_tls::Bundle;
use tutti_unprivileged::certificates::{self, Certificates};
use tutti_unprivileged::js_modules;

/// The currently stored objects.
pub(super) struct Stored {
    certificates: ArcSwap<Certificates>,
    js_modules: ArcSwap<Modules>,
}

/// The objects after a change.
pub(super) struct Renewed {
    pub(super) certificates: Certificates,
    js_modules: Modules,
    /// The configuration with the changed object, if it names that.
    pub(super) config: Option<Config>,
}

impl Stored {
    pub(super) fn new(certificates: Certificates, js_modules: Modules) -> Stored {
        Stored {
            certificates: ArcSwap::from_pointee(certificates),
            js_modules: ArcSwap::from_pointee(js_modules),
        }
    }

    pub(super) fn certificates(&self) -> Arc<Certificates> {
        self.certificates.load_full()
    }

    pub(super) fn js_modules(&self) -> Modules {
        Modules::clone(&self.js_modules.load())
    }

    /// The stored objects with one added or replaced, while `config` is served.
    pub(super) fn keeping(
        &self,
        config: &Config,
        store: StoreKind,
        name: &str,
        text: &str,
    ) -> Result<Renewed, Diagnostics> {
        let invalid =
            |message: String| Diagnostics::one(Diagnostic::apply(Pointer::default(), message));
        let mut renewed = self.unchanged();
        let mut config = config.clone();
        let is_named = match store {
            StoreKind::Certificates => {
                let bundle = Bundle::parse(text.as_bytes(), SystemTime::now())
                    .map_err(|error| invalid(error.to_string()))?;
                renewed.certificates = renewed.certificates.with(name, Arc::new(bundle));
                !certificates::places(&config, name).is_empty()
                    || certificates::is_on_demand(&config, name)
            }
            StoreKind::JsModules => {
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
        renewed.config = is_named.then_some(config);
        Ok(renewed)
    }

    /// The stored objects without one that the configuration does not name.
    pub(super) fn discarding(&self, config: &Config, store: StoreKind, name: &str) -> Renewed {
        let mut renewed = self.unchanged();
        match store {
            StoreKind::Certificates => {
                renewed.certificates = renewed.certificates.without(name);
                renewed.config = certificates::is_on_demand(config, name).then(|| config.clone());
            }
            StoreKind::JsModules => renewed.js_modules = renewed.js_modules.without(name),
        }
        renewed
    }

    fn unchanged(&self) -> Renewed {
        Renewed {
            certificates: Certificates::clone(&self.certificates.load()),
            js_modules: self.js_modules(),
            config: None,
        }
    }

    /// Puts the new objects in force. Returns the configuration that this changes.
    pub(super) fn commit(&self, renewed: Renewed) -> Option<Config> {
        self.certificates.store(Arc::new(renewed.certificates));
        self.js_modules.store(Arc::new(renewed.js_modules));
        renewed.config
    }
}
