//! The modules of a configuration.

use std::sync::Arc;

/// A module: what it exports as default is known to the templates by its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Module {
    /// Its name.
    pub name: Arc<str>,
    /// Its text.
    pub source: Arc<str>,
}

/// The modules that the templates of one configuration see, in the order they are loaded.
#[derive(Clone, Debug, Default)]
pub struct Modules(Arc<Vec<Module>>);

impl Modules {
    /// These, in this order.
    pub fn new(modules: Vec<Module>) -> Modules {
        Modules(Arc::new(modules))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Module> {
        self.0.iter()
    }
}

impl PartialEq for Modules {
    /// Configurations that differ in other things only share an engine.
    fn eq(&self, other: &Modules) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl Eq for Modules {}
