//! Access control: `Require`, and `Order`, `Allow` and `Deny` of Apache 2.2.
//!
//! Both are evaluated, one after the other, as in Apache; each takes its answer from the last section that has
//! directives of its kind. A
//! directive that cannot be carried over denies all clients.

use serde_json::{Map, Value, json};

use super::grammar::Directive;
use super::section::{Extent, Mapping, Section, Where};
use crate::finding::Findings;
use crate::output::{one_or_many, step};

/// The clients that are let in.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Who {
    Any,
    NoClient,
    /// Conditions about the source, of which one must hold; each is a list of patterns.
    Some(Vec<Vec<String>>),
    /// Clients with a password.
    Asked(Authentication),
}

/// The clients that need a password, and those that need none.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Authentication {
    /// Clients from one of these addresses need none; lists of patterns.
    past: Vec<Vec<String>>,
    /// The addresses that a client must come from besides; empty: anywhere.
    within: Vec<String>,
    /// `basic` of `authenticate`.
    basic: Map<String, Value>,
}

const LOOPBACK: [&str; 2] = ["127.0.0.0/8", "::1"];

impl Who {
    /// True if addresses of clients decide.
    fn looks_at_addresses(&self) -> bool {
        match self {
            Who::Any | Who::NoClient => false,
            Who::Some(_) => true,
            Who::Asked(asked) => !(asked.past.is_empty() && asked.within.is_empty()),
        }
    }

    /// Returns the clients that at least one of the two lets in.
    fn or(self, other: Who) -> Who {
        match (self, other) {
            (Who::Any, _) | (_, Who::Any) => Who::Any,
            (Who::NoClient, who) | (who, Who::NoClient) => who,
            (Who::Asked(mut asked), Who::Some(lists))
            | (Who::Some(lists), Who::Asked(mut asked)) => {
                asked.past.extend(lists);
                Who::Asked(asked)
            }
            // One file of passwords is used; users of only the other file are not let in.
            (Who::Asked(asked), Who::Asked(_)) => Who::Asked(asked),
            (Who::Some(mut lists), Who::Some(more)) => {
                // Addresses that are let in are one list.
                let positive =
                    |list: &Vec<String>| list.iter().all(|pattern| !pattern.starts_with('!'));
                for list in more {
                    match lists
                        .iter_mut()
                        .find(|known| positive(known))
                        .filter(|_| positive(&list))
                    {
                        Some(known) => known.extend(list),
                        None => lists.push(list),
                    }
                }
                Who::Some(lists)
            }
        }
    }

    /// Returns the clients that both let in; `None` where no condition can express it.
    fn and(self, other: Who) -> Option<Who> {
        Some(match (self, other) {
            (Who::NoClient, _) | (_, Who::NoClient) => Who::NoClient,
            (Who::Any, who) | (who, Who::Any) => who,
            (Who::Asked(asked), Who::Asked(other)) => {
                return (asked == other).then_some(Who::Asked(asked));
            }
            (Who::Asked(mut asked), Who::Some(lists))
            | (Who::Some(lists), Who::Asked(mut asked)) => {
                let [list] = lists.as_slice() else {
                    return None;
                };
                if !(asked.past.is_empty() && asked.within.is_empty()) {
                    return None;
                }
                asked.within.clone_from(list);
                Who::Asked(asked)
            }
            (Who::Some(lists), Who::Some(more)) => {
                let ([one], [other]) = (lists.as_slice(), more.as_slice()) else {
                    return None;
                };
                let has_positive =
                    |list: &[String]| list.iter().any(|pattern| !pattern.starts_with('!'));
                if has_positive(one) && has_positive(other) {
                    return None;
                }
                Who::Some(vec![[one.as_slice(), other.as_slice()].concat()])
            }
        })
    }
}

/// Returns what a section's `Require` allows, or `None` if it has none.
pub(super) fn required(section: &Section, findings: &mut Findings) -> Option<Who> {
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
        findings.lost(&merging.place, "AuthMerging", "requirements combined from several sections are not carried over: all requests are denied here", hint);
        return Some(Who::NoClient);
    }
    if says.is_empty() {
        // A section that asks for a login without a `Require` around it uses the access control of the sections around.
        return None;
    }
    Some(any(&says, basic(section).as_ref(), findings))
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

