//! Access control: `Require`, and `Order`, `Allow` and `Deny` of Apache 2.2.
//!
//! Both are evaluated, one after the other, as in Apache; each takes its answer from the last section that has directives of its kind. A
//! directive that cannot be carried over denies all clients.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Map, Value, json};

use super::closing::is_require;
use super::grammar::Directive;
use super::limit;
use super::meaning::Meaning;
use super::section::{Extent, Mapping, Section, Where};
use super::who::{Authentication, Clause, Who, negated};
use crate::finding::Findings;
use crate::output::{one_or_many, step};
use crate::sources::Sources;

const LOOPBACK: [&str; 2] = ["127.0.0.0/8", "::1"];

/// The cure for requirements without an equivalent.
const OTHER_CHECKS: &str =
    "use `authenticate` for passwords (`docs/http/access.md`), `match.source` for addresses";

/// The cure for a requirement about a group.
const MEMBERS: &str =
    "write `Require user NAME …` with the members of the group, then import again";

/// The things that rules of access look at besides the sections.
pub(super) struct Access<'a> {
    pub(super) findings: &'a mut Findings,
    pub(super) meaning: &'a Meaning,
    pub(super) sources: &'a dyn Sources,
}

/// True if a client must meet only one of the requirements of a section: addresses, or a login.
fn satisfies_any(section: &Section) -> bool {
    let mut directives = section.directives.iter();
    let said = directives.rfind(|one| one.is("satisfy"));
    said.is_some_and(|one| one.word(0) == "any") && has_order(section) && has_require(section)
}

/// Reports a `Satisfy Any` whose requirements stand in several sections: clients must meet them all.
pub(super) fn report_satisfy(section: &Section, findings: &mut Findings) {
    let mut directives = section.directives.iter();
    let said = directives.rfind(|one| one.is("satisfy") && one.word(0) == "any");
    if let Some(said) = said.filter(|_| !satisfies_any(section)) {
        let problem = "clients with an allowed address must still meet the other requirements";
        let hint = "write `Order`, `Allow` and `Require` into the section with `Satisfy Any`, then import again";
        findings.lost(&said.place, &said.name, problem, hint);
    }
}

fn has_order(section: &Section) -> bool {
    let is_order = |one: &Directive| matches!(one.key.as_str(), "order" | "allow" | "deny");
    section.directives.iter().any(is_order)
}

fn has_require(section: &Section) -> bool {
    section.directives.iter().any(is_require)
}

/// Returns what a section's `Require` allows, or `None` if it has none.
pub(super) fn required(section: &Section, access: &mut Access<'_>) -> Option<Who> {
    by_method(section, access, by_require)
}

