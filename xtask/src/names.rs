//! The modules of a crate, and which file each path in their code leads to.
//!
//! Follows `mod` from the crate's roots through the files, and `use` from name to name: what a module only passes on
//! (`pub use self::child::Name`) belongs to the file that declares it.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::visit_mut::{self, VisitMut};
use syn::{Item, UseTree, Visibility};

use crate::source::SourceFile;

/// A path, segment by segment.
type Path = Vec<String>;

/// The most names that a path is followed through: more would be a circle of `use`.
const MOST_STEPS: u32 = 16;

/// A module.
#[derive(Default)]
struct Module {
    /// Index of its file.
    file: usize,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    /// Names that it declares itself.
    declared: BTreeSet<String>,
    /// The public types among those.
    public_types: BTreeSet<String>,
    /// Children that other crates see, if they see this module.
    public_children: BTreeSet<String>,
    /// Names that it takes from elsewhere.
    imports: BTreeMap<String, Path>,
    /// Those of the imports that it passes on.
    passed_on: BTreeSet<String>,
    /// Those of them that it passes on to other crates.
    exported: BTreeSet<String>,
    /// Modules of which it takes all names.
    globs: Vec<Path>,
    /// Those of them whose names it passes on to other crates.
    exported_globs: Vec<Path>,
    /// Paths that its code names.
    paths: BTreeSet<Path>,
}

/// The end of a path: a module, or a name in it.
struct Target {
    module: usize,
    name: Option<String>,
}

/// The modules of one library or program.
pub(crate) struct Names {
    modules: Vec<Module>,
    root: usize,
}

impl Names {
    /// The modules below `root`, the file that a library or program begins with.
    pub(crate) fn read(files: &[SourceFile], root: &str) -> Self {
        let mut names = Names {
            modules: Vec::new(),
            root: 0,
        };
        if let Some(file) = files.iter().position(|file| file.path == root) {
            let folder = parent_of(root).to_owned();
            names.add_file(files, file, None, &folder);
        }
        names
    }

    /// All arrows from file to file, by their indices.
    pub(crate) fn arrows(&self) -> BTreeSet<(usize, usize)> {
        let mut arrows = BTreeSet::new();
        for (index, module) in self.modules.iter().enumerate() {
            let imports = module
                .imports
                .iter()
                .filter(|(name, _)| !module.passed_on.contains(*name))
                .map(|(_, path)| path);
            let named = imports.chain(&module.paths);
            let named = named.filter_map(|path| self.file_of(index, path, MOST_STEPS));
            let whole = module.globs.iter();
            let whole = whole.filter_map(|path| self.module_of(index, path));
            let whole = whole.filter_map(|target| self.modules.get(target));
            for file in named.chain(whole.map(|target| target.file)) {
                if file != module.file {
                    arrows.insert((module.file, file));
                }
            }
        }
        arrows
    }

    /// The public types that other crates can name, each with the index of the file that declares it.
    pub(crate) fn public_types(&self) -> BTreeSet<(String, usize)> {
        let mut types = BTreeSet::new();
        let mut seen = BTreeSet::new();
        let mut open = vec![self.root];
        while let Some(index) = open.pop() {
            let Some(module) = self.modules.get(index).filter(|_| seen.insert(index)) else {
                continue;
            };
            let declared = module.public_types.iter().cloned();
            types.extend(declared.map(|name| (name, module.file)));
            let exported = module.exported.iter();
            let exported = exported.filter_map(|name| module.imports.get(name));
            for target in exported.filter_map(|path| self.target_of(index, path, MOST_STEPS)) {
                let Some(owner) = self.modules.get(target.module) else {
                    continue;
                };
                match target.name {
                    None => open.push(target.module),
                    Some(name) if owner.public_types.contains(&name) => {
                        types.insert((name, owner.file));
                    }
                    Some(_) => {}
                }
            }
            let whole = module.exported_globs.iter();
            open.extend(whole.filter_map(|path| self.module_of(index, path)));
            let children = module.public_children.iter();
            open.extend(children.filter_map(|name| module.children.get(name)));
        }
        types
    }

    fn add_file(
        &mut self,
        files: &[SourceFile],
        file: usize,
        parent: Option<usize>,
        folder: &str,
    ) -> usize {
        let index = self.modules.len();
        self.modules.push(Module {
            file,
            parent,
            ..Module::default()
        });
        if let Some(source) = files.get(file) {
            self.add_items(files, index, source.production.items.clone(), folder);
        }
        index
    }

