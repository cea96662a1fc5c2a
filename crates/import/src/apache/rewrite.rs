//! `RewriteRule`: rules become steps, one after the other. A rule that cannot be carried over, and would have denied some requests what is
//! behind it, denies all.

use serde_json::{Map, Value, json};
use tutti_config::pattern::Case;

use super::condition::{Compiled, Condition, anchored, compile, is_everything};
use super::effect::Effect;
use super::meaning::Captures;
use super::rule::{Rule, Rules, State};
use super::section::{Where, is_pattern};
use super::site::Compiler;
use crate::output::step;
use crate::template::{Text, case, regex, script_text};

/// Rules behind rules that change the path; each sees the path that the one before has made.
const DEEPEST_REST: usize = 12;

/// The outcomes of a look at a file for which a condition holds: it is a file, it is a folder, there is nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Outcomes {
    file: bool,
    folder: bool,
    nothing: bool,
}

impl Outcomes {
    const ALL: Outcomes = Outcomes {
        file: true,
        folder: true,
        nothing: true,
    };

    const NONE: Outcomes = Outcomes {
        file: false,
        folder: false,
        nothing: false,
    };

    /// Those of one test. A link alone is a file or a folder that is looked at by itself.
    fn of(test: char, negated: bool) -> Outcomes {
        let file = matches!(test, 'f' | 'e');
        let folder = matches!(test, 'd' | 'e');
        match negated {
            false => Outcomes {
                file,
                folder,
                nothing: false,
            },
            true => Outcomes {
                file: !file,
                folder: !folder,
                nothing: true,
            },
        }
    }

    fn and(self, other: Outcomes) -> Outcomes {
        Outcomes {
            file: self.file && other.file,
            folder: self.folder && other.folder,
            nothing: self.nothing && other.nothing,
        }
    }

    fn or(self, other: Outcomes) -> Outcomes {
        Outcomes {
            file: self.file || other.file,
            folder: self.folder || other.folder,
            nothing: self.nothing || other.nothing,
        }
    }
}

/// The looks at files of one rule, which must all have one of their outcomes.
struct Looks {
    /// The requested file.
    asked: Outcomes,
    others: Vec<(Text, Outcomes)>,
    /// A link alone is looked for.
    has_link: bool,
}

impl Looks {
    fn is_empty(&self) -> bool {
        self.asked == Outcomes::ALL && self.others.is_empty()
    }

