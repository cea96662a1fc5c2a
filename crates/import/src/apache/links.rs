//! Links and rules of folders: Apache refuses a request that rules of folders apply to where `Options` allows to follow no links. Both come
//! from the last section that has a word about them, and a section may hold for some paths of a place only.

use super::grammar::Directive;
use super::rule;
use super::section::{Extent, Section, Stage};
use super::site::Spot;

/// The requests of a place that are refused for want of links.
pub(super) struct Refused {
    /// A test in JavaScript for paths that lead to something.
    pub(super) existing: Test,
    /// The same for others: Apache compares expressions for folders with names of files, too, but only with those of files that exist.
    pub(super) missing: Test,
}

/// A test in JavaScript, as far as it is not settled.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Test {
    Settled(bool),
    Open(String),
}

impl Test {
    pub(super) fn not(self) -> Test {
        match self {
            Test::Settled(holds) => Test::Settled(!holds),
            Test::Open(text) => Test::Open(format!("!({text})")),
        }
    }

    pub(super) fn and(self, other: Test) -> Test {
        match (self, other) {
            (Test::Settled(true), other) | (other, Test::Settled(true)) => other,
            (Test::Settled(false), _) | (_, Test::Settled(false)) => Test::Settled(false),
            (Test::Open(one), Test::Open(other)) if one == other => Test::Open(one),
            (Test::Open(one), Test::Open(other)) => Test::Open(format!("({one}) && ({other})")),
        }
    }

    fn or(self, other: Test) -> Test {
        self.not().and(other.not()).not()
    }

    /// Returns `now` where `condition` holds, and `self` elsewhere.
    fn replaced(self, condition: &Test, now: bool) -> Test {
        match now {
            true => self.or(condition.clone()),
            false => self.and(condition.clone().not()),
        }
    }
}

/// The state of a place behind some of its sections.
#[derive(Clone)]
struct State {
    /// A section has directives of rewriting.
    has_rules: Test,
    /// The switch for rules.
    is_on: Test,
    any_links: Test,
    own_links: Test,
}

impl State {
    fn add(&mut self, section: &Section, holds: &Test) {
        if rule::rules_of(section).is_some() {
            self.has_rules = self.has_rules.clone().replaced(holds, true);
        }
        if let Some(is_on) = rule::is_on(&section.directives) {
            self.is_on = self.is_on.clone().replaced(holds, is_on);
        }
        for options in section.directives.iter().filter(|one| one.is("options")) {
            self.options(options, holds);
        }
    }

    fn options(&mut self, options: &Directive, holds: &Test) {
        if !options.argument(0).starts_with(['+', '-']) {
            self.any_links = self.any_links.clone().replaced(holds, false);
            self.own_links = self.own_links.clone().replaced(holds, false);
        }
        for word in &options.arguments {
            let adds = !word.starts_with('-');
            let name = word.trim_start_matches(['+', '-']).to_ascii_lowercase();
            match name.as_str() {
                "followsymlinks" | "all" => {
                    self.any_links = self.any_links.clone().replaced(holds, adds);
                }
                "symlinksifownermatch" => {
                    self.own_links = self.own_links.clone().replaced(holds, adds);
                }
                _ => {}
            }
        }
    }

    fn refused(self) -> Test {
        let without_links = self.any_links.or(self.own_links).not();
        self.has_rules.and(self.is_on).and(without_links)
    }
}

/// The requests of a place that Apache refuses because rules need links there. `is_settled`: the path is that of an index, or final; it is
/// known to lead to a file, and expressions for folders are compared with its folder only.
pub(super) fn refused(spot: &Spot, is_settled: bool) -> Refused {
    let missing = refused_in(spot, Extent::Narrow);
    let existing = match is_settled {
        true => missing.clone(),
        false => refused_in(spot, Extent::Wide),
    };
    Refused { existing, missing }
}

fn refused_in(spot: &Spot, extent: Extent) -> Test {
    let mut state = State {
        has_rules: Test::Settled(false),
        is_on: Test::Settled(rule::server_switch(&spot.site) == Some(true)),
        any_links: Test::Settled(true),
        own_links: Test::Settled(false),
    };
    let sections = spot.site.sections.iter();
    for section in sections.filter(|section| section.stage != Stage::Server) {
        let Some(place) = section.place(&spot.sub, extent) else {
            continue;
        };
        match place.expression().filter(|_| !section.is_unknown) {
            Some(test) if test == "true" => state.add(section, &Test::Settled(true)),
            Some(test) => state.add(section, &Test::Open(test)),
            // Its condition cannot be written: the report says so.
            None => {}
        }
    }
    state.refused()
}

/// The `Options` of a section that refuses to follow links, for a report.
pub(super) fn options_of(spot: &Spot) -> Option<&Directive> {
    let sections = spot.site.sections.iter().rev();
    let held = sections
        .filter(|one| one.stage != Stage::Server && one.place(&spot.sub, Extent::Wide).is_some());
    let mut options = held.flat_map(|section| section.directives.iter().rev());
    options.find(|one| one.is("options") && super::content::follows(one) == Some(false))
}
