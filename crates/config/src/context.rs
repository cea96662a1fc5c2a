//! The machine as validation knows it: installed language modules, and stored certificates and script modules.
//!
//! Filled by the daemon at its start (and by `config check` without a server); nothing else about the machine decides
//! whether a configuration is valid.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use tutti_script::Modules;

/// The machine, as far as validation needs it.
#[derive(Clone, Debug, Default)]
pub struct ValidationContext {
    /// Installed modules.
    pub modules: Vec<InstalledModule>,
    /// Names of stored certificate bundles; `None`: unknown, so any name is accepted.
    pub certificates: Option<BTreeSet<String>>,
    /// Stored script modules; `None`: unknown, so any name is accepted.
    pub js_modules: Option<Modules>,
    /// True if a flag of the server names a source, regardless of the configuration; `None`: unknown, so there may be
    /// one.
    pub is_given_source: Option<bool>,
}

/// An installed language module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledModule {
    /// First word of an application's `type`: `php`.
    pub kind: String,
    /// `8.2.35`; empty for types without versions.
    pub version: String,
}

impl ValidationContext {
    /// Creates the context of a machine with these modules, each a type and a version.
    pub fn with_modules<'a>(modules: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let modules = modules.into_iter();
        let modules = modules.map(|(kind, version)| InstalledModule {
            kind: kind.to_owned(),
            version: version.to_owned(),
        });
        ValidationContext {
            modules: modules.collect(),
            ..ValidationContext::default()
        }
    }

    /// Sets whether a flag names a source.
    #[must_use]
    pub fn with_given_source(self, is_given: bool) -> Self {
        ValidationContext {
            is_given_source: Some(is_given),
            ..self
        }
    }

    /// Sets the stored script modules.
    #[must_use]
    pub fn with_js_modules(self, modules: Modules) -> Self {
        ValidationContext {
            js_modules: Some(modules),
            ..self
        }
    }

    /// Sets the stored certificate bundles.
    #[must_use]
    pub fn with_certificates<'a>(self, names: impl IntoIterator<Item = &'a str>) -> Self {
        let names = names.into_iter().map(str::to_owned).collect();
        ValidationContext {
            certificates: Some(names),
            ..self
        }
    }

    /// Returns the newest module of that type whose version begins with the requested one, part by part: `8` and `8.2`
    /// match `8.2.35`, but not `8.20`.
    pub fn find(&self, kind: &str, version: &str) -> Option<&InstalledModule> {
        let matching = self
            .modules
            .iter()
            .filter(|module| module.kind == kind && begins_with(&module.version, version));
        matching.max_by(|a, b| compare(&a.version, &b.version))
    }

    /// Returns the modules of a type, in the notation of `type`.
    pub(crate) fn versions(&self, kind: &str) -> Vec<String> {
        let of_kind = self.modules.iter().filter(|module| module.kind == kind);
        of_kind
            .map(|module| format!("`{} {}`", module.kind, module.version))
            .collect()
    }

    /// Lists the installed types in a sentence.
    pub(crate) fn summary(&self) -> String {
        let names: Vec<String> = self
            .modules
            .iter()
            .map(|module| format!("`{} {}`", module.kind, module.version).replace(" `", "`"))
            .collect();
        if names.is_empty() {
            "no module is installed".to_owned()
        } else {
            format!("installed: {}", names.join(", "))
        }
    }
}

fn begins_with(version: &str, wanted: &str) -> bool {
    match version.strip_prefix(wanted) {
        Some(rest) => {
            wanted.is_empty() || rest.is_empty() || rest.starts_with(|c: char| !c.is_ascii_digit())
        }
        None => false,
    }
}

/// Compares versions part by part, numbers numerically.
fn compare(a: &str, b: &str) -> Ordering {
    let parts = |version: &str| -> Vec<(u64, String)> {
        let parts = version.split('.');
        parts
            .map(|part| {
                let end = part
                    .find(|c: char| !c.is_ascii_digit())
                    .unwrap_or(part.len());
                let (number, rest) = part.split_at(end);
                (number.parse().unwrap_or(0), rest.to_owned())
            })
            .collect()
    };
    parts(a).cmp(&parts(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_matching_module_is_found() {
        let context = ValidationContext::with_modules([
            ("php", "7.0.2"),
            ("php", "7.0.23"),
            ("php", "8.2.9"),
            ("python", "3.11"),
        ]);
        let version = |wanted| {
            context
                .find("php", wanted)
                .map(|module| module.version.as_str())
        };
        assert_eq!(version(""), Some("8.2.9"));
        assert_eq!(version("7"), Some("7.0.23"));
        assert_eq!(version("7.0"), Some("7.0.23"));
        assert_eq!(version("7.0.2"), Some("7.0.2"));
        assert_eq!(version("8.20"), None);
        assert_eq!(version("8.2."), None);
        assert_eq!(context.find("ruby", ""), None);
    }
}
