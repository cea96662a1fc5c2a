//! The modules of a configuration; they import each other by name.

use std::sync::Arc;

use rquickjs::loader::{ImportAttributes, Loader, Resolver};
use rquickjs::module::Declared;
use rquickjs::{Ctx, Exception, Result};

use crate::builtin;

/// A module: templates use its default export by its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScriptModule {
    /// Its name.
    pub name: Arc<str>,
    /// Its text.
    pub source: Arc<str>,
}

/// The modules for the templates of one configuration, in loading order.
#[derive(Clone, Debug, Default)]
pub struct Modules(Arc<Vec<ScriptModule>>);

impl Modules {
    /// These, in this order.
    pub fn new(modules: Vec<ScriptModule>) -> Modules {
        Modules(Arc::new(modules))
    }

    /// The module with this name.
    pub fn get(&self, name: &str) -> Option<&ScriptModule> {
        self.0.iter().find(|module| &*module.name == name)
    }

    /// All of them, in loading order.
    pub fn iter(&self) -> impl Iterator<Item = &ScriptModule> {
        self.0.iter()
    }

    /// With this module added, or replaced if the name exists.
    #[must_use]
    pub fn with(&self, module: ScriptModule) -> Modules {
        let mut all = Vec::clone(&self.0);
        match all.iter_mut().find(|known| known.name == module.name) {
            Some(known) => *known = module,
            None => all.push(module),
        }
        Modules::new(all)
    }

    /// Without the module with this name.
    #[must_use]
    pub fn without(&self, name: &str) -> Modules {
        let left = self.iter().filter(|module| &*module.name != name);
        Modules::new(left.cloned().collect())
    }
}

impl PartialEq for Modules {
    /// Configurations that differ only in other parts share an engine.
    fn eq(&self, other: &Modules) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl Eq for Modules {}

/// Resolves imports among the other modules and the provided ones only.
#[derive(Clone)]
pub(crate) struct Others(pub(crate) Modules);

impl Resolver for Others {
    fn resolve<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        base: &str,
        name: &str,
        _: Option<ImportAttributes<'js>>,
    ) -> Result<String> {
        match self.0.get(name) {
            Some(_) => Ok(name.to_owned()),
            None => builtin::resolve(base, name)
                .and_then(|found| {
                    found.ok_or_else(|| {
                        format!("`{base}` imports `{name}`, and there is no module of that name")
                    })
                })
                .map_err(|message| Exception::throw_reference(ctx, &message)),
        }
    }
}

impl Loader for Others {
    fn load<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        name: &str,
        _: Option<ImportAttributes<'js>>,
    ) -> Result<rquickjs::Module<'js, Declared>> {
        if let Some(provided) = builtin::load(ctx, name) {
            return provided;
        }
        let Some(module) = self.0.get(name) else {
            return Err(rquickjs::Error::new_loading(name));
        };
        rquickjs::Module::declare(ctx.clone(), name, &*module.source)
    }
}