/// Returns what a section allows, each method asked by itself; `None` if it has no directive that `ask` looks at.
fn by_method(
    section: &Section,
    access: &mut Access<'_>,
    ask: fn(&Section, &mut Access<'_>) -> Option<Who>,
) -> Option<Who> {
    let mut named = BTreeSet::new();
    let first = limit::names(&section.directives, &mut named).cloned();
    let Some(first) = first else {
        return ask(section, access);
    };
    let methods = named.iter().map(|name| Some(name.as_str())).chain([None]);
    let mut asked = Vec::new();
    for method in methods {
        let mut own = section.clone();
        own.directives = limit::of_method(&section.directives, method);
        asked.push((method, ask(&own, access)));
    }
    if asked.iter().all(|(_, who)| who.is_none()) {
        return None;
    }
    let mut groups: Vec<(Who, Vec<Option<&str>>)> = Vec::new();
    for (method, who) in asked {
        let who = who.unwrap_or(Who::Any);
        match groups.iter_mut().find(|(known, _)| *known == who) {
            Some((_, methods)) => methods.push(method),
            None => groups.push((who, vec![method])),
        }
    }
    if let [(only, _)] = groups.as_slice() {
        return Some(only.clone());
    }
    let mut all = Who::NoClient;
    for (who, methods) in groups {
        let is_second = matches!((&all, &who), (Who::Asked(_), Who::Asked(_)));
        let test = Who::Some(vec![Clause::of_test(is_one_of(&methods, &named))]);
        let who = test.and(who).filter(|_| !is_second).unwrap_or_else(|| {
            let why = "several logins, or passwords and addresses, for different methods";
            refuse(&first, why, OTHER_CHECKS, access)
        });
        all = all.or(who);
    }
    Some(all)
}

/// The test for a group of methods; `named`: all that limits name.
fn is_one_of(methods: &[Option<&str>], named: &BTreeSet<String>) -> String {
    let has_others = methods.contains(&None);
    let listed = named
        .iter()
        .filter(|name| methods.contains(&Some(name.as_str())) != has_others);
    let test = is_method(listed);
    match has_others {
        true => format!("!{test}"),
        false => test,
    }
}

fn by_require(section: &Section, access: &mut Access<'_>) -> Option<Who> {
    let who = all_required(section, access)?;
    Some(match satisfies_any(section) {
        true => who.or(by_order(section, access)?),
        false => who,
    })
}

fn all_required(section: &Section, access: &mut Access<'_>) -> Option<Who> {
    let authenticates = section
        .directives
        .iter()
        .any(|directive| directive.is("authtype") && directive.word(0) != "none");
    let says: Vec<&Directive> = section
        .directives
        .iter()
        .filter(|directive| is_require(directive))
        .collect();
    if says.is_empty() && !authenticates {
        return None;
    }
    if let Some(merging) = section
        .directives
        .iter()
        .find(|directive| directive.is("authmerging") && directive.word(0) != "off")
    {
        let hint = "write all requirements into this section";
        access.findings.lost(&merging.place, "AuthMerging", "requirements combined from several sections are not carried over: all requests are denied here", hint);
        return Some(Who::NoClient);
    }
    if says.is_empty() {
        // A section that asks for a login without a `Require` around it uses the access control of the sections around.
        return None;
    }
    let login = basic(section).map(|basic| Login {
        basic,
        groups: groups(section, access.sources),
    });
    Some(any(&says, login.as_ref(), access))
}

/// The passwords of a section, and its groups of users.
struct Login {
    basic: Map<String, Value>,
    groups: BTreeMap<String, Vec<String>>,
}

/// Reads the file of groups that a section names.
fn groups(section: &Section, sources: &dyn Sources) -> BTreeMap<String, Vec<String>> {
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut directives = section.directives.iter();
    let file = directives.rfind(|one| one.is("authgroupfile"));
    let bytes = file.and_then(|file| sources.read(Path::new(file.argument(0))).ok());
    let text = String::from_utf8(bytes.unwrap_or_default()).unwrap_or_default();
    for line in text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'))
    {
        if let Some((name, users)) = line.split_once(':') {
            let users = users.split_whitespace().map(str::to_owned);
            groups
                .entry(name.trim().to_owned())
                .or_default()
                .extend(users);
        }
    }
    groups
}

/// Returns the passwords of a section: those of a file, whose hashes have been checked.
fn basic(section: &Section) -> Option<Map<String, Value>> {
    let last = |key: &str| {
        let mut directives = section.directives.iter();
        directives.rfind(|directive| directive.is(key))
    };
    if last("authtype")?.word(0) != "basic"
        || last("authbasicprovider").is_some_and(|provider| provider.word(0) != "file")
        || last("authbasicfake").is_some()
    {
        return None;
    }
    let file = last("authuserfile")?.argument(0);
    if !file.starts_with('/') {
        return None;
    }
    let mut basic = Map::from_iter([("file".to_owned(), file.into())]);
    let is_plain = |character: char| {
        (character.is_ascii_graphic() || character == ' ') && !r#""\$"#.contains(character)
    };
    let realm = last("authname").map_or("", |name| name.argument(0));
    if !realm.is_empty() && realm.chars().all(is_plain) {
        basic.insert("realm".to_owned(), realm.into());
    }
    Some(basic)
}

fn any(directives: &[&Directive], login: Option<&Login>, access: &mut Access<'_>) -> Who {
    let mut who = Who::NoClient;
    for directive in directives {
        who = who.or(one(directive, login, access));
    }
    who
}

fn one(directive: &Directive, login: Option<&Login>, access: &mut Access<'_>) -> Who {
    let inner: Vec<&Directive> = directive
        .inner()
        .iter()
        .filter(|inner| is_require(inner))
        .collect();
    match directive.key.as_str() {
        "requireany" => any(&inner, login, access),
        "requireall" => {
            let mut who = Who::Any;
            for inner in inner {
                let next = one(inner, login, access);
                who = match who.and(next) {
                    Some(who) => who,
                    None => refuse(
                        inner,
                        "two lists of addresses that must both match",
                        OTHER_CHECKS,
                        access,
                    ),
                };
            }
            who
        }
        "requirenone" => {
            let mut who = Who::Any;
            for inner in inner {
                who = match negated(one(inner, login, access)).and_then(|next| who.and(next)) {
                    Some(who) => who,
                    None => refuse(inner, "a negated requirement", OTHER_CHECKS, access),
                };
            }
            who
        }
        _ => require(directive, login, access),
    }
}

fn require(directive: &Directive, login: Option<&Login>, access: &mut Access<'_>) -> Who {
    let mut words: Vec<String> = directive
        .arguments
        .iter()
        .map(|word| word.to_ascii_lowercase())
        .collect();
    let negates = words.first().is_some_and(|word| word == "not");
    if negates {
        words.remove(0);
    }
    let (kind, rest) = match words.split_first() {
        Some((kind, rest)) => (kind.as_str(), rest),
        None => ("", [].as_slice()),
    };
    let named = directive.arguments.iter().skip(1 + usize::from(negates));
    let asked = |basic: Map<String, Value>| {
        Who::Asked(Authentication {
            past: Vec::new(),
            within: Clause::default(),
            basic,
        })
    };
    let tested = |test: String| Some(Who::Some(vec![Clause::of_test(test)]));
    let mut why = "Tutti has no equivalent".to_owned();
    let mut hint = OTHER_CHECKS;
    let who = match (kind, rest) {
        ("all", [word]) if word == "granted" => Some(Who::Any),
        ("all", [word]) if word == "denied" => Some(Who::NoClient),
        ("local", []) => Some(Who::Some(vec![Clause::of_sources(
            LOOPBACK.map(str::to_owned).to_vec(),
        )])),
        ("valid-user", []) => login.map(|login| asked(login.basic.clone())),
        ("user", [_, ..]) => {
            let users: Vec<String> = named.cloned().collect();
            login
                .and_then(|login| of_users(login, &users, directive, access))
                .map(asked)
        }
        ("group", [_, ..]) => {
            hint = MEMBERS;
            match members(login, named) {
                Ok((login, users)) => of_users(login, &users, directive, access).map(asked),
                Err(error) => {
                    why = error;
                    None
                }
            }
        }
        ("method", [_, ..]) => tested(is_method(named)),
        ("env", [_, ..]) => match is_set(named, access.meaning) {
            Ok(test) => tested(test),
            Err(error) => {
                why = error;
                None
            }
        },
        ("expr", _) => {
            let source = directive.expression(1 + usize::from(negates));
            match super::expression::condition(&source, access.meaning) {
                Ok(test) => tested(test),
                Err(error) => {
                    why = error;
                    None
                }
            }
        }
        ("ip", addresses) => {
            let patterns: Option<Vec<String>> =
                addresses.iter().map(|address| pattern(address)).collect();
            patterns
                .filter(|patterns| !patterns.is_empty())
                .map(|patterns| Who::Some(vec![Clause::of_sources(patterns)]))
        }
        _ => None,
    };
    let who = if negates { who.and_then(negated) } else { who };
    match who {
        Some(who) => who,
        None => refuse(directive, &why, hint, access),
    }
}

/// The passwords of a section, and the members of groups; the error says what is missing for them.
fn members<'l, 'n>(
    login: Option<&'l Login>,
    groups: impl Iterator<Item = &'n String>,
) -> Result<(&'l Login, Vec<String>), String> {
    let login = login.ok_or(
        "the section needs `AuthType Basic` and an `AuthUserFile` for it, as full path".to_owned(),
    )?;
    if login.groups.is_empty() {
        return Err("`AuthGroupFile` is missing, or cannot be read".to_owned());
    }
    let mut users = Vec::new();
    for group in groups {
        let members = login.groups.get(group.as_str());
        let members = members.ok_or_else(|| format!("`AuthGroupFile` has no group `{group}`"))?;
        users.extend(members.iter().cloned());
    }
    Ok((login, users))
}

/// `basic` for some users of a file; `None` if it cannot be read.
fn of_users(
    login: &Login,
    users: &[String],
    directive: &Directive,
    access: &mut Access<'_>,
) -> Option<Map<String, Value>> {
    let file = login.basic.get("file").and_then(Value::as_str)?;
    let bytes = access.sources.read(Path::new(file)).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    let mut hashes = Map::new();
    for (user, hash) in text.lines().filter_map(|line| line.trim().split_once(':')) {
        if users.iter().any(|known| known == user) {
            hashes.entry(user).or_insert_with(|| hash.into());
        }
    }
    if hashes.is_empty() {
        return None;
    }
    let problem = "the users are part of the configuration: changes of the file have no effect";
    let hint = "import again after a change of the file";
    access
        .findings
        .note(&directive.place, &directive.name, problem, hint);
    let mut basic = login.basic.clone();
    basic.remove("file");
    basic.insert("users".to_owned(), hashes.into());
    Some(basic)
}

/// The test of `Require method`.
fn is_method<'n>(names: impl Iterator<Item = &'n String>) -> String {
    let methods: Vec<String> = names
        .map(|name| crate::template::quoted(&name.to_ascii_uppercase()))
        .collect();
    // HEAD is a kind of GET.
    let head = match methods.iter().any(|one| one == "'GET'") {
        true => ", 'HEAD'",
        false => "",
    };
    format!(
        "[{}{head}].includes((vars.method ?? ''))",
        methods.join(", ")
    )
}