    /// Adds items to a module; the files of its child modules are in `folder`.
    fn add_items(&mut self, files: &[SourceFile], index: usize, items: Vec<Item>, folder: &str) {
        for item in items {
            match item {
                Item::Mod(module) => self.add_child(files, index, module, folder),
                Item::Use(item) => {
                    self.import(index, &item.tree, Vec::new(), &item.vis);
                }
                mut item => {
                    let public_types = public_types_of(&item);
                    let mut inner = InnerUses::default();
                    inner.visit_item_mut(&mut item);
                    let Some(module) = self.modules.get_mut(index) else {
                        continue;
                    };
                    module.declared.extend(name_of(&item));
                    module.declared.extend(public_types.iter().cloned());
                    module.public_types.extend(public_types);
                    collect_paths(item.to_token_stream(), &mut module.paths);
                    for tree in inner.trees {
                        self.import_inner(index, &tree, Vec::new());
                    }
                }
            }
        }
    }

    fn add_child(
        &mut self,
        files: &[SourceFile],
        index: usize,
        module: syn::ItemMod,
        folder: &str,
    ) {
        let name = module.ident.to_string();
        let is_public = matches!(module.vis, Visibility::Public(_));
        let child = if let Some((_, items)) = module.content {
            let child = self.modules.len();
            let file = self.modules.get(index).map_or(0, |parent| parent.file);
            self.modules.push(Module {
                file,
                parent: Some(index),
                ..Module::default()
            });
            self.add_items(files, child, items, &format!("{folder}/{name}"));
            child
        } else {
            let attributed = path_attribute(&module.attrs);
            let places = match attributed {
                Some(path) => vec![format!("{folder}/{path}")],
                None => vec![
                    format!("{folder}/{name}.rs"),
                    format!("{folder}/{name}/mod.rs"),
                ],
            };
            let found = places.into_iter().find_map(|place| {
                let place = without_dots(&place);
                files.iter().position(|file| file.path == place)
            });
            let Some(file) = found else {
                return;
            };
            self.add_file(files, file, Some(index), &format!("{folder}/{name}"))
        };
        if let Some(parent) = self.modules.get_mut(index) {
            if is_public {
                parent.public_children.insert(name.clone());
            }
            parent.children.insert(name, child);
        }
    }

    fn import(&mut self, index: usize, tree: &UseTree, mut path: Path, visibility: &Visibility) {
        let is_exported = matches!(visibility, Visibility::Public(_));
        let mut add = |name: String, path: Path| {
            if let Some(module) = self.modules.get_mut(index) {
                if !matches!(visibility, Visibility::Inherited) {
                    module.passed_on.insert(name.clone());
                }
                if is_exported {
                    module.exported.insert(name.clone());
                }
                module.imports.insert(name, path);
            }
        };
        match tree {
            UseTree::Path(step) => {
                path.push(step.ident.to_string());
                self.import(index, &step.tree, path, visibility);
            }
            UseTree::Name(name) if name.ident == "self" => {
                if let Some(last) = path.last().cloned() {
                    add(last, path);
                }
            }
            UseTree::Name(name) => {
                path.push(name.ident.to_string());
                add(name.ident.to_string(), path);
            }
            UseTree::Rename(name) => {
                if name.ident != "self" {
                    path.push(name.ident.to_string());
                }
                // `use … as _` has a name that no code can use, but it is a use.
                let key = match name.rename.to_string().as_str() {
                    "_" => path.join("::"),
                    rename => rename.to_owned(),
                };
                add(key, path);
            }
            UseTree::Glob(_) => {
                if let Some(module) = self.modules.get_mut(index) {
                    if is_exported {
                        module.exported_globs.push(path.clone());
                    }
                    module.globs.push(path);
                }
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(index, tree, path.clone(), visibility);
                }
            }
        }
    }

    /// A `use` inside a function is a path that the module names.
    fn import_inner(&mut self, index: usize, tree: &UseTree, mut path: Path) {
        match tree {
            UseTree::Path(step) => {
                path.push(step.ident.to_string());
                self.import_inner(index, &step.tree, path);
                return;
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.import_inner(index, tree, path.clone());
                }
                return;
            }
            UseTree::Name(name) => path.push(name.ident.to_string()),
            UseTree::Rename(name) => path.push(name.ident.to_string()),
            UseTree::Glob(_) => {}
        }
        // `use path::{self}` names the path.
        if path.len() > 1 && path.last().is_some_and(|segment| segment == "self") {
            path.pop();
        }
        if let Some(module) = self.modules.get_mut(index) {
            module.paths.insert(path);
        }
    }

    /// The file that declares what a path in this module leads to. `None`: it leads out of the crate, or nowhere.
    fn file_of(&self, index: usize, path: &[String], steps: u32) -> Option<usize> {
        let target = self.target_of(index, path, steps)?;
        Some(self.modules.get(target.module)?.file)
    }

    /// Follows a path in this module to its end. `None`: it leads out of the crate, or nowhere.
    fn target_of(&self, index: usize, path: &[String], steps: u32) -> Option<Target> {
        let steps = steps.checked_sub(1)?;
        let mut at = index;
        let mut rest = path;
        match rest.first()?.as_str() {
            "crate" => {
                at = self.root;
                rest = rest.get(1..)?;
            }
            "self" => rest = rest.get(1..)?,
            "super" => {}
            first => {
                let module = self.modules.get(index)?;
                // A name alone may be a field's or a variable's: it is a module's only with more behind it.
                let is_known = module.imports.contains_key(first)
                    || module.declared.contains(first)
                    || (path.len() > 1 && module.children.contains_key(first));
                if !is_known {
                    return None;
                }
            }
        }
        while rest.first().is_some_and(|segment| segment == "super") {
            at = self.modules.get(at)?.parent?;
            rest = rest.get(1..)?;
        }
        self.named_in(at, rest, steps)
    }

    fn named_in(&self, index: usize, path: &[String], steps: u32) -> Option<Target> {
        let steps = steps.checked_sub(1)?;
        let module = self.modules.get(index)?;
        let Some((first, rest)) = path.split_first() else {
            return Some(Target {
                module: index,
                name: None,
            });
        };
        if let Some(child) = module.children.get(first) {
            return self.named_in(*child, rest, steps);
        }
        let named = Target {
            module: index,
            name: Some(first.clone()),
        };
        if module.declared.contains(first) {
            return Some(named);
        }
        if let Some(target) = module.imports.get(first) {
            let whole: Path = target.iter().chain(rest).cloned().collect();
            return self.target_of(index, &whole, steps);
        }
        for glob in &module.globs {
            let whole: Path = glob.iter().chain(path).cloned().collect();
            let target = self.module_of(index, glob);
            if target.is_some_and(|target| self.has(target, first)) {
                return self.target_of(index, &whole, steps);
            }
        }
        Some(named)
    }

    fn has(&self, index: usize, name: &str) -> bool {
        self.modules.get(index).is_some_and(|module| {
            module.declared.contains(name)
                || module.children.contains_key(name)
                || module.imports.contains_key(name)
        })
    }

    /// The module that a path is the name of.
    fn module_of(&self, index: usize, path: &[String]) -> Option<usize> {
        let mut at = index;
        for segment in path {
            at = match segment.as_str() {
                "crate" => self.root,
                "self" => at,
                "super" => self.modules.get(at)?.parent?,
                name => *self.modules.get(at)?.children.get(name)?,
            };
        }
        Some(at)
    }
}

