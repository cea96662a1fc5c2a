//! `RewriteRule`: rules become steps, one after the other. A rule that cannot be carried over, and would have denied
//! some requests what is
//! behind it, denies all.

use serde_json::{Map, Value, json};
use tutti_config::pattern::Case;

use super::condition::{Captures, Compiled, Condition, anchored, compile, is_everything};
use super::effect::Effect;
use super::rule::{Rule, Rules, State};
use super::section::{Where, is_pattern};
use super::site::Compiler;
use crate::output::step;
use crate::template::{Text, case, regex, script_text};

/// Rules behind rules that change the path; each sees the path that the one before has made.
const DEEPEST_REST: usize = 12;

/// The tests of the requested file, of one rule.
#[derive(Default)]
struct Looks {
    missing: Vec<char>,
    there: Vec<char>,
    other: Option<(Text, bool)>,
}

impl Compiler<'_> {
    /// The steps of rules; the last one takes every request.
    pub(super) fn rules(&mut self, rules: &Rules, mut state: State) -> Vec<Value> {
        let mut steps = Vec::new();
        while let Some(rule) = rules.list.get(state.index).cloned() {
            state.index += 1;
            let (added, ends) = self.rule(rules, &rule, &mut state);
            steps.extend(added);
            if ends {
                return steps;
            }
        }
        let end = if state.is_rewritten {
            &rules.entry
        } else {
            &rules.content
        };
        steps.push(json!({"action": {"pass": end}}));
        steps
    }

    /// The destination for what comes behind a rule.
    pub(super) fn rest(&mut self, rules: &Rules, state: &State) -> String {
        let end = if state.is_rewritten {
            &rules.entry
        } else {
            &rules.content
        };
        if state.index >= rules.list.len() {
            return end.clone();
        }
        let first = rules
            .list
            .get(state.index)
            .map(|rule| rule.directive.place.clone());
        let key = (
            first.as_ref().map_or(0, |place| place.line),
            first
                .as_ref()
                .map(|place| place.file.to_string())
                .unwrap_or_default(),
            end.clone(),
            state.is_rewritten,
        );
        if let Some(known) = self.rests.get(&key) {
            return known.clone();
        }
        if self.depth >= DEEPEST_REST {
            if let Some(place) = first {
                let problem = format!(
                    "more than {DEEPEST_REST} rules in sequence each change the path: requests that reach the last one get 503"
                );
                self.findings.lost(
                    &place,
                    "RewriteRule",
                    &problem,
                    "write them as steps of a route",
                );
            }
            let destination = self
                .out
                .add_route("too-many-rules", vec![json!({"action": {"return": 503}})]);
            self.rests.insert(key, destination.clone());
            return destination;
        }
        self.depth += 1;
        let steps = self.rules(rules, state.clone());
        self.depth -= 1;
        let destination = self
            .out
            .add_route(&format!("{}-rules", rules.spot.name), steps);
        self.rests.insert(key, destination.clone());
        destination
    }

    fn rule(&mut self, rules: &Rules, rule: &Rule, state: &mut State) -> (Vec<Value>, bool) {
        let flags = rule.flags();
        let has = |names: &[&str]| flags.iter().any(|(name, _)| names.contains(&name.as_str()));
        if rule.moves_on() {
            return self.unwritable(
                rules,
                rule,
                "rules that skip others or restart are not carried over",
            );
        }
        let case = case(has(&["NC", "NOCASE"]));
        let (negated, pattern) = match rule.directive.argument(0).strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, rule.directive.argument(0)),
        };
        let expression = anchored(&rules.base, pattern, case).filter(|source| is_pattern(source));
        let captures = anchored(&rules.base, pattern, Case::Exact)
            .and_then(|source| regex(&format!("^{source}"), case));
        let (Some(expression), Some(captures)) = (expression, captures) else {
            return self.unwritable(
                rules,
                rule,
                &format!("`{pattern}` cannot be written in JavaScript"),
            );
        };
        let captures = format!("{captures}.exec((vars.uri ?? ''))");
        let mut place = Where::default();
        if negated {
            place.begins(&format!("(?!{expression})"));
        } else if !is_everything(pattern) {
            place.begins(&expression);
        } else if !rules.base.is_empty() && rules.base != "/" {
            place.begins(&crate::template::escaped(&rules.base));
        }
        let mut compiled: Vec<Compiled> = Vec::new();
        let mut last: Option<String> = None;
        let rule_captures = (!negated).then_some(captures.as_str());
        for condition in &rule.conditions {
            let captured = Captures {
                rule: rule_captures,
                condition: last.as_deref(),
            };
            match compile(condition, &state.meaning, captured) {
                Ok(mut one) => {
                    if let (Condition::Asked { negated, .. }, false) = (
                        &one.condition,
                        rules.is_folder || condition.argument(0).contains("DOCUMENT_ROOT"),
                    ) {
                        // In a server no path leads to a file yet.
                        one.condition = Condition::Always(*negated);
                    }
                    last = one.captures.clone().or(last);
                    compiled.push(one);
                }
                Err(why) => return self.unset(rules, rule, &why, state),
            }
        }
        let (looks, scheme) = match conditions(&compiled, &mut place) {
            Ok(Some(found)) => found,
            Ok(None) => return (Vec::new(), false),
            Err(why) => return self.unset(rules, rule, why, state),
        };
        let captured = Captures {
            rule: rule_captures,
            condition: last.as_deref(),
        };
        self.variables(rule, &place, captured, state, &looks);
        let effect = match self.effect(rules, rule, captured, state) {
            Ok(effect) => effect,
            Err(why) => return self.unwritable(rules, rule, &why),
        };
        let mut conditions = place.conditions();
        if let Some(scheme) = scheme {
            conditions.insert("scheme".to_owned(), scheme.into());
        }
        self.compose(rules, rule, state, conditions, looks, effect)
    }

    /// Steps for an effect where the looks at files say so.
    fn compose(
        &mut self,
        rules: &Rules,
        rule: &Rule,
        state: &State,
        conditions: Map<String, Value>,
        looks: Looks,
        effect: Effect,
    ) -> (Vec<Value>, bool) {
        let action = match effect {
            Effect::Nothing => return (Vec::new(), false),
            Effect::Ends => {
                json!({"pass": if state.is_rewritten { &rules.entry } else { &rules.content }})
            }
            Effect::Act(action) => action,
        };
        let ends = conditions.is_empty();
        if let Some((path, there)) = looks.other {
            let rest = json!({"pass": self.rest(rules, state)});
            let (found, fallback) = if there {
                (action, rest)
            } else {
                (rest, action)
            };
            let share = json!({"share": path.template(), "index": "", "found": found, "fallback": fallback});
            return (vec![step(conditions, share)], ends);
        }
        let (missing, there) = (looks.missing.as_slice(), looks.there.as_slice());
        let has = |list: &[char], test: char| list.contains(&test) || list.contains(&'e');
        let steps = match (missing.is_empty(), there.is_empty()) {
            (true, true) => return (vec![step(conditions, action)], ends),
            (false, false) => {
                return self.unwritable(
                    rules,
                    rule,
                    "tests for existing and missing files are combined",
                );
            }
            (false, true) => {
                let is_last =
                    !rules.list.iter().skip(state.index).any(Rule::acts) && !state.is_rewritten;
                if has(missing, 'f') && has(missing, 'd') && is_last {
                    // The front controller: existing files and folders as usual, else this.
                    self.content(&rules.spot, Some(action.clone()), Some(action))
                } else {
                    let rest = json!({"pass": self.rest(rules, state)});
                    let mut steps = Vec::new();
                    if has(missing, 'd') {
                        self.no_folder_test(rule);
                        steps.extend(self.folder_test(&rules.spot, &rest, &action));
                    }
                    if has(missing, 'f') {
                        steps.extend(self.file_test(&rules.spot, &rest, &action));
                    } else {
                        steps.push(json!({"action": action}));
                    }
                    steps
                }
            }
            (true, false) => {
                let rest = json!({"pass": self.rest(rules, state)});
                let ends_rules = rule.directive.argument(1) == "-"
                    && !state.is_rewritten
                    && action.pointer("/pass").is_some();
                if has(there, 'f') && has(there, 'd') && ends_rules {
                    self.content(&rules.spot, Some(rest.clone()), Some(rest))
                } else if has(there, 'd') {
                    return self.unwritable(
                        rules,
                        rule,
                        "tests for folders alone are not supported",
                    );
                } else if has(there, 'f') {
                    self.file_test(&rules.spot, &action, &rest)
                } else {
                    if rule.refuses() {
                        return self.unwritable(
                            rules,
                            rule,
                            "tests for links alone are not supported",
                        );
                    }
                    // A link alone is a file that leads elsewhere; the rules say what happens to files.
                    return (Vec::new(), false);
                }
            }
        };
        if ends {
            return (steps, true);
        }
        let destination = self
            .out
            .add_route(&format!("{}-files", rules.spot.name), steps);
        (vec![step(conditions, json!({"pass": destination}))], false)
    }

    fn no_folder_test(&mut self, rule: &Rule) {
        let hint = "a folder is recognized if the path ends with a slash and it has an index";
        self.findings.note(
            &rule.directive.place,
            "RewriteRule",
            "folders are recognized only by their index",
            hint,
        );
    }

    /// `E=`: variables that later rules may use.
    fn variables(
        &mut self,
        rule: &Rule,
        place: &Where,
        captured: Captures<'_>,
        state: &mut State,
        looks: &Looks,
    ) {
        for (name, value) in rule.flags() {
            if name != "E" && name != "ENV" {
                continue;
            }
            let (variable, value) = value.split_once(':').unwrap_or((&value, ""));
            // Applications get the field as it came.
            if variable == "HTTP_AUTHORIZATION" {
                continue;
            }
            let Ok(text) = state.meaning.text(value, captured) else {
                state.meaning.unknown.insert(variable.to_owned());
                continue;
            };
            let is_plain =
                looks.missing.is_empty() && looks.there.is_empty() && looks.other.is_none();
            let condition = place.expression().filter(|_| is_plain);
            let hint = "set it in `environment` of the application if needed";
            self.findings.note(&rule.directive.place, "RewriteRule", &format!("the variable `{variable}` is only available to the rules after it; applications do not get it"), hint);
            let before = state
                .meaning
                .environment
                .get(variable)
                .cloned()
                .unwrap_or_default();
            let text = match condition {
                _ if place.is_everywhere() && is_plain => text,
                Some(condition) => script_text(format!(
                    "({condition}) ? {} : {}",
                    text.expression(),
                    before.expression()
                )),
                None => {
                    state.meaning.unknown.insert(variable.to_owned());
                    continue;
                }
            };
            state.meaning.environment.insert(variable.to_owned(), text);
        }
    }

    /// A rule whose conditions cannot be written: its variables are not known to the rules behind it.
    fn unset(
        &mut self,
        rules: &Rules,
        rule: &Rule,
        why: &str,
        state: &mut State,
    ) -> (Vec<Value>, bool) {
        state.meaning.unknown.extend(rule.sets());
        self.unwritable(rules, rule, why)
    }

    /// A rule that is not carried over is reported. The requests that it may have refused are refused.
    fn unwritable(&mut self, rules: &Rules, rule: &Rule, why: &str) -> (Vec<Value>, bool) {
        let whole = rule.moves_on();
        let flags = rule.flags();
        let has = |names: &[&str]| flags.iter().any(|(name, _)| names.contains(&name.as_str()));
        let target = rule.directive.argument(1);
        let hint = "write it as a step of a route, or as a script (`docs/http/scripting.md`)";
        let place = &rule.directive.place;
        // A rule that only ends the others, or sets variables, redirects no request.
        if !whole && !rule.refuses() && target == "-" && !has(&["H", "HANDLER"]) {
            self.findings.lost(place, "RewriteRule", why, hint);
            return (Vec::new(), false);
        }
        self.findings.lost(
            place,
            "RewriteRule",
            &format!("{why}: requests that it applies to get 403"),
            hint,
        );
        let pattern = rule.directive.argument(0);
        let mut region = Where::default();
        if let Some(expression) = anchored(&rules.base, pattern, Case::Ignore).filter(|source| {
            is_pattern(source) && !whole && !pattern.starts_with('!') && !is_everything(pattern)
        }) {
            region.begins(&expression);
        }
        let conditions = region.conditions();
        let ends = conditions.is_empty();
        (vec![step(conditions, json!({"return": 403}))], ends)
    }
}