/// The test of `Require env`.
fn is_set<'n>(
    mut names: impl Iterator<Item = &'n String>,
    meaning: &Meaning,
) -> Result<String, String> {
    let tests: Result<Vec<String>, String> = names
        .by_ref()
        .map(|name| {
            let text = super::expression::text(&format!("%{{ENV:{name}}}"), meaning)?;
            Ok(format!("{} !== ''", text.expression()))
        })
        .collect();
    tests.map(|tests| tests.join(" || "))
}

/// Reports that a directive admits no client.
fn refuse(directive: &Directive, why: &str, hint: &str, access: &mut Access<'_>) -> Who {
    let problem = format!(
        "`{}`: {why}: requests that it applies to get 403",
        directive.arguments.join(" ")
    );
    access
        .findings
        .lost(&directive.place, &directive.name, &problem, hint);
    Who::NoClient
}

/// An address as a pattern: `10.1`, `10.1.2.3`, `10.0.0.0/8`, `10.0.0.0/255.0.0.0`.
fn pattern(text: &str) -> Option<String> {
    let (address, mask) = match text.split_once('/') {
        Some((address, mask)) => (address, Some(mask)),
        None => (text, None),
    };
    if address.contains(':') {
        address.parse::<std::net::Ipv6Addr>().ok()?;
        return match mask {
            Some(mask) => (mask.parse::<u8>().ok()? <= 128).then(|| text.to_owned()),
            None => Some(text.to_owned()),
        };
    }
    let mut parts: Vec<u8> = Vec::new();
    for part in address.trim_end_matches('.').split('.') {
        parts.push(part.parse().ok()?);
    }
    let known = parts.len();
    if known > 4 {
        return None;
    }
    parts.resize(4, 0);
    let whole: Vec<String> = parts.iter().map(u8::to_string).collect();
    let whole = whole.join(".");
    let bits = match mask {
        None if known == 4 => return Some(whole),
        None => known as u32 * 8,
        Some(mask) => match mask.parse::<u32>() {
            Ok(bits) => bits,
            Err(_) => {
                let bits = u32::from(mask.parse::<std::net::Ipv4Addr>().ok()?);
                // A mask with holes cannot be written as a network.
                (bits.leading_ones() + bits.trailing_zeros() >= 32).then(|| bits.leading_ones())?
            }
        },
    };
    (bits <= 32).then(|| format!("{whole}/{bits}"))
}

