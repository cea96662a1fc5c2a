//! Modules as functions that make the default export anew for each request without a separate realm.
//!
//! A module cannot be evaluated twice in one realm, and QuickJS cannot copy a realm. But most modules of configurations are a few functions
//! and one `export default`, and so are valid as the body of a function. Others are loaded as modules.

use crate::modules::{Modules, ScriptModule};

/// Replaces `export default`, with the same length, so that positions in messages stay correct.
const MADE: &str = "__tutti_made =";

const EXPORT: &str = "export default";

/// The text of a function that returns the default export of `module`; `None` if the module may be more than such a function.
pub(crate) fn maker(module: &ScriptModule, all: &Modules) -> Option<String> {
    let source = &*module.source;
    let others = all.iter().filter(|other| other.name != module.name);
    let mut foreign =
        others
            .map(|other| &*other.name)
            .chain(["import", "await", "globalThis", "__tutti_made"]);
    // Searched as text, so a name in a comment counts, too: then the module is loaded as one.
    if foreign.any(|name| source.contains(name)) {
        return None;
    }
    // A usable module has an export, so the only occurrence of the word is that export.
    let (before, after) = source.split_once(EXPORT)?;
    let is_only = !before.contains("export") && !after.contains("export");
    let exported = after.trim_start();
    let declares = ["function", "class", "async"];
    // A declaration would become an expression after an assignment, and its name would be undefined.
    if !is_only || declares.iter().any(|word| exported.starts_with(word)) {
        return None;
    }
    Some(format!(
        "(function () {{ 'use strict'; let __tutti_made; {before}{MADE}{after}\n; return __tutti_made; }})"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(source: &str) -> Option<String> {
        let module = |name: &str, source: &str| ScriptModule {
            name: name.into(),
            source: source.into(),
        };
        let all = Modules::new(vec![module("own", source), module("other", "")]);
        maker(all.get("own").unwrap(), &all)
    }

    #[test]
    fn modules_of_one_export_are_functions() {
        assert_eq!(MADE.len(), EXPORT.len());
        for source in [
            "var own = {}; own.route = (uri) => uri; export default own",
            "export default {count: 1}",
            "let n = 0;\nexport default () => ++n;\n// the end",
        ] {
            assert!(made(source).is_some(), "{source}");
        }
        for source in [
            "import other from 'other'; export default other",
            "export default function own() {}",
            "export default class {}",
            "export const a = 1; export default a",
            "globalThis.a = 1; export default 1",
            "export default () => other()",
            "// no export of words\nexport default 1",
            "",
        ] {
            assert_eq!(made(source), None, "{source}");
        }
    }
}
