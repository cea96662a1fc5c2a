//! Rules of rewriting, as sections have them.

use super::condition::flags;
use super::grammar::Directive;
use super::meaning::Meaning;
use super::redirect;
use super::section::Section;
use super::site::{Site, Spot};

/// A rule with its conditions.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) directive: Directive,
    pub(super) conditions: Vec<Directive>,
}

/// The rules of a section.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) list: Vec<Rule>,
    /// In a folder: its path as requests have it, with a slash at its end. In a server: empty.
    pub(super) base: String,
    /// Where relative paths begin.
    pub(super) relative: String,
    pub(super) spot: Spot,
    /// The destination of a request whose path was not rewritten.
    pub(super) content: String,
    /// The destination of one whose path has changed.
    pub(super) entry: String,
    /// They stand in a folder, or in `.htaccess`.
    pub(super) is_folder: bool,
}

/// Where the work is in a list of rules.
#[derive(Clone)]
pub(super) struct State {
    pub(super) index: usize,
    pub(super) is_rewritten: bool,
    pub(super) meaning: Meaning,
}

/// The rules of a section, and the switch for them if it has one; `None` if it has no directive of rewriting, so that those of the sections
/// around it apply.
pub(super) fn rules_of(section: &Section) -> Option<(Option<bool>, Vec<Rule>)> {
    let mut directives = section.directives.iter();
    let is_of_rewriting = |directive: &Directive| {
        matches!(
            directive.key.as_str(),
            "rewriteengine" | "rewriterule" | "rewritecond" | "rewritebase" | "rewriteoptions"
        )
    };
    if !directives.any(is_of_rewriting) {
        return None;
    }
    let mut list = Vec::new();
    let mut conditions = Vec::new();
    for directive in &section.directives {
        match directive.key.as_str() {
            "rewritecond" => conditions.push(directive.clone()),
            "rewriterule" => list.push(Rule {
                directive: directive.clone(),
                conditions: std::mem::take(&mut conditions),
            }),
            _ => {}
        }
    }
    Some((is_on(&section.directives), list))
}

/// The rules of a site outside of sections, if they are switched on. A virtual host does not inherit those of the server around it, but the
/// switch.
pub(super) fn server_rules(site: &Site) -> Vec<Rule> {
    let own = Section {
        // The server outside of all hosts has nothing of its own.
        directives: match site.own.is_empty() {
            true => site.outer.clone(),
            false => site.own.clone(),
        },
        ..Section::default()
    };
    let Some((switch, list)) = rules_of(&own) else {
        return Vec::new();
    };
    match switch.or_else(|| server_switch(site)) {
        Some(true) => list,
        _ => Vec::new(),
    }
}

/// The switch outside of sections, which those without one have, too.
pub(super) fn server_switch(site: &Site) -> Option<bool> {
    is_on(&site.own).or_else(|| is_on(&site.outer))
}

/// The rules that refuse, with those that they are chained to. A rule that is chained to one with another effect counts alone, so that it
/// refuses more.
pub(super) fn refusing(list: Vec<Rule>) -> Vec<Rule> {
    let mut kept = Vec::new();
    let mut rest = list.into_iter();
    while let Some(first) = rest.next() {
        let mut chain = vec![first];
        while chain.last().is_some_and(Rule::is_chained)
            && let Some(next) = rest.next()
        {
            chain.push(next);
        }
        let last_refuses = chain.last().is_some_and(Rule::refuses);
        let is_test = |rule: &Rule| rule.directive.argument(1) == "-" && !rule.refuses();
        let before = chain.get(..chain.len() - 1).unwrap_or_default();
        if last_refuses && before.iter().all(is_test) {
            kept.append(&mut chain);
            continue;
        }
        chain.retain(Rule::refuses);
        for rule in &mut chain {
            if let (true, Some(flags)) = (rule.is_chained(), rule.directive.arguments.get_mut(2)) {
                *flags = "F".to_owned();
            }
        }
        kept.append(&mut chain);
    }
    kept
}

/// True if directives of a site outside of sections may be about index files, and not about their folders.
pub(super) fn has_rules_for_index(site: &Site) -> bool {
    let names_files = |redirect: &Directive| {
        let mut words = redirect.arguments.iter();
        redirect.is("redirectmatch")
            || words.any(|word| word.starts_with('/') && word.contains('.'))
    };
    server_rules(site).iter().any(Rule::acts) || site.all(redirect::NAMES).any(names_files)
}

/// The last switch for rules among directives.
pub(super) fn is_on(directives: &[Directive]) -> Option<bool> {
    let mut switches = directives.iter();
    let engine = switches.rfind(|directive| directive.is("rewriteengine"));
    engine.map(Directive::is_on)
}

impl Rules {
    /// The destination behind all rules.
    pub(super) fn end(&self, state: &State) -> &String {
        match state.is_rewritten {
            true => &self.entry,
            false => &self.content,
        }
    }
}

