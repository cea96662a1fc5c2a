//! Compiled rules for responses: error pages, internal routes, early hints, mirrored requests.

use tutti_config::model::{ErrorStatus, Mirror, PageStatus, Template};

use crate::action::CompiledAction;
use crate::rule_set::RuleSet;

/// The rules of one action or listener.
#[derive(Debug)]
pub(crate) struct Rules {
    /// Pages for single statuses first.
    pub(crate) pages: Box<[Page]>,
    pub(crate) intercepts: Option<bool>,
    /// Route numbers by path prefix, the longest first.
    pub(crate) internal: Box<[(Box<[u8]>, usize)]>,
    pub(crate) hints: Box<[Template]>,
    /// With the number of its upstream.
    pub(crate) mirror: Option<(Mirror, usize)>,
}

/// An action for error pages.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) statuses: ErrorStatus,
    pub(crate) status: PageStatus,
    pub(crate) action: CompiledAction,
}

/// Identifies an error page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageNumber {
    rules: u32,
    page: u32,
}

/// Identifies an internal route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InternalNumber(pub(crate) usize);

/// All rules of a configuration.
#[derive(Debug, Default)]
pub struct Rulebook(Vec<Rules>);

impl Rulebook {
    /// Adds rules and returns their number.
    pub(crate) fn add(&mut self, rules: Rules) -> Option<u32> {
        self.0.push(rules);
        u32::try_from(self.0.len() - 1).ok()
    }

    fn of<'r>(&'r self, set: &RuleSet) -> impl Iterator<Item = (u32, &'r Rules)> {
        set.iter()
            .filter_map(|number| Some((number, self.0.get(number as usize)?)))
    }

    /// The page for an error of this status, and the status of the response.
    pub fn page(&self, set: &RuleSet, status: u16) -> Option<(PageNumber, PageStatus)> {
        self.of(set).find_map(|(rules, one)| {
            let mut pages = one.pages.iter().enumerate();
            let (page, found) = pages.find(|(_, page)| page.statuses.has(status))?;
            let page = u32::try_from(page).ok()?;
            Some((PageNumber { rules, page }, found.status))
        })
    }

    /// The actions of all error pages.
    pub(crate) fn pages(&self) -> impl Iterator<Item = &CompiledAction> {
        let pages = self.0.iter().flat_map(|rules| &rules.pages);
        pages.map(|page| &page.action)
    }

    pub(crate) fn action(&self, number: PageNumber) -> Option<&CompiledAction> {
        let rules = self.0.get(number.rules as usize)?;
        Some(&rules.pages.get(number.page as usize)?.action)
    }

    /// True if errors of applications and servers get pages, too.
    pub fn intercepts(&self, set: &RuleSet) -> bool {
        let mut all = self.of(set);
        all.find_map(|(_, rules)| rules.intercepts) == Some(true)
    }

    /// True if an internal redirect is possible.
    pub fn redirects_internally(&self, set: &RuleSet) -> bool {
        self.of(set).any(|(_, rules)| !rules.internal.is_empty())
    }

    /// The internal route for this path.
    pub fn internal(&self, set: &RuleSet, path: &[u8]) -> Option<InternalNumber> {
        let (_, rules) = self.of(set).find(|(_, rules)| !rules.internal.is_empty())?;
        let mut routes = rules.internal.iter();
        let (_, route) = routes.find(|(prefix, _)| path.starts_with(prefix))?;
        Some(InternalNumber(*route))
    }

    /// The values of `Link` for a 103.
    pub fn hints(&self, set: &RuleSet) -> &[Template] {
        let mut all = self.of(set).map(|(_, rules)| &*rules.hints);
        all.find(|hints| !hints.is_empty()).unwrap_or_default()
    }

    /// The mirror of the request: the rule, its number, and the number of the upstream.
    pub fn mirror(&self, set: &RuleSet) -> Option<(&Mirror, u32, usize)> {
        self.of(set).find_map(|(number, rules)| {
            let (mirror, upstream) = rules.mirror.as_ref()?;
            Some((mirror, number, *upstream))
        })
    }
}
