//! Groups of the regular expressions of a step, which the templates of its action may use.
//!
//! A step has them for the options that its own action uses at once. What is evaluated later, or for a request that other steps have
//! selected too, such as a guard or a log, does not: it could get the groups of another step.

use std::rc::Rc;

use tutti_document::{TreeNode, shorten};

use super::grammar::Grammar;
use crate::build::patterns;
use crate::pattern::Pattern;
use crate::table::{
    ACTION, ActionOptions, CASELESS, DECODED, MatchOptions, Object, Opt, STEP, ShareOptions,
    StepOptions, Text,
};
use crate::template::{Group, GroupOwner, Template};

/// The patterns of a step.
pub(super) struct StepGroups {
    uri: Vec<Pattern>,
    host: Vec<Pattern>,
}

/// The options of an action whose templates may have groups.
const OPTIONS: [&Opt; 18] = [
    &ActionOptions::pass,
    &ActionOptions::proxy,
    &ActionOptions::request_headers,
    &ActionOptions::request_body,
    &ActionOptions::location,
    &ActionOptions::body,
    &ActionOptions::json,
    &ActionOptions::share,
    &ActionOptions::rewrite,
    &ActionOptions::response_headers,
    &ActionOptions::response_headers_always,
    &ActionOptions::fastcgi,
    &ActionOptions::uwsgi,
    &ActionOptions::scgi,
    &ShareOptions::chroot,
    &ShareOptions::found,
    &ShareOptions::folder,
    &ShareOptions::fallback,
];

impl StepGroups {
    /// Returns the groups that an option of the object `node` has; `outer`: those of the object itself.
    pub(super) fn of(
        outer: Option<&Rc<StepGroups>>,
        table: &'static Object,
        option: &Opt,
        node: &TreeNode,
    ) -> Option<Rc<StepGroups>> {
        if std::ptr::eq(table, &STEP) {
            let is_action = option.name == StepOptions::action.name;
            return is_action.then(|| Rc::new(Self::of_step(node)));
        }
        let has_them =
            !std::ptr::eq(table, &ACTION) || OPTIONS.iter().any(|known| known.name == option.name);
        outer.filter(|_| has_them).cloned()
    }

    fn of_step(step: &TreeNode) -> Self {
        let conditions = step.child(StepOptions::conditions.name);
        let list = |option: &Opt, syntax| {
            let node = conditions.and_then(|conditions| conditions.child(option.name));
            let all = node.map(|node| patterns(node, syntax)).unwrap_or_default();
            let positive = all.list().iter().filter(|pattern| !pattern.negated);
            positive.cloned().collect()
        };
        Self {
            uri: list(&MatchOptions::uri, DECODED),
            host: list(&MatchOptions::host, CASELESS),
        }
    }

    /// True if the group exists, whichever pattern matches.
    fn has(&self, group: &Group) -> bool {
        let patterns = match group.of {
            GroupOwner::Match => &self.uri,
            GroupOwner::Host => &self.host,
        };
        !patterns.is_empty() && patterns.iter().all(|one| one.has_group(&group.name))
    }
}

/// Checks that the groups in a template exist.
pub(super) fn check(groups: Option<&StepGroups>, text: &Text, value: &str) -> Grammar {
    let is_template = matches!(
        text,
        Text::Template
            | Text::TemplateOrEmpty
            | Text::FieldTemplate
            | Text::Pass
            | Text::Condition
            | Text::ProxyTarget
    );
    if !is_template || !value.contains("match_") {
        return Ok(());
    }
    let Ok(template) = Template::parse(value) else {
        return Ok(());
    };
    for group in template.groups() {
        let option = match group.of {
            GroupOwner::Match => "uri",
            GroupOwner::Host => "host",
        };
        let shown = shorten(&group.to_string());
        let Some(groups) = groups else {
            let message = format!("`{shown}` is not known here");
            let hint = "groups of `match` are known only in the action of the same step: in `pass`, `proxy`, `return`, `share`, `rewrite` and the \
                        fields that it sets; elsewhere use a variable of `maps`";
            return Err((message, Some(hint.to_owned())));
        };
        if !groups.has(group) {
            let message = format!("`match.{option}` of this step has no group for `{shown}`");
            let hint = format!(
                "write a regular expression, such as `~^/x/(.*)$`; if `{option}` has several patterns, each needs the group"
            );
            return Err((message, Some(hint)));
        }
    }
    Ok(())
}