impl State {
    /// The beginning of a list of rules; what they set is empty there.
    pub(super) fn new(mut meaning: Meaning, list: &[Rule]) -> Self {
        meaning.set_later = list.iter().flat_map(Rule::sets).collect();
        State {
            index: 0,
            is_rewritten: false,
            meaning,
        }
    }
}

impl Rule {
    pub(super) fn flags(&self) -> Vec<(String, String)> {
        flags(self.directive.argument(2))
    }

    /// The conditions that decide whether it applies. One with `[OR]` and nothing behind it holds in Apache, whatever it tests, and so do
    /// those that it is an alternative to.
    pub(super) fn asked(&self) -> &[Directive] {
        let has_or = |condition: &Directive| {
            let flags = flags(condition.argument(2));
            let mut names = flags.iter().map(|(name, _)| name.as_str());
            names.any(|name| matches!(name, "OR" | "ORNEXT"))
        };
        let kept = self
            .conditions
            .iter()
            .rposition(|condition| !has_or(condition));
        let uses_captures = self.directive.argument(1).contains('%');
        match self.conditions.last().is_some_and(has_or) && !uses_captures {
            // The last one without `[OR]` ends an earlier group.
            true => self
                .conditions
                .get(..kept.map_or(0, |kept| kept + 1))
                .unwrap_or_default(),
            false => &self.conditions,
        }
    }

    /// The variables that it sets.
    pub(super) fn sets(&self) -> impl Iterator<Item = String> {
        let flags = self.flags().into_iter();
        flags.filter_map(|(name, value)| {
            let variable = value.split(':').next().unwrap_or_default().to_owned();
            matches!(name.as_str(), "E" | "ENV").then_some(variable)
        })
    }

    /// True if it begins all rules anew.
    pub(super) fn restarts(&self) -> bool {
        let flags = self.flags();
        flags
            .iter()
            .any(|(name, _)| matches!(name.as_str(), "N" | "NEXT"))
    }

    /// True if the rules behind it apply only where it does.
    pub(super) fn is_chained(&self) -> bool {
        let flags = self.flags();
        flags
            .iter()
            .any(|(name, _)| matches!(name.as_str(), "C" | "CHAIN"))
    }

    /// True if it decides which of the other rules apply.
    pub(super) fn leads_others(&self) -> bool {
        let flags = self.flags();
        let skips = |(name, _): &(String, String)| matches!(name.as_str(), "S" | "SKIP");
        self.restarts() || self.is_chained() || flags.iter().any(skips)
    }

    /// The rule that comes next where this one holds and skips others; `index`: the one behind it.
    pub(super) fn next_index(&self, list: &[Rule], index: usize) -> Option<usize> {
        let flags = self.flags();
        let mut skipping = flags
            .iter()
            .filter(|(name, _)| matches!(name.as_str(), "S" | "SKIP"));
        if let Some((_, count)) = skipping.next() {
            let count: usize = count.parse().ok()?;
            return Some(index.saturating_add(count).min(list.len()));
        }
        self.is_chained().then_some(index)
    }

    /// True if it denies access.
    pub(super) fn refuses(&self) -> bool {
        self.flags().iter().any(|(name, value)| {
            matches!(name.as_str(), "F" | "FORBIDDEN" | "G" | "GONE")
                || matches!(name.as_str(), "R" | "REDIRECT")
                    && value
                        .parse::<u16>()
                        .is_ok_and(|status| !(300..400).contains(&status))
        })
    }

    /// True if it gives the request another path, which Apache looks up in the folders at once: sections for paths are compared with the
    /// path that the client asked for.
    pub(super) fn changes_file(&self) -> bool {
        let flags = self.flags();
        let mut names = flags.iter().map(|(name, _)| name.as_str());
        let leads_elsewhere = |name: &str| {
            matches!(
                name,
                "PT" | "PASSTHROUGH" | "R" | "REDIRECT" | "P" | "PROXY"
            )
        };
        self.directive.argument(1) != "-" && !self.refuses() && !names.any(leads_elsewhere)
    }

    /// True if it may give the path of a file that exists another one, or redirect it.
    pub(super) fn may_change_file(&self) -> bool {
        let is_of_missing = |condition: &Directive| {
            condition.argument(0) == "%{REQUEST_FILENAME}"
                && condition.argument(1) == "!-f"
                && condition.argument(2).is_empty()
        };
        let has_alternatives = self.conditions.iter().any(|one| {
            let mut flags = flags(one.argument(2)).into_iter();
            flags.any(|(name, _)| matches!(name.as_str(), "OR" | "ORNEXT"))
        });
        let is_for_missing = !has_alternatives && self.conditions.iter().any(is_of_missing);
        self.directive.argument(1) != "-" && !self.refuses() && !is_for_missing
    }

    /// True if it does more than set variables.
    pub(super) fn acts(&self) -> bool {
        let ends = self.flags().iter().any(|(name, _)| {
            matches!(
                name.as_str(),
                "L" | "LAST" | "END" | "F" | "FORBIDDEN" | "G" | "GONE"
            )
        });
        self.directive.argument(1) != "-" || ends
    }
}
