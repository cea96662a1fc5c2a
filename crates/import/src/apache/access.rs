//! Who is let in: `Require`, and `Order`, `Allow` and `Deny` of Apache 2.2.
//!
//! The two are asked one after the other, as in Apache, and each has its answer from the last section that says anything. What cannot
//! be carried over lets nobody in.

use serde_json::{Map, Value, json};

use super::grammar::Directive;
use super::section::{Extent, Mapping, Section, Where};
use crate::finding::Findings;
use crate::output::{one_or_many, step};

/// Who is let in.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Who {
    Everybody,
    Nobody,
    /// Conditions about the source, of which one must hold; each is a list of patterns.
    Some(Vec<Vec<String>>),
    /// Whoever has a password.
    Asked(Authentication),
}

/// Who has a password, and who needs none.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Authentication {
    /// Whoever comes from one of these needs none; lists of patterns.
    past: Vec<Vec<String>>,
    /// Where one must come from besides; empty: anywhere.
    within: Vec<String>,
    /// `basic` of `authenticate`.
    basic: Map<String, Value>,
}

const LOOPBACK: [&str; 2] = ["127.0.0.0/8", "::1"];

impl Who {
    /// True if addresses of clients decide.
    fn looks_at_addresses(&self) -> bool {
        match self {
            Who::Everybody | Who::Nobody => false,
            Who::Some(_) => true,
            Who::Asked(asked) => !(asked.past.is_empty() && asked.within.is_empty()),
        }
    }

    /// Whoever one of the two lets in.
    fn or(self, other: Who) -> Who {
        match (self, other) {
            (Who::Everybody, _) | (_, Who::Everybody) => Who::Everybody,
            (Who::Nobody, who) | (who, Who::Nobody) => who,
            (Who::Asked(mut asked), Who::Some(lists))
            | (Who::Some(lists), Who::Asked(mut asked)) => {
                asked.past.extend(lists);
                Who::Asked(asked)
            }
            // One file of passwords is asked; whoever is in the other alone is not let in.
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

    /// Whom both let in; `None` where no condition can say so.
    fn and(self, other: Who) -> Option<Who> {
        Some(match (self, other) {
            (Who::Nobody, _) | (_, Who::Nobody) => Who::Nobody,
            (Who::Everybody, who) | (who, Who::Everybody) => who,
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

/// The answer of a section's `Require`, or `None` if it says nothing.
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
        let hint = "write all that is required into this section";
        findings.lost(&merging.place, "AuthMerging", "what is required of several sections together is not carried over: nobody is let in here", hint);
        return Some(Who::Nobody);
    }
    if says.is_empty() {
        // Who is asked for a name without a `Require` around is let in by the sections around.
        return None;
    }
    Some(any(&says, basic(section).as_ref(), findings))
}

/// The passwords of a section: those of a file, whose hashes have been looked at.
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
    let mut who = Who::Nobody;
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
            let mut who = Who::Everybody;
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
            let mut who = Who::Everybody;
            for inner in inner {
                who = match negated(one(inner, basic, findings)).and_then(|next| who.and(next)) {
                    Some(who) => who,
                    None => refuse(inner, "what is not to be required", findings),
                };
            }
            who
        }
        _ => require(directive, basic, findings),
    }
}

fn negated(who: Who) -> Option<Who> {
    Some(match who {
        Who::Everybody => Who::Nobody,
        Who::Nobody => Who::Everybody,
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
        ("all", [word]) if word == "granted" => Some(Who::Everybody),
        ("all", [word]) if word == "denied" => Some(Who::Nobody),
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
        None => refuse(directive, "Tutti has nothing like it", findings),
    }
}

/// Tells that nobody is let in by it.
fn refuse(directive: &Directive, why: &str, findings: &mut Findings) -> Who {
    let problem = format!(
        "`{}`: {why}: the place that it protects answers 403 to everybody it was for",
        directive.arguments.join(" ")
    );
    let hint = "`authenticate` asks for a password (`docs/http/access.md`), `match.source` lets addresses in";
    findings.lost(&directive.place, &directive.name, &problem, hint);
    Who::Nobody
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
                // A mask with holes is none that can be written.
                (bits.leading_ones() + bits.trailing_zeros() >= 32).then(|| bits.leading_ones())?
            }
        },
    };
    (bits <= 32).then(|| format!("{whole}/{bits}"))
}