/// Returns what a section's `Order`, `Allow` and `Deny` allow, or `None` if it has none.
pub(super) fn ordered(section: &Section, access: &mut Access<'_>) -> Option<Who> {
    by_method(section, access, by_order_alone)
}

fn by_order_alone(section: &Section, access: &mut Access<'_>) -> Option<Who> {
    // Clients that meet the other requirements need not meet this one.
    match satisfies_any(section) {
        true => Some(Who::Any),
        false => by_order(section, access),
    }
}

fn by_order(section: &Section, access: &mut Access<'_>) -> Option<Who> {
    let says = |key: &'static str| {
        section
            .directives
            .iter()
            .filter(move |directive| directive.key == key)
    };
    if !has_order(section) {
        return None;
    }
    let order = says("order").next_back().map_or_else(String::new, |order| {
        order.arguments.join("").to_ascii_lowercase()
    });
    let (allow_all, allowed) = hosts(says("allow"), access, false);
    let (deny_all, denied) = hosts(says("deny"), access, true);
    // The clients of no `Deny`: no condition for any of them holds.
    let mut not_denied = Clause::default();
    for clause in &denied {
        let sources = clause.sources.iter().map(|pattern| format!("!{pattern}"));
        not_denied.sources.extend(sources);
        not_denied
            .tests
            .extend(clause.tests.iter().map(|test| format!("!({test})")));
    }
    let allowed_clients = || match allowed.is_empty() {
        true => Who::NoClient,
        false => Who::Some(allowed.clone()),
    };
    let others = || match denied.is_empty() {
        true => Who::Any,
        false => Who::Some(vec![not_denied.clone()]),
    };
    Some(match order.as_str() {
        "allow,deny" | "mutual-failure" => match (allow_all, deny_all) {
            (_, true) => Who::NoClient,
            (true, false) => others(),
            (false, false) => allowed_clients().and(others()).unwrap_or(Who::NoClient),
        },
        _ if allow_all => Who::Any,
        _ if deny_all => allowed_clients(),
        _ => others().or(allowed_clients()),
    })
}