    fn add(&mut self, path: Option<&Text>, outcomes: Outcomes) {
        match path {
            None => self.asked = self.asked.and(outcomes),
            Some(path) => match self.others.iter_mut().find(|(known, _)| known == path) {
                Some((_, known)) => *known = known.and(outcomes),
                None => self.others.push((path.clone(), outcomes)),
            },
        }
    }
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
        steps.push(json!({"action": {"pass": rules.end(&state)}}));
        steps
    }

    /// The destination for what comes behind a rule.
    pub(super) fn rest(&mut self, rules: &Rules, state: &State) -> String {
        let end = rules.end(state);
        if state.index >= rules.list.len() {
            return end.clone();
        }
        let first = rules
            .list
            .get(state.index)
            .map(|rule| rule.directive.place.clone());
        let key = (
            first.as_ref().map_or(0, |place| place.line),
            // The variables that rules before have set differ from way to way.
            format!(
                "{} {:?}",
                first.as_ref().map_or("", |place| &*place.file),
                state.meaning.environment
            ),
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
        if rule.restarts() {
            return self.unwritable(rules, rule, "rules with the flag `N` are not carried over");
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
        for condition in rule.asked() {
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
        let captured = Captures {
            rule: rule_captures,
            condition: last.as_deref(),
        };
        let mut steps = Vec::new();
        if !rule.is_chained()
            && let Some([first, second]) = alternatives(&compiled)
        {
            let (more, ends) = self.applied(
                rules,
                rule,
                &mut state.clone(),
                (&first, place.clone()),
                captured,
            );
            steps.extend(more);
            if ends {
                return (steps, true);
            }
            compiled = second;
        }
        let (more, ends) = self.applied(rules, rule, state, (&compiled, place), captured);
        steps.extend(more);
        (steps, ends)
    }

    /// Steps for a rule where these conditions hold.
    fn applied(
        &mut self,
        rules: &Rules,
        rule: &Rule,
        state: &mut State,
        (compiled, mut place): (&[Compiled], Where),
        captured: Captures<'_>,
    ) -> (Vec<Value>, bool) {
        let (looks, scheme) = match conditions(compiled, &mut place) {
            Ok(Some(found)) => found,
            // A chain that begins with it never applies.
            Ok(None) => {
                if rule.is_chained() {
                    behind_chain(rules, state);
                }
                return (Vec::new(), false);
            }
            Err(why) => return self.unset(rules, rule, why, state),
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
        if rule.is_chained() {
            // Where it does not hold, the rules that are chained to it do not either.
            behind_chain(rules, state);
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
                json!({"pass": rules.end(state)})
            }
            Effect::Act(action) => action,
        };
        let ends = conditions.is_empty();
        if looks.is_empty() {
            return (vec![step(conditions, action)], ends);
        }
        if looks.has_link {
            if rule.refuses() {
                return self.unwritable(rules, rule, "tests for links alone are not supported");
            }
            // The rules say what happens to the files and folders that links lead to.
            return (Vec::new(), false);
        }
        let acts = rules.list.iter().skip(state.index).any(Rule::acts);
        let is_nothing = Outcomes {
            nothing: true,
            ..Outcomes::NONE
        };
        let ends_rules = rule.directive.argument(1) == "-"
            && !state.is_rewritten
            && action.pointer("/pass").is_some();
        let rest = json!({"pass": self.rest(rules, state)});
        let is_front_controller = looks.asked == is_nothing && !rule.refuses();
        let mut steps = if is_front_controller && !acts && !state.is_rewritten {
            // The front controller: existing files and folders as usual, else this.
            let action = others(&looks, action, &rest);
            self.content(&rules.spot, Some(action.clone()), Some(action))
        } else if looks.asked == Outcomes::of('e', false) && looks.others.is_empty() && ends_rules {
            self.content(&rules.spot, Some(rest.clone()), Some(rest))
        } else {
            let action = others(&looks, action, &rest);
            let choose = |holds: bool| if holds { action.clone() } else { rest.clone() };
            match looks.asked {
                Outcomes::ALL => vec![json!({"action": action})],
                Outcomes::NONE => vec![json!({"action": rest})],
                asked => self.file_test(
                    &rules.spot,
                    &choose(asked.file),
                    &choose(asked.folder),
                    &choose(asked.nothing),
                ),
            }
        };
        if ends {
            return (steps, true);
        }
        if let [only] = steps.as_mut_slice()
            && only.get("match").is_none()
        {
            let action = only.get_mut("action").map(Value::take).unwrap_or_default();
            return (vec![step(conditions, action)], false);
        }
        let destination = self
            .out
            .add_route(&format!("{}-files", rules.spot.name), steps);
        (vec![step(conditions, json!({"pass": destination}))], false)
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
            let is_plain = looks.is_empty();
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
        let whole = rule.leads_others();
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

/// Goes on behind the rules that are chained to the one before.
fn behind_chain(rules: &Rules, state: &mut State) {
    while rules.list.get(state.index).is_some_and(Rule::is_chained) {
        state.index += 1;
    }
    state.index = (state.index + 1).min(rules.list.len());
}

/// Two lists of conditions of which one has to hold, if one alternative (`[OR]`) has tests of a file and other tests.
fn alternatives(compiled: &[Compiled]) -> Option<[Vec<Compiled>; 2]> {
    let is_file = |one: &Compiled| {
        matches!(
            one.condition,
            Condition::Asked { .. } | Condition::File { .. }
        )
    };
    let mut start = 0;
    loop {
        let rest = compiled.get(start..).filter(|rest| !rest.is_empty())?;
        let count = rest.iter().take_while(|one| one.or_next).count() + 1;
        let end = compiled.len().min(start + count);
        let group = compiled.get(start..end)?;
        if group.iter().any(is_file) && !group.iter().all(is_file) {
            let with = |wanted: bool| {
                let mut chosen: Vec<Compiled> = group
                    .iter()
                    .filter(|one| is_file(one) == wanted)
                    .cloned()
                    .collect();
                if let Some(last) = chosen.last_mut() {
                    last.or_next = false;
                }
                let before = compiled.get(..start).unwrap_or_default();
                let after = compiled.get(end..).unwrap_or_default();
                [before, &chosen, after].concat()
            };
            return Some([with(false), with(true)]);
        }
        start = end;
    }
}

/// The files that conditions test, and the protocol that they require.
type ConditionChecks = (Looks, Option<&'static str>);

/// Puts conditions into a place; `None` if they never hold.
fn conditions(
    compiled: &[Compiled],
    place: &mut Where,
) -> Result<Option<ConditionChecks>, &'static str> {
    let mut looks = Looks {
        asked: Outcomes::ALL,
        others: Vec::new(),
        has_link: false,
    };
    let mut scheme = None;
    let mut rest = compiled;
    while !rest.is_empty() {
        let count = rest.iter().take_while(|one| one.or_next).count() + 1;
        let (group, tail) = rest.split_at(count.min(rest.len()));
        rest = tail;
        if let [only] = group {
            match &only.condition {
                // A link is served as the file that it leads to.
                Condition::Asked {
                    test: 'l',
                    negated: true,
                } => {}
                Condition::Asked { test: 'l', .. } => looks.has_link = true,
                Condition::Asked { test, negated } => {
                    looks.add(None, Outcomes::of(*test, *negated))
                }
                Condition::File {
                    path,
                    test,
                    negated,
                } => looks.add(Some(path), Outcomes::of(*test, *negated)),
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
        let mut found: Option<(Option<&Text>, Outcomes)> = None;
        for one in group {
            match &one.condition {
                // It holds for a file that another test is about, too.
                Condition::Asked {
                    test: 'l',
                    negated: false,
                } => found = Some(found.unwrap_or((None, Outcomes::NONE))),
                Condition::Asked { .. } | Condition::File { .. } => {
                    let (path, outcomes) = match &one.condition {
                        Condition::File {
                            path,
                            test,
                            negated,
                        } => (Some(path), Outcomes::of(*test, *negated)),
                        Condition::Asked { test, negated } => (None, Outcomes::of(*test, *negated)),
                        _ => continue,
                    };
                    found = Some(match found {
                        None => (path, outcomes),
                        Some((known, before)) if known == path => (path, before.or(outcomes)),
                        Some(_) => return Err("conditions that test two files"),
                    });
                }
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
            }
        }
        match (found, tests.is_empty()) {
            (Some((path, outcomes)), true) => looks.add(path, outcomes),
            (None, _) => place.script(format!("({})", tests.join(" || "))),
            (Some(_), false) => return Err("one of two conditions tests a file"),
        }
    }
    Ok(Some((looks, scheme)))
}

/// An action behind looks at other files than the requested one; `rest` where they have another outcome.
fn others(looks: &Looks, action: Value, rest: &Value) -> Value {
    looks.others.iter().rev().fold(action, |action, (path, outcomes)| {
        let choose = |holds: bool| if holds { action.clone() } else { rest.clone() };
        json!({"share": path.template(), "index": "", "found": choose(outcomes.file), "folder": choose(outcomes.folder), "fallback": choose(outcomes.nothing)})
    })
}
