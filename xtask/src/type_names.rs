//! One name for one thing: a public type's name is defined in one crate only, so that it says by itself what it is.
//!
//! Read are the libraries that other crates may use; what C and Java see of the SDK has its own names.

use std::collections::{BTreeMap, BTreeSet};

use crate::breach::Breach;
use crate::names::Names;
use crate::source::SourceFile;
use crate::workspace::Member;

const EXCEPTIONS: &str = "xtask/src/tolerated.rs";

/// The name of each public type, with the crates that define it and the file in each.
#[derive(Default)]
pub(crate) struct TypeNames(BTreeMap<String, BTreeMap<String, String>>);

impl TypeNames {
    /// Adds the types of a crate that other crates can name.
    pub(crate) fn add(&mut self, member: &Member, files: &[SourceFile]) {
        let is_read = member.is_shipped()
            && !["simulated", "simulator", "testkit", "sdk/c"].contains(&&*member.name);
        let roots = member.roots.iter();
        for root in roots.filter(|root| is_read && root.ends_with("/lib.rs")) {
            self.add_library(&member.name, root, files);
        }
    }

    fn add_library(&mut self, name: &str, root: &str, files: &[SourceFile]) {
        for (type_name, file) in Names::read(files, root).public_types() {
            let path = files.get(file).map_or(root, |file| &file.path);
            let crates = self.0.entry(type_name).or_default();
            crates.insert(name.to_owned(), path.to_owned());
        }
    }

    /// Finds names that more than one crate defines, and exceptions that are not needed. An exception has its reason.
    pub(crate) fn check(&self, exceptions: &[(&str, &str)]) -> Vec<Breach> {
        let excepted: BTreeSet<&str> = exceptions.iter().map(|(name, _)| *name).collect();
        let mut breaches = Vec::new();
        for (name, crates) in &self.0 {
            let is_excepted = excepted.contains(&**name);
            for path in crates.values().skip(1).filter(|_| !is_excepted) {
                let first = crates.values().next().map_or("", String::as_str);
                breaches.push(Breach::new(
                    path,
                    format!("the type `{name}` has the name of one in {first}: give it a name that says what it is"),
                ));
            }
        }
        for name in excepted {
            if self.0.get(name).is_none_or(|crates| crates.len() < 2) {
                breaches.push(Breach::new(
                    EXCEPTIONS,
                    format!("`{name}` is public in one crate at most: remove the exception"),
                ));
            }
        }
        breaches
    }
}

#[cfg(test)]
mod tests {
    use super::TypeNames;
    use crate::source::SourceFile;

    fn breaches(crates: &[(&str, &[(&str, &str)])], exceptions: &[(&str, &str)]) -> Vec<String> {
        let mut names = TypeNames::default();
        for (name, files) in crates {
            let sources: Vec<SourceFile> = files
                .iter()
                .map(|(path, text)| {
                    SourceFile::parse(format!("{name}/src/{path}"), (*text).to_owned()).unwrap()
                })
                .collect();
            names.add_library(name, &format!("{name}/src/lib.rs"), &sources);
        }
        let found = names.check(exceptions).into_iter();
        found
            .map(|breach| format!("{}: {}", breach.place, breach.message))
            .collect()
    }

    #[test]
    fn a_type_that_two_crates_define_is_a_breach() {
        let found = breaches(
            &[
                ("a", &[("lib.rs", "pub struct One; pub enum Two {}")]),
                ("b", &[("lib.rs", "pub trait Two {} pub type Three = u8;")]),
            ],
            &[],
        );
        assert_eq!(
            found,
            [
                "b/src/lib.rs: the type `Two` has the name of one in a/src/lib.rs: give it a name that says what it is"
            ]
        );
    }

    #[test]
    fn every_way_out_of_a_crate_counts() {
        let ways: [(&str, &[(&str, &str)]); 6] = [
            ("module", &[("lib.rs", "pub mod m { pub struct One; }")]),
            (
                "use",
                &[
                    ("lib.rs", "mod m; pub use m::One;"),
                    ("m.rs", "pub struct One;"),
                ],
            ),
            (
                "renamed",
                &[
                    ("lib.rs", "mod m; pub use m::One as Other;"),
                    ("m.rs", "pub struct One;"),
                ],
            ),
            (
                "all",
                &[
                    ("lib.rs", "mod m; pub use m::*;"),
                    ("m.rs", "pub union One {}"),
                ],
            ),
            (
                "passed on",
                &[(
                    "lib.rs",
                    "mod m { mod n { pub struct One; } pub use self::n::One; } pub use m::One;",
                )],
            ),
            ("macro", &[("lib.rs", "options! { pub struct One {} }")]),
        ];
        for way in ways {
            let first: (&str, &[(&str, &str)]) = ("a", &[("lib.rs", "pub struct One;")]);
            assert_eq!(breaches(&[first, way], &[]).len(), 1, "{}", way.0);
        }
    }

    #[test]
    fn what_other_crates_cannot_name_is_no_breach() {
        let hidden = "pub(crate) struct One; mod m { pub struct Two; } use m::Two; pub use other::Three; \
                      #[cfg(test)] pub struct Four;";
        let found = breaches(
            &[
                (
                    "a",
                    &[(
                        "lib.rs",
                        "pub struct One; pub struct Two; pub struct Three; pub struct Four;",
                    )],
                ),
                ("b", &[("lib.rs", hidden)]),
            ],
            &[],
        );
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn an_exception_is_kept_only_while_it_is_needed() {
        let both: [(&str, &[(&str, &str)]); 2] = [
            ("a", &[("lib.rs", "pub struct One;")]),
            ("b", &[("lib.rs", "pub struct One;")]),
        ];
        assert!(breaches(&both, &[("One", "reason")]).is_empty());
        let found = breaches(&both[..1], &[("One", "reason")]);
        assert_eq!(
            found,
            ["xtask/src/tolerated.rs: `One` is public in one crate at most: remove the exception"]
        );
    }
}
