//! Rust source as the checks need it: parsed, and with its tests told from the rest.

use std::path::Path;

use anyhow::{Context, Result};
use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{Attribute, Item, Meta};

use crate::workspace::{Member, relative};

/// One file of a crate's `src`.
pub(crate) struct SourceFile {
    /// Relative to the repository.
    pub(crate) path: String,
    pub(crate) text: String,
    /// Everything in it.
    pub(crate) whole: syn::File,
    /// All of it but for tests.
    pub(crate) production: syn::File,
    /// The number of its lines that are tests.
    test_lines: usize,
}

impl SourceFile {
    /// Parses a file.
    pub(crate) fn parse(path: String, text: String) -> Result<Self> {
        let whole = syn::parse_file(&text).with_context(|| format!("{path} cannot be parsed"))?;
        let mut production = whole.clone();
        let mut tests = Tests { lines: 0 };
        tests.visit_file_mut(&mut production);
        Ok(Self {
            test_lines: tests.lines,
            path,
            text,
            whole,
            production,
        })
    }

    /// True if the whole file is tests, by its name.
    pub(crate) fn is_test(&self) -> bool {
        self.path.ends_with("tests.rs") || self.path.split('/').any(|part| part == "tests")
    }

    /// Its lines but for those of tests.
    pub(crate) fn production_lines(&self) -> usize {
        if self.is_test() {
            return 0;
        }
        self.text.lines().count() - self.test_lines
    }
}

/// Takes out what is built for tests only, and counts its lines.
struct Tests {
    lines: usize,
}

impl Tests {
    fn take(&mut self, attributes: &[Attribute], whole: Span) -> bool {
        let is_test = is_for_tests(attributes);
        if is_test {
            self.lines += whole.end().line + 1 - whole.start().line;
        }
        is_test
    }
}

impl VisitMut for Tests {
    fn visit_file_mut(&mut self, file: &mut syn::File) {
        file.items
            .retain(|item| !self.take(attributes(item), item.span()));
        visit_mut::visit_file_mut(self, file);
    }

    fn visit_item_mod_mut(&mut self, module: &mut syn::ItemMod) {
        if let Some((_, items)) = &mut module.content {
            items.retain(|item| !self.take(attributes(item), item.span()));
        }
        visit_mut::visit_item_mod_mut(self, module);
    }

    fn visit_item_impl_mut(&mut self, item: &mut syn::ItemImpl) {
        item.items.retain(|member| match member {
            syn::ImplItem::Fn(function) => !self.take(&function.attrs, function.span()),
            syn::ImplItem::Const(constant) => !self.take(&constant.attrs, constant.span()),
            _ => true,
        });
        visit_mut::visit_item_impl_mut(self, item);
    }
}

/// The attributes of an item.
pub(crate) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// True if a `cfg` leaves the item out of every build that is no test.
fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("cfg"))
        .filter_map(|attribute| attribute.parse_args::<Meta>().ok())
        .any(|predicate| !possible(&predicate).0)
}

/// Returns, for a build that is no test, if a predicate may be true, and if it may be false.
fn possible(predicate: &Meta) -> (bool, bool) {
    let inner = || -> Vec<(bool, bool)> {
        let Meta::List(list) = predicate else {
            return Vec::new();
        };
        list.parse_args_with(syn::punctuated::Punctuated::<Meta, syn::Token![,]>::parse_terminated)
            .map(|predicates| predicates.iter().map(possible).collect())
            .unwrap_or_default()
    };
    let path = predicate.path();
    if path.is_ident("test") {
        (false, true)
    } else if path.is_ident("all") {
        let inner = inner();
        (inner.iter().all(|one| one.0), inner.iter().any(|one| one.1))
    } else if path.is_ident("any") {
        let inner = inner();
        (inner.iter().any(|one| one.0), inner.iter().all(|one| one.1))
    } else if path.is_ident("not") {
        inner().first().map_or((true, true), |one| (one.1, one.0))
    } else {
        (true, true)
    }
}

/// All `.rs` files below the crate's `src`, sorted by path.
pub(crate) fn read(root: &Path, member: &Member) -> Result<Vec<SourceFile>> {
    let mut files = Vec::new();
    let mut folders = vec![member.folder.join("src")];
    while let Some(current) = folders.pop() {
        for entry in std::fs::read_dir(&current)
            .with_context(|| format!("{} cannot be listed", current.display()))?
        {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path)
                    .with_context(|| format!("{} cannot be read", path.display()))?;
                files.push(SourceFile::parse(relative(root, &path), text)?);
            }
        }
    }
    files.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::SourceFile;

    #[test]
    fn what_is_built_for_tests_only_does_not_count() {
        let text = "fn a() {}\n\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n#[cfg(all(test, not(loom)))]\nmod models {}\n\
                    #[cfg(not(test))]\nfn c() {}\n#[cfg(any(test, fuzzing))]\nfn d() {}\n";
        let file = SourceFile::parse("crates/x/src/x.rs".to_owned(), text.to_owned()).unwrap();
        assert_eq!(file.production.items.len(), 3);
        assert_eq!(file.production_lines(), 6);
    }
}