/// All of them, or the conditions. One that is not understood denies all clients as `Deny`, and allows none as `Allow`.
fn hosts<'d>(
    directives: impl Iterator<Item = &'d Directive>,
    access: &mut Access<'_>,
    denies: bool,
) -> (bool, Vec<Clause>) {
    let (mut all, mut patterns, mut tests) = (false, Vec::new(), Vec::new());
    for directive in directives {
        for host in directive
            .arguments
            .iter()
            .skip(usize::from(directive.word(0) == "from"))
        {
            let lower = host.to_ascii_lowercase();
            let mut why = format!("`{host}` is not an address");
            let known = match lower.as_str() {
                "all" => {
                    all = true;
                    true
                }
                "localhost" => {
                    patterns.extend(LOOPBACK.map(str::to_owned));
                    true
                }
                _ if lower.starts_with("env=") => {
                    let name = host.get(4..).unwrap_or_default();
                    let (name, is_set) = match name.strip_prefix('!') {
                        Some(name) => (name, "==="),
                        None => (name, "!=="),
                    };
                    let text = super::expression::text(&format!("%{{ENV:{name}}}"), access.meaning);
                    match text {
                        Ok(text) => {
                            tests.push(format!("{} {is_set} ''", text.expression()));
                            true
                        }
                        Err(error) => {
                            why = error;
                            false
                        }
                    }
                }
                lower => pattern(lower)
                    .map(|pattern| patterns.push(pattern))
                    .is_some(),
            };
            if !known {
                let effect = if denies {
                    "all requests are denied"
                } else {
                    "it admits no client"
                };
                let hint = "write addresses; host names of clients are not resolved";
                access.findings.lost(
                    &directive.place,
                    &directive.name,
                    &format!("{why}: {effect}"),
                    hint,
                );
                all |= denies;
            }
        }
    }
    let mut clauses: Vec<Clause> = tests.into_iter().map(Clause::of_test).collect();
    if !patterns.is_empty() {
        clauses.push(Clause::of_sources(patterns));
    }
    (all, clauses)
}

/// Returns the answer of a section that refuses all clients, whatever other directives allow.
pub(super) fn closed(section: &Section, _access: &mut Access<'_>) -> Option<Who> {
    let closes = section.directives.iter().any(super::closing::closes);
    closes.then_some(Who::NoClient)
}

/// The access control of a section, and the place where it holds.
pub(super) struct Rule {
    place: Where,
    /// The place for which the section refuses: rather too much.
    wide: Where,
    who: Who,
}