fn is_require(directive: &Directive) -> bool {
    matches!(
        directive.key.as_str(),
        "require" | "requireany" | "requireall" | "requirenone"
    )
}

fn any(
    directives: &[&Directive],
    basic: Option<&Map<String, Value>>,
    findings: &mut Findings,
) -> Who {
    let mut who = Who::NoClient;
    for directive in directives {
        who = who.or(one(directive, basic, findings));
    }
    who
}

fn one(directive: &Directive, basic: Option<&Map<String, Value>>, findings: &mut Findings) -> Who {
    let inner: Vec<&Directive> = directive
        .inner()
        .iter()
        .filter(|inner| is_require(inner))
        .collect();
    match directive.key.as_str() {
        "requireany" => any(&inner, basic, findings),
        "requireall" => {
            let mut who = Who::Any;
            for inner in inner {
                let next = one(inner, basic, findings);
                who = match who.and(next) {
                    Some(who) => who,
                    None => refuse(
                        inner,
                        "two lists of addresses that must both hold",
                        findings,
                    ),
                };
            }
            who
        }
        "requirenone" => {
            let mut who = Who::Any;
            for inner in inner {
                who = match negated(one(inner, basic, findings)).and_then(|next| who.and(next)) {
                    Some(who) => who,
                    None => refuse(inner, "a negated requirement", findings),
                };
            }
            who
        }
        _ => require(directive, basic, findings),
    }
}

fn negated(who: Who) -> Option<Who> {
    Some(match who {
        Who::Any => Who::NoClient,
        Who::NoClient => Who::Any,
        Who::Asked(_) => return None,
        Who::Some(lists) => {
            let [list] = lists.as_slice() else {
                return None;
            };
            if list.iter().any(|pattern| pattern.starts_with('!')) {
                return None;
            }
            Who::Some(vec![
                list.iter().map(|pattern| format!("!{pattern}")).collect(),
            ])
        }
    })
}

fn require(
    directive: &Directive,
    basic: Option<&Map<String, Value>>,
    findings: &mut Findings,
) -> Who {
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
    let who = match (kind, rest) {
        ("all", [word]) if word == "granted" => Some(Who::Any),
        ("all", [word]) if word == "denied" => Some(Who::NoClient),
        ("local", []) => Some(Who::Some(vec![LOOPBACK.map(str::to_owned).to_vec()])),
        ("valid-user", []) => basic.map(|basic| {
            Who::Asked(Authentication {
                past: Vec::new(),
                within: Vec::new(),
                basic: basic.clone(),
            })
        }),
        ("ip", addresses) => {
            let patterns: Option<Vec<String>> =
                addresses.iter().map(|address| pattern(address)).collect();
            patterns
                .filter(|patterns| !patterns.is_empty())
                .map(|patterns| Who::Some(vec![patterns]))
        }
        _ => None,
    };
    let who = if negates { who.and_then(negated) } else { who };
    match who {
        Some(who) => who,
        None => refuse(directive, "Tutti has no equivalent", findings),
    }
}

/// Reports that a directive admits no client.
fn refuse(directive: &Directive, why: &str, findings: &mut Findings) -> Who {
    let problem = format!(
        "`{}`: {why}: requests that it applies to get 403",
        directive.arguments.join(" ")
    );
    let hint =
        "use `authenticate` for passwords (`docs/http/access.md`), `match.source` for addresses";
    findings.lost(&directive.place, &directive.name, &problem, hint);
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
pub(super) fn ordered(section: &Section, findings: &mut Findings) -> Option<Who> {
    let says = |key: &'static str| {
        section
            .directives
            .iter()
            .filter(move |directive| directive.key == key)
    };
    if !section
        .directives
        .iter()
        .any(|directive| matches!(directive.key.as_str(), "order" | "allow" | "deny"))
    {
        return None;
    }
    let order = says("order").next_back().map_or_else(String::new, |order| {
        order.arguments.join("").to_ascii_lowercase()
    });
    let (allow_all, allowed) = hosts(says("allow"), findings, false);
    let (deny_all, denied) = hosts(says("deny"), findings, true);
    let not = |list: &[String]| -> Vec<String> {
        list.iter().map(|pattern| format!("!{pattern}")).collect()
    };
    Some(match order.as_str() {
        "allow,deny" | "mutual-failure" => match (allow_all, deny_all) {
            (_, true) => Who::NoClient,
            (true, false) if denied.is_empty() => Who::Any,
            (true, false) => Who::Some(vec![not(&denied)]),
            (false, false) if allowed.is_empty() => Who::NoClient,
            (false, false) => Who::Some(vec![[allowed, not(&denied)].concat()]),
        },
        _ if allow_all || !deny_all && denied.is_empty() => Who::Any,
        _ if deny_all && allowed.is_empty() => Who::NoClient,
        _ if deny_all => Who::Some(vec![allowed]),
        _ if allowed.is_empty() => Who::Some(vec![not(&denied)]),
        _ => Who::Some(vec![not(&denied), allowed]),
    })
}

