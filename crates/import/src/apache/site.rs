//! A virtual host as it is compiled: its sections, its folders, and the settings that hold at a place.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;

use serde_json::{Map, Value};

use super::grammar::Directive;
use super::section::{Extent, Mapping, Section};
use crate::finding::Findings;
use crate::fpm::Pool;
use crate::output::Output;
use crate::sources::Sources;

/// Everything that is being made.
pub(super) struct Compiler<'f> {
    pub(super) out: Output,
    pub(super) findings: &'f mut Findings,
    pub(super) pools: Vec<Pool>,
    /// The routes of what comes behind a rule: by its place, where it ends, and whether the path has changed.
    pub(super) rests: BTreeMap<(usize, String, String, bool), String>,
    /// Rules behind rules that are being carried over.
    pub(super) depth: usize,
    /// Routes without rules, by site and path.
    pub(super) settled: BTreeMap<(String, String), String>,
    /// `MaxRequestWorkers`, where it is given.
    pub(super) workers: Option<u64>,
    pub(super) user: Option<String>,
    pub(super) group: Option<String>,
    /// The file that loads Apache's modules was not given.
    pub(super) is_alone: bool,
    pub(super) sources: &'f dyn Sources,
    /// Where relative names of files begin.
    pub(super) root: Option<PathBuf>,
    /// The options of the responses of all sites, which are settings of the whole server.
    pub(super) common: Map<String, Value>,
    /// The module that lists folders is there.
    pub(super) has_lists: bool,
    /// The clients' addresses of the host that is being made may differ from those that the source means.
    pub(super) doubts_address: bool,
}

/// A virtual host, or the server outside of all.
#[derive(Clone, Debug)]
pub(super) struct Site {
    /// Begins the names of its routes.
    pub(super) name: String,
    /// `ServerName`
    pub(super) server: String,
    /// All sections that are about it, in the order in which they are merged.
    pub(super) sections: Vec<Section>,
    /// Directives outside of sections: its own, then those of the server around it.
    pub(super) own: Vec<Directive>,
    pub(super) outer: Vec<Directive>,
    /// The folders, in the order in which they are looked for; `DocumentRoot` is the last one.
    pub(super) mappings: Vec<Mapping>,
    pub(super) groups: BTreeMap<String, Directive>,
    /// Maps of `RewriteMap`, as functions of JavaScript.
    pub(super) maps: BTreeMap<String, String>,
    /// All sections of `<Proxy>`.
    pub(super) proxies: Vec<Directive>,
    /// The destination of index files, if rules outside of sections may be about them.
    pub(super) index_rules: Option<String>,
}

/// A folder of a site, or one below it that has settings of its own.
#[derive(Clone, Debug)]
pub(super) struct Spot {
    pub(super) site: Rc<Site>,
    /// As requests are mapped.
    pub(super) base: Mapping,
    /// The part of it that is meant.
    pub(super) sub: Mapping,
    pub(super) name: String,
    /// The way back to the beginning of `base`, for an index.
    pub(super) entry: String,
}

impl Site {
    /// The sections for which `is_meant` holds, in their order.
    pub(super) fn sections_where(&self, is_meant: impl Fn(&Section) -> bool) -> Vec<Section> {
        let meant = self.sections.iter().filter(|section| is_meant(section));
        meant.cloned().collect()
    }

    /// The server around a site, without anything of the site's own.
    pub(super) fn outer_alone(&self) -> Site {
        Site {
            name: self.name.clone(),
            server: String::new(),
            sections: vec![Section {
                directives: self.outer.clone(),
                ..Section::default()
            }],
            own: Vec::new(),
            outer: self.outer.clone(),
            mappings: Vec::new(),
            groups: BTreeMap::new(),
            maps: BTreeMap::new(),
            proxies: Vec::new(),
            index_rules: None,
        }
    }

    /// The last directive of a name outside of sections.
    pub(super) fn setting(&self, key: &str) -> Option<&Directive> {
        let is = |directive: &&Directive| directive.key == key;
        self.own
            .iter()
            .rfind(is)
            .or_else(|| self.outer.iter().rfind(is))
    }

    /// All of a name outside of sections, the site's own first.
    pub(super) fn all<'s>(&'s self, keys: &'s [&'s str]) -> impl Iterator<Item = &'s Directive> {
        self.own
            .iter()
            .chain(&self.outer)
            .filter(move |directive| keys.contains(&directive.key.as_str()))
    }
}

impl Spot {
    /// A whole mapping, without a way back to its beginning.
    pub(super) fn outermost(site: &Rc<Site>, mapping: &Mapping) -> Spot {
        Spot {
            site: Rc::clone(site),
            base: mapping.clone(),
            sub: mapping.clone(),
            name: site.name.clone(),
            entry: String::new(),
        }
    }

    /// The sections that hold for the whole of it, the last one first.
    pub(super) fn sections(&self) -> impl Iterator<Item = &Section> {
        let holds = |section: &&Section| {
            section.file.is_none()
                && section
                    .place(&self.sub, Extent::Narrow)
                    .is_some_and(|place| place.is_everywhere())
        };
        self.site.sections.iter().rev().filter(holds)
    }

    /// The directive of a name that holds here.
    pub(super) fn setting(&self, key: &str) -> Option<&Directive> {
        self.sections().find_map(|section| {
            section
                .directives
                .iter()
                .rfind(|directive| directive.key == key)
        })
    }
}
