//! The types of applications: one line each; everything else is in the file of the type.

use std::num::NonZeroU32;
use std::path::PathBuf;

use serde_json::{Map, Value as Json};

use crate::application::ApplicationSupport;
use crate::cgi::CgiScripts;
use crate::external::External;
use crate::java::Java;
use crate::node::Node;
use crate::perl::Perl;
use crate::php::Php;
use crate::python::Python;
use crate::ruby::Ruby;
use crate::table::Object;
use crate::wasm::{Wasi, Wasm};
use crate::{Complaints, Options, Tree};

/// A `type` of applications.
#[derive(Debug)]
pub struct ApplicationType {
    /// First word of `type`.
    pub name: &'static str,
    /// Another word for it, from older versions of NGINX Unit.
    pub older_name: Option<&'static str>,
    /// Its options.
    pub object: &'static Object,
    /// True if a version may follow.
    pub versions: bool,
}

impl ApplicationType {
    /// Returns the type that a value of `type` names, and the version in it: after a space (`php 8.2`) or directly
    /// after the name (`php8.2`).
    pub fn of(text: &str) -> Option<(&'static ApplicationType, Option<&str>)> {
        let (word, version) = match text.split_once(' ') {
            Some((word, version)) => (word, Some(version.trim())),
            None => (text, None),
        };
        let is_named =
            |known: &&ApplicationType| known.name == word || known.older_name == Some(word);
        if let Some(known) = TYPES.iter().find(is_named) {
            return Some((known, version));
        }
        let joined = |known: &'static ApplicationType| {
            let version = text.strip_prefix(known.name)?;
            (known.versions && version.starts_with(|first: char| first.is_ascii_digit()))
                .then_some((known, Some(version)))
        };
        TYPES.iter().find_map(joined)
    }
}

macro_rules! types {
    ($($variant:ident,)+) => {
        /// Every type, in the order in which messages list them.
        pub static TYPES: &[ApplicationType] = &[$(
            ApplicationType {
                name: $variant::TABLE.name,
                older_name: $variant::OLDER_NAME,
                object: $variant::TABLE,
                versions: $variant::HAS_VERSIONS,
            },
        )+];

        /// The options that only one type of application has.
        #[derive(Clone, Debug, PartialEq)]
        #[allow(missing_docs, reason = "the names are those of the types")]
        pub enum Special {
            $($variant($variant),)+
        }

        impl Special {
            /// Reads the options of an application of this type.
            pub fn of<'t>(name: &str, tree: impl Tree<'t>) -> Option<Self> {
                $(
                    if name == $variant::TABLE.name {
                        return Some(Special::$variant($variant::of(Some(tree))));
                    }
                )+
                None
            }

            /// Adds every option to the object that a host is started with.
            pub fn write(&self, members: &mut Map<String, Json>) {
                match self {
                    $(Special::$variant(special) => special.write(members),)+
                }
            }

            /// Collects faults that involve more than one option.
            pub fn check(&self, complaints: &mut Complaints<'_>) {
                match self {
                    $(Special::$variant(special) => special.check(complaints),)+
                }
            }

            /// Names of the targets; empty where there are none.
            pub fn targets(&self) -> Vec<&str> {
                match self {
                    $(Special::$variant(special) => special.targets(),)+
                }
            }

            /// Threads of a process that serve requests.
            pub fn threads(&self) -> NonZeroU32 {
                match self {
                    $(Special::$variant(special) => special.threads(),)+
                }
            }

            /// Files and folders that the application's code is in.
            pub fn watched(&self) -> Vec<PathBuf> {
                match self {
                    $(Special::$variant(special) => special.watched(),)+
                }
            }

            /// True if its host starts a program that speaks HTTP, and relays to it.
            pub fn is_relayed(&self) -> bool {
                match self {
                    $(Special::$variant(special) => special.is_relayed(),)+
                }
            }

            /// The likely remedy if a process starts but never reports that it is ready.
            pub fn unready_hint(&self) -> Option<&'static str> {
                match self {
                    $(Special::$variant(special) => special.unready_hint(),)+
                }
            }

            /// True if its applications may take connections over.
            pub fn may_take_over(&self) -> bool {
                match self {
                    $(Special::$variant(_) => $variant::MAY_TAKE_OVER,)+
                }
            }

            /// True if its host reads `limits.memory` or `limits.memory_max` itself.
            pub fn reads_memory_limit(&self) -> bool {
                match self {
                    $(Special::$variant(_) => $variant::READS_MEMORY_LIMIT,)+
                }
            }

            /// Requests that an event loop of its host handles at once by default; `None`: the server's default.
            pub fn event_loop_concurrency(&self) -> Option<NonZeroU32> {
                match self {
                    $(Special::$variant(_) => $variant::EVENT_LOOP_CONCURRENCY,)+
                }
            }

            /// True if its host may run event loops.
            pub fn may_run_event_loops(&self) -> bool {
                match self {
                    $(Special::$variant(_) => $variant::MAY_RUN_EVENT_LOOPS,)+
                }
            }
        }
    };
}

types! {
    Php,
    External,
    Node,
    Python,
    Perl,
    Ruby,
    Java,
    Wasm,
    Wasi,
    CgiScripts,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_may_follow_with_or_without_a_space() {
        let named = |text| ApplicationType::of(text).map(|(known, version)| (known.name, version));
        assert_eq!(named("php"), Some(("php", None)));
        assert_eq!(named("php  8.2 "), Some(("php", Some("8.2"))));
        assert_eq!(named("php7.4"), Some(("php", Some("7.4"))));
        assert_eq!(named("python3"), Some(("python", Some("3"))));
        assert_eq!(named("java11"), Some(("java", Some("11"))));
        assert_eq!(named("go"), Some(("external", None)));
        for unknown in [
            "phpp",
            "php-8",
            "node22",
            "go1.22",
            "external1",
            "",
            " php",
            "golang",
        ] {
            assert_eq!(named(unknown), None, "{unknown}");
        }
    }
}
