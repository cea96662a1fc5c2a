//! Names of objects stored beside the configuration: certificate bundles, script modules.

use tutti_document::{Diagnostic, Pointer, TreeNode, shorten, suggest};
use tutti_script::{CompileError, Modules};

use super::builder::Builder;
use super::reader::each;
use crate::context::ValidationContext;
use crate::model::StoredName;
use crate::template::placed;

/// A kind of stored object.
pub(super) struct Store {
    what: &'static str,
    section: &'static str,
    /// The stored names; `None` if they are unknown.
    names: fn(&ValidationContext) -> Option<Vec<&str>>,
}

impl Store {
    pub(super) const CERTIFICATES: Store = Store {
        what: "certificate bundle",
        section: "certificates",
        names: |context| {
            let names = context.certificates.as_ref()?.iter();
            Some(names.map(String::as_str).collect())
        },
    };
    const MODULES: Store = Store {
        what: "script module",
        section: "js_modules",
        names: |context| {
            let modules = context.js_modules.as_ref()?.iter();
            Some(modules.map(|module| &*module.name).collect())
        },
    };
}

impl<'d> Builder<'d> {
    /// Reads the name or names at a node, each of which must have been stored.
    pub(super) fn stored(
        &mut self,
        node: &'d TreeNode,
        pointer: &Pointer,
        store: &Store,
    ) -> Vec<StoredName> {
        let named = each(node, pointer).into_iter();
        named
            .filter_map(|(node, pointer)| {
                Some(self.stored_one(node.as_str()?, node, pointer, store))
            })
            .collect()
    }

    /// Reads a name, which must have been stored.
    pub(super) fn stored_one(
        &mut self,
        name: &str,
        node: &'d TreeNode,
        pointer: Pointer,
        store: &Store,
    ) -> StoredName {
        if let Some(stored) = (store.names)(self.context)
            && !stored.contains(&name)
        {
            let diagnostic = missing(name, pointer.clone(), store, &stored);
            self.faults.value(diagnostic, node);
        }
        StoredName {
            pointer: pointer.into(),
            name: name.to_owned(),
        }
    }

    /// Builds `js_module`: the names, and the modules if they can be loaded together.
    pub(super) fn js_modules(
        &mut self,
        given: Option<(&'d TreeNode, Pointer)>,
    ) -> (Vec<StoredName>, Modules) {
        let Some((node, pointer)) = given else {
            return Default::default();
        };
        let known = self.context.js_modules.as_ref();
        let names = self.stored(node, &pointer, &Store::MODULES);
        let mut wanted: Vec<tutti_script::ScriptModule> = Vec::new();
        for module in names.iter().filter_map(|name| known?.get(&name.name)) {
            if wanted.iter().all(|other| other.name != module.name) {
                wanted.push(module.clone());
            }
        }
        let modules = Modules::new(wanted);
        let is_whole = names.iter().all(|name| modules.get(&name.name).is_some());
        if is_whole && let Err(fault) = tutti_script::check_modules(&modules) {
            let at = each(node, &pointer).into_iter();
            let mut at = at.filter(|(node, _)| node.as_str() == fault.module.as_deref());
            let (node, pointer) = at.next().unwrap_or((node, pointer));
            self.faults.value(unloadable(&fault, pointer), node);
        }
        (names, modules)
    }
}

fn missing(name: &str, pointer: Pointer, store: &Store, stored: &[&str]) -> Diagnostic {
    let message = format!("the {} `{}` does not exist", store.what, shorten(name));
    let mut diagnostic = Diagnostic::new(pointer, message);
    diagnostic.suggestion = Some(match suggest::nearest(name, stored.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if store.section == "certificates" => {
            format!("store it first: `tutti cert put {} FILE…`", shorten(name))
        }
        None => format!(
            "upload it first, with PUT to /{}/{}",
            store.section,
            shorten(name)
        ),
    });
    if !stored.is_empty() {
        let names: Vec<String> = stored
            .iter()
            .map(|name| format!("`{}`", shorten(name)))
            .collect();
        diagnostic = diagnostic.expect(format!("one of {}", names.join(", ")));
    }
    diagnostic
}

fn unloadable(fault: &CompileError, pointer: Pointer) -> Diagnostic {
    let name = fault.module.as_deref().unwrap_or_default();
    let message = format!(
        "the script module `{}` cannot be loaded: {}{}",
        shorten(name),
        fault.message,
        placed(fault)
    );
    let hint = fault.hint.map_or_else(
        || {
            format!(
                "upload a corrected one with PUT to /js_modules/{}; modules that it imports must be in `js_module` too",
                shorten(name)
            )
        },
        str::to_owned,
    );
    Diagnostic::new(pointer, message).suggest(hint)
}