/// The files that conditions test, and the protocol that they require.
type ConditionChecks = (Looks, Option<&'static str>);

/// Puts conditions into a place; `None` if they never hold.
fn conditions(
    compiled: &[Compiled],
    place: &mut Where,
) -> Result<Option<ConditionChecks>, &'static str> {
    let (mut looks, mut scheme) = (Looks::default(), None);
    let mut rest = compiled;
    while !rest.is_empty() {
        let count = rest.iter().take_while(|one| one.or_next).count() + 1;
        let (group, tail) = rest.split_at(count.min(rest.len()));
        rest = tail;
        if let [only] = group {
            match &only.condition {
                Condition::Asked {
                    test,
                    negated: true,
                } => looks.missing.push(*test),
                Condition::Asked {
                    test,
                    negated: false,
                } if looks.there.is_empty() => looks.there.push(*test),
                Condition::Asked { .. } => return Err("a file test for two things at once"),
                Condition::File { path, negated } if looks.other.is_none() => {
                    looks.other = Some((path.clone(), !negated))
                }
                Condition::File { .. } => return Err("two files are tested"),
                Condition::Scheme(wanted) if scheme.is_none_or(|known| known == *wanted) => {
                    scheme = Some(*wanted)
                }
                Condition::Scheme(_) | Condition::Always(false) => return Ok(None),
                Condition::Always(true) => {}
                Condition::Path {
                    expression,
                    negated: false,
                } => place.begins(expression),
                Condition::Path {
                    expression,
                    negated: true,
                } => place.begins(&format!("(?!{expression})")),
                Condition::Test(test) => place.script(format!("({test})")),
            }
            continue;
        }
        let mut tests = Vec::new();
        for one in group {
            match &one.condition {
                Condition::Asked {
                    test,
                    negated: false,
                } => looks.there.push(*test),
                Condition::Scheme(scheme) => tests.push(format!(
                    "(vars.tls_protocol ? 'https' : 'http') === '{scheme}'"
                )),
                Condition::Always(holds) => tests.push(holds.to_string()),
                Condition::Path {
                    expression,
                    negated,
                } => {
                    let (expression, ignores) = match expression
                        .strip_prefix("(?i:")
                        .and_then(|rest| rest.strip_suffix(')'))
                    {
                        Some(inner) => (inner, Case::Ignore),
                        None => (expression.as_str(), Case::Exact),
                    };
                    let test = regex(&format!("^(?:{expression})"), ignores)
                        .ok_or("an expression cannot be written in JavaScript")?;
                    tests.push(format!(
                        "{}{test}.test((vars.uri ?? ''))",
                        if *negated { "!" } else { "" }
                    ));
                }
                Condition::Test(test) => tests.push(format!("({test})")),
                Condition::Asked { .. } | Condition::File { .. } => {
                    return Err("one of two conditions tests a file");
                }
            }
        }
        match (tests.is_empty(), looks.there.len() == group.len()) {
            (true, true) => {}
            (false, _) if looks.there.is_empty() => {
                place.script(format!("({})", tests.join(" || ")))
            }
            _ => return Err("one of two conditions tests a file"),
        }
    }
    let count = usize::from(!looks.missing.is_empty())
        + usize::from(!looks.there.is_empty())
        + usize::from(looks.other.is_some());
    if count > 1 {
        Err("several files are tested")
    } else {
        Ok(Some((looks, scheme)))
    }
}