/// All of them, or the patterns. One that is not understood denies all clients as `Deny`, and allows none as `Allow`.
fn hosts<'d>(
    directives: impl Iterator<Item = &'d Directive>,
    findings: &mut Findings,
    denies: bool,
) -> (bool, Vec<String>) {
    let (mut all, mut patterns) = (false, Vec::new());
    for directive in directives {
        for host in directive
            .arguments
            .iter()
            .skip(usize::from(directive.word(0) == "from"))
        {
            match host.to_ascii_lowercase().as_str() {
                "all" => all = true,
                "localhost" => patterns.extend(LOOPBACK.map(str::to_owned)),
                host => match pattern(host) {
                    Some(pattern) => patterns.push(pattern),
                    None => {
                        let effect = if denies {
                            "all requests are denied"
                        } else {
                            "it admits no client"
                        };
                        let hint = "write addresses; host names of clients are not resolved";
                        findings.lost(
                            &directive.place,
                            &directive.name,
                            &format!("`{host}` is not an address: {effect}"),
                            hint,
                        );
                        all |= denies;
                    }
                },
            }
        }
    }
    (all, patterns)
}

/// Returns the answer of a section that refuses all clients, whatever other directives allow.
pub(super) fn closed(section: &Section, _findings: &mut Findings) -> Option<Who> {
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
    findings: &mut Findings,
    ask: fn(&Section, &mut Findings) -> Option<Who>,
) -> Vec<Rule> {
    let mut rules = Vec::new();
    for section in sections.iter().rev() {
        let Some(wide) = section.place(mapping, Extent::Wide) else {
            continue;
        };
        let Some(mut who) = ask(section, findings) else {
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
                    findings.lost(
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

/// Returns the steps of rules; clients that are let in go on to `next`. The second value: the steps hold nothing but
/// refusals, and may stand
/// before other steps.
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
        if let (Who::Some(lists), true) = (&rule.who, index + 1 == rules.len())
            && let [list] = lists.as_slice()
            && let Some(opposite) = opposite(list)
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
                for list in &asked.past {
                    let mut conditions = rule.place.conditions();
                    conditions.insert("source".to_owned(), one_or_many(list.clone()));
                    steps.push(step(conditions, next()));
                }
                let mut conditions = rule.place.conditions();
                if !asked.within.is_empty() {
                    conditions.insert("source".to_owned(), one_or_many(asked.within.clone()));
                }
                let mut action = next();
                if let Some(action) = action.as_object_mut() {
                    let basic = json!({"basic": asked.basic});
                    action.insert("authenticate".to_owned(), basic);
                }
                steps.push(step(conditions, action));
                if !asked.within.is_empty() || rule.wide != rule.place {
                    steps.push(refuse(rule.wide.conditions()));
                }
            }
            Who::Some(lists) => {
                only_refusals = false;
                for list in lists {
                    let mut conditions = rule.place.conditions();
                    conditions.insert("source".to_owned(), one_or_many(list.clone()));
                    steps.push(step(conditions, next()));
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
        let some =
            |list: &[&str]| Who::Some(vec![list.iter().map(|one| (*one).to_owned()).collect()]);
        assert_eq!(
            some(&["10.0.0.0/8"]).and(some(&["!10.1.0.0/16"])),
            Some(some(&["10.0.0.0/8", "!10.1.0.0/16"]))
        );
        assert_eq!(some(&["10.0.0.0/8"]).and(some(&["11.0.0.0/8"])), None);
        assert_eq!(some(&["10.0.0.1"]).or(Who::NoClient), some(&["10.0.0.1"]));
    }
}