/// The answer of a section's `Order`, `Allow` and `Deny`, or `None` if it says nothing.
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
            (_, true) => Who::Nobody,
            (true, false) if denied.is_empty() => Who::Everybody,
            (true, false) => Who::Some(vec![not(&denied)]),
            (false, false) if allowed.is_empty() => Who::Nobody,
            (false, false) => Who::Some(vec![[allowed, not(&denied)].concat()]),
        },
        _ if allow_all || !deny_all && denied.is_empty() => Who::Everybody,
        _ if deny_all && allowed.is_empty() => Who::Nobody,
        _ if deny_all => Who::Some(vec![allowed]),
        _ if allowed.is_empty() => Who::Some(vec![not(&denied)]),
        _ => Who::Some(vec![not(&denied), allowed]),
    })
}

/// All of them, or the patterns. One that is not understood denies everybody, and allows nobody.
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
                            "everybody is kept out"
                        } else {
                            "nobody is let in by it"
                        };
                        let hint = "write addresses; names of clients are not looked up";
                        findings.lost(
                            &directive.place,
                            &directive.name,
                            &format!("`{host}` is no address: {effect}"),
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

/// The answer of a section that refuses all clients, whatever others let in.
pub(super) fn closed(section: &Section, _findings: &mut Findings) -> Option<Who> {
    let closes = section.directives.iter().any(super::closing::closes);
    closes.then_some(Who::Nobody)
}

/// A section's answer at the place where it holds.
pub(super) struct Rule {
    place: Where,
    /// For what the section refuses: rather too much.
    wide: Where,
    who: Who,
}

/// The rules of one kind for a mapping, the last one first.
///
/// `doubts`: the client's address is another one than the source means, and lets nobody in.
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
            who = Who::Nobody;
        }
        let is_last = wide.is_everywhere() && !section.is_unknown;
        rules.push(match section.place(mapping, Extent::Narrow) {
            Some(place) => Rule { place, wide, who },
            // It holds only sometimes: it may refuse, and lets nobody in.
            None => {
                let refuses = who != Who::Everybody;
                if let (true, Some(first)) = (refuses, section.directives.first()) {
                    let hint = "write it as a `match` (`docs/reference/options.md`)";
                    findings.lost(
                        &first.place,
                        &first.name,
                        "the condition of its section cannot be carried over: everybody is refused here",
                        hint,
                    );
                }
                let place = Where::default();
                Rule {
                    place,
                    wide: Where::default(),
                    who: if refuses { Who::Nobody } else { continue },
                }
            }
        });
        if is_last {
            break;
        }
    }
    // The last ones let everybody in, as nobody's rule does.
    while rules.last().is_some_and(|rule| rule.who == Who::Everybody) {
        rules.pop();
    }
    rules
}

/// Steps of rules; who is let in goes on to `next`. The second value: they hold nothing but refusals, and may stand before other steps.
pub(super) fn steps(
    rules: &[Rule],
    next: &dyn Fn() -> Value,
    refusal: &Value,
) -> (Vec<Value>, bool) {
    let mut steps = Vec::new();
    let mut only_refusals = true;
    for (index, rule) in rules.iter().enumerate() {
        let refuse = |conditions: Map<String, Value>| step(conditions, refusal.clone());
        // One list of addresses that stands last needs no step for those who are let in.
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
            Who::Nobody => steps.push(refuse(rule.wide.conditions())),
            Who::Everybody => {
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

/// The answer to whom nobody lets in.
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
        assert_eq!(some(&["10.0.0.1"]).or(Who::Nobody), some(&["10.0.0.1"]));
    }
}