/// `a/b/c.rs` → `a/b`.
fn parent_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// `a/b/../c` → `a/c`.
fn without_dots(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            ".." => {
                parts.pop();
            }
            "." => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

fn path_attribute(attributes: &[syn::Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| {
        let syn::Meta::NameValue(pair) = &attribute.meta else {
            return None;
        };
        let syn::Expr::Lit(literal) = &pair.value else {
            return None;
        };
        match &literal.lit {
            syn::Lit::Str(text) if pair.path.is_ident("path") => Some(text.value()),
            _ => None,
        }
    })
}

/// The name that an item declares.
fn name_of(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::TraitAlias(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

/// The public types that an item declares; a macro's, if they are written where it is used (`options! { pub struct … }`).
fn public_types_of(item: &Item) -> Vec<String> {
    let (visibility, name) = match item {
        Item::Enum(item) => (&item.vis, &item.ident),
        Item::Struct(item) => (&item.vis, &item.ident),
        Item::Trait(item) => (&item.vis, &item.ident),
        Item::Type(item) => (&item.vis, &item.ident),
        Item::Union(item) => (&item.vis, &item.ident),
        Item::Macro(item) if item.ident.is_none() => {
            return public_types_in(item.mac.tokens.clone());
        }
        _ => return Vec::new(),
    };
    match visibility {
        Visibility::Public(_) => vec![name.to_string()],
        _ => Vec::new(),
    }
}

fn public_types_in(tokens: TokenStream) -> Vec<String> {
    let words: Vec<String> = tokens.into_iter().map(|token| token.to_string()).collect();
    let declarations = words.windows(3).filter_map(|words| match words {
        [visibility, kind, name]
            if visibility == "pub"
                && matches!(
                    kind.as_str(),
                    "struct" | "enum" | "trait" | "type" | "union"
                ) =>
        {
            Some(name.clone())
        }
        _ => None,
    });
    declarations.collect()
}

/// Takes `use` out of functions, and visibility out of everything: `pub(in path)` uses nothing.
#[derive(Default)]
struct InnerUses {
    trees: Vec<UseTree>,
}

impl VisitMut for InnerUses {
    fn visit_visibility_mut(&mut self, visibility: &mut Visibility) {
        *visibility = Visibility::Inherited;
    }

    fn visit_block_mut(&mut self, block: &mut syn::Block) {
        block.stmts.retain(|statement| match statement {
            syn::Stmt::Item(Item::Use(item)) => {
                self.trees.push(item.tree.clone());
                false
            }
            _ => true,
        });
        visit_mut::visit_block_mut(self, block);
    }
}

/// Every path of identifiers in the code, in macros too.
fn collect_paths(tokens: TokenStream, paths: &mut BTreeSet<Path>) {
    let mut path: Path = Vec::new();
    let mut colons = 0_u32;
    for token in tokens {
        match token {
            TokenTree::Ident(word) => {
                if colons != 2 {
                    paths.extend(finished(&mut path));
                }
                path.push(word.to_string());
                colons = 0;
            }
            TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
            TokenTree::Group(group) => {
                paths.extend(finished(&mut path));
                colons = 0;
                collect_paths(group.stream(), paths);
            }
            _ => {
                paths.extend(finished(&mut path));
                colons = 0;
            }
        }
    }
    paths.extend(finished(&mut path));
}

/// The path, if it may lead somewhere: `self` and `super` alone are values and visibilities.
fn finished(path: &mut Path) -> Option<Path> {
    let path = std::mem::take(path);
    match path.as_slice() {
        [] => None,
        [only] if matches!(only.as_str(), "self" | "super" | "crate" | "Self") => None,
        _ => Some(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The arrows between files of a crate, by their names without folder and extension.
    fn arrows(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<SourceFile> = files
            .iter()
            .map(|(path, text)| {
                SourceFile::parse(format!("x/src/{path}"), (*text).to_owned()).unwrap()
            })
            .collect();
        Names::read(&sources, "x/src/lib.rs")
            .arrows()
            .into_iter()
            .map(|(from, to)| format!("{} → {}", files[from].0, files[to].0))
            .collect()
    }

    #[test]
    fn every_way_to_name_another_file_is_an_arrow() {
        let found = arrows(&[
            ("lib.rs", "mod a; mod b; mod c; mod d;"),
            ("a.rs", "use crate::{b::{One, Two}, c}; fn f() { c::g(); }"),
            (
                "b.rs",
                "fn f() { crate::d::g(); log!(\"{}\", super::c::VALUE); }",
            ),
            ("c.rs", "fn f() { use super::d::{self, X}; }"),
            ("d.rs", "pub(in crate::a) struct X; pub(super) fn g() {}"),
        ]);
        assert_eq!(
            found,
            [
                "a.rs → b.rs",
                "a.rs → c.rs",
                "b.rs → c.rs",
                "b.rs → d.rs",
                "c.rs → d.rs"
            ]
        );
    }

    #[test]
    fn a_name_that_is_passed_on_belongs_to_the_file_that_declares_it() {
        let found = arrows(&[
            ("lib.rs", "pub mod a; mod b; pub use a::Outer;"),
            (
                "a/mod.rs",
                "mod inner; pub use self::inner::Inner as Outer; pub struct Own;",
            ),
            (
                "a/inner.rs",
                "pub struct Inner; fn f() -> super::Own { super::Own }",
            ),
            ("b.rs", "use crate::Outer; use crate::a::Own;"),
        ]);
        assert_eq!(
            found,
            [
                "a/inner.rs → a/mod.rs",
                "b.rs → a/mod.rs",
                "b.rs → a/inner.rs"
            ]
        );
    }

    #[test]
    fn a_module_that_uses_what_it_passes_on_has_an_arrow_to_it() {
        let found = arrows(&[
            ("lib.rs", "mod a; pub use a::One; fn f() -> One { One }"),
            ("a.rs", "pub struct One;"),
        ]);
        assert_eq!(found, ["lib.rs → a.rs"]);
    }

    #[test]
    fn a_field_with_the_name_of_a_module_is_no_arrow() {
        let found = arrows(&[
            (
                "lib.rs",
                "mod a; struct S { a: u8 } fn f(s: S) -> u8 { s.a }",
            ),
            ("a.rs", "use super::S;"),
        ]);
        assert_eq!(found, ["a.rs → lib.rs"]);
    }

    #[test]
    fn names_of_all_of_a_module_lead_to_it() {
        let found = arrows(&[
            ("lib.rs", "mod a; mod b;"),
            ("a/mod.rs", "mod one; pub use one::*;"),
            ("a/one.rs", "pub struct One;"),
            ("b.rs", "use crate::a::One;"),
        ]);
        assert_eq!(found, ["a/mod.rs → a/one.rs", "b.rs → a/one.rs"]);
    }

    #[test]
    fn tests_and_other_crates_are_no_arrows() {
        let found = arrows(&[
            ("lib.rs", "mod a; mod b;"),
            (
                "a.rs",
                "use std::io; #[cfg(test)] mod tests { use crate::b::X; }",
            ),
            ("b.rs", "#[cfg(test)] use crate::a; fn f() { b::x() }"),
        ]);
        assert!(found.is_empty(), "{found:?}");
    }
}