/// Returns the rules of one kind for a mapping, the last one first.
///
/// `doubts`: the client's address may differ from the one that the source means, so that rules about addresses let no
/// client in.
pub(super) fn rules(
    (sections, doubts): (&[Section], bool),
    mapping: &Mapping,
    access: &mut Access<'_>,
    ask: fn(&Section, &mut Access<'_>) -> Option<Who>,
) -> Vec<Rule> {
    let mut rules = Vec::new();
    for section in sections.iter().rev() {
        let Some(wide) = section.place(mapping, Extent::Wide) else {
            continue;
        };
        let Some(mut who) = ask(section, access) else {
            continue;
        };
        if doubts && who.looks_at_addresses() {
            who = Who::NoClient;
        }
        let is_last = wide.is_everywhere() && !section.is_unknown;
        rules.push(match section.place(mapping, Extent::Narrow) {
            Some(place) => Rule { place, wide, who },
            // It holds only sometimes: it may refuse, and lets no client in.
            None => {
                let refuses = who != Who::Any;
                if let (true, Some(first)) = (refuses, section.directives.first()) {
                    let hint = "write it as a `match` (`docs/reference/options.md`)";
                    access.findings.lost(
                        &first.place,
                        &first.name,
                        "the condition of its section cannot be carried over: all requests are denied here",
                        hint,
                    );
                }
                let place = Where::default();
                Rule {
                    place,
                    wide: Where::default(),
                    who: if refuses { Who::NoClient } else { continue },
                }
            }
        });
        if is_last {
            break;
        }
    }
    // The last ones let all clients in, which is the default anyway.
    while rules.last().is_some_and(|rule| rule.who == Who::Any) {
        rules.pop();
    }
    rules
}

/// Returns the steps of rules; clients that are let in go on to `next`. The second value: the steps hold nothing but refusals, and may
/// stand before other steps.
pub(super) fn steps(
    rules: &[Rule],
    next: &dyn Fn() -> Value,
    refusal: &Value,
) -> (Vec<Value>, bool) {
    let mut steps = Vec::new();
    let mut only_refusals = true;
    for (index, rule) in rules.iter().enumerate() {
        let refuse = |conditions: Map<String, Value>| step(conditions, refusal.clone());
        // One list of addresses that stands last needs no step for the clients that are let in.
        if let (Who::Some(clauses), true) = (&rule.who, index + 1 == rules.len())
            && let [clause] = clauses.as_slice()
            && clause.tests.is_empty()
            && let Some(opposite) = opposite(&clause.sources)
        {
            let mut conditions = rule.wide.conditions();
            conditions.insert("source".to_owned(), one_or_many(opposite));
            steps.push(refuse(conditions));
            continue;
        }
        match &rule.who {
            Who::NoClient => steps.push(refuse(rule.wide.conditions())),
            Who::Any => {
                only_refusals = false;
                steps.push(step(rule.place.conditions(), next()));
            }
            Who::Asked(asked) => {
                only_refusals = false;
                for clause in &asked.past {
                    steps.push(step(clause.restrict(&rule.place), next()));
                }
                let mut action = next();
                if let Some(action) = action.as_object_mut() {
                    let basic = json!({"basic": asked.basic});
                    action.insert("authenticate".to_owned(), basic);
                }
                steps.push(step(asked.within.restrict(&rule.place), action));
                if asked.within != Clause::default() || rule.wide != rule.place {
                    steps.push(refuse(rule.wide.conditions()));
                }
            }
            Who::Some(clauses) => {
                only_refusals = false;
                for clause in clauses {
                    steps.push(step(clause.restrict(&rule.place), next()));
                }
                steps.push(refuse(rule.wide.conditions()));
            }
        }
    }
    (steps, only_refusals)
}

/// The opposite of a list of patterns, if one list can say it.
fn opposite(list: &[String]) -> Option<Vec<String>> {
    let is_negative = |pattern: &&String| pattern.starts_with('!');
    match list.iter().filter(is_negative).count() {
        0 => Some(list.iter().map(|pattern| format!("!{pattern}")).collect()),
        count if count == list.len() => Some(
            list.iter()
                .map(|pattern| pattern.trim_start_matches('!').to_owned())
                .collect(),
        ),
        _ => None,
    }
}

/// Returns the action for clients that no rule lets in.
pub(super) fn refusal() -> Value {
    json!({"return": 403})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (text, expected) in [
            ("10.1", Some("10.1.0.0/16")),
            ("10.1.", Some("10.1.0.0/16")),
            ("10.1.2.3", Some("10.1.2.3")),
            ("10.0.0.0/8", Some("10.0.0.0/8")),
            ("10.0.0.0/255.255.0.0", Some("10.0.0.0/16")),
            ("10.0.0.0/255.0.255.0", None),
            ("2001:db8::/32", Some("2001:db8::/32")),
            ("::1", Some("::1")),
            ("example.org", None),
            ("10.0.0.0/40", None),
        ] {
            assert_eq!(pattern(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn two_must_both_hold() {
        let some = |list: &[&str]| {
            let sources = list.iter().map(|one| (*one).to_owned()).collect();
            Who::Some(vec![Clause::of_sources(sources)])
        };
        assert_eq!(
            some(&["10.0.0.0/8"]).and(some(&["!10.1.0.0/16"])),
            Some(some(&["10.0.0.0/8", "!10.1.0.0/16"]))
        );
        assert_eq!(some(&["10.0.0.0/8"]).and(some(&["11.0.0.0/8"])), None);
        assert_eq!(some(&["10.0.0.1"]).or(Who::NoClient), some(&["10.0.0.1"]));
    }
}
