//! `maps`: compiled before everything else, in the order in which they use each other, because templates name them.

use std::collections::{BTreeMap, HashMap};

use tutti_document::{Diagnostic, Member, Pointer, TreeNode, shorten};

use super::reader::Reader;
use crate::address::{AddressPattern, IpRange};
use crate::address_ranges::{AddressRange, AddressRanges};
use crate::pattern::{Case, Pattern, Syntax};
use crate::table::{MapOptions, MapShareOptions, RootOptions};
use crate::template::{
    self, AddressCases, GroupOwner, HostCases, MOST_EVALUATIONS, MapCases, Template, TextCases,
    VariableMap, each_map_name,
};

/// A fault, and the node that it is about.
type Found<'d> = (Diagnostic, &'d TreeNode);

/// Declares the maps of a document. Returns the faults that the option table cannot find; a map with a fault is empty.
pub(crate) fn declare(root: &TreeNode) -> Vec<Found<'_>> {
    let members = root.child(RootOptions::maps.name).map(TreeNode::members);
    let members = members.unwrap_or_default();
    let mut maps = Maps {
        pointer: Pointer::root().child(RootOptions::maps.name),
        faults: Vec::new(),
    };
    let uses = uses(members);
    let (order, rest) = in_order(&uses);
    let member = |number: &usize| members.get(*number);
    for member in order.iter().filter_map(member) {
        maps.declare(member);
    }
    // They are part of a cycle, or use one.
    for member in rest.iter().filter_map(member) {
        template::declare_map(VariableMap {
            name: member.name.clone(),
            ..VariableMap::default()
        });
    }
    for cycle in cycles(&rest, &uses) {
        let names: Vec<&str> = cycle
            .iter()
            .chain(cycle.first())
            .filter_map(member)
            .map(|member| &*member.name)
            .collect();
        if let Some(first) = cycle.first().and_then(member) {
            let message = format!(
                "this map uses itself: {}",
                shorten(&names.join(" \u{2192} "))
            );
            let diagnostic = Diagnostic::new(maps.pointer.child(&first.name), message);
            let hint = "neither the key nor a value may lead back to the map";
            maps.faults.push((diagnostic.suggest(hint), &first.node));
        }
    }
    maps.faults
}

/// For each map, the numbers of those whose names occur in its options.
fn uses(members: &[Member]) -> Vec<Vec<usize>> {
    fn each_text<'d>(node: &'d TreeNode, each: &mut dyn FnMut(&'d str)) {
        node.as_str().into_iter().for_each(&mut *each);
        for element in node.elements() {
            each_text(element, each);
        }
        for member in node.members() {
            each_text(&member.node, each);
        }
    }
    let numbers: HashMap<&str, usize> = members
        .iter()
        .enumerate()
        .map(|(number, member)| (&*member.name, number))
        .collect();
    let used = members.iter().map(|member| {
        let mut used = Vec::new();
        each_text(&member.node, &mut |text| {
            each_map_name(text, &mut |name| used.extend(numbers.get(name)));
        });
        used.sort_unstable();
        used.dedup();
        used
    });
    used.collect()
}

/// The numbers of the maps in an order in which each comes after those that it uses, and the numbers of those for which there is none.
fn in_order(uses: &[Vec<usize>]) -> (Vec<usize>, Vec<usize>) {
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); uses.len()];
    let mut missing: Vec<usize> = uses.iter().map(Vec::len).collect();
    for (number, used) in uses.iter().enumerate() {
        for used in used {
            if let Some(users) = users.get_mut(*used) {
                users.push(number);
            }
        }
    }
    let mut order: Vec<usize> = Vec::new();
    order.extend((0..uses.len()).filter(|number| missing.get(*number) == Some(&0)));
    let mut next = 0;
    while let Some(number) = order.get(next).copied() {
        next += 1;
        for user in users.get(number).into_iter().flatten() {
            if let Some(missing) = missing.get_mut(*user) {
                *missing -= 1;
                if *missing == 0 {
                    order.push(*user);
                }
            }
        }
    }
    let rest = (0..uses.len()).filter(|number| missing.get(*number) != Some(&0));
    (order, rest.collect())
}

/// Cycles among maps that cannot be ordered: each of these uses another one of them.
fn cycles(rest: &[usize], uses: &[Vec<usize>]) -> Vec<Vec<usize>> {
    // The number of the walk that has come through a map.
    let mut walks: HashMap<usize, Option<usize>> = rest.iter().map(|map| (*map, None)).collect();
    let mut cycles = Vec::new();
    for (walk, start) in rest.iter().enumerate() {
        let mut way = Vec::new();
        let mut current = *start;
        while walks.get(&current) == Some(&None) {
            walks.insert(current, Some(walk));
            way.push(current);
            let used = uses.get(current).into_iter().flatten();
            match used.copied().find(|used| walks.contains_key(used)) {
                Some(next) => current = next,
                None => break,
            }
        }
        if walks.get(&current) == Some(&Some(walk))
            && let Some(begin) = way.iter().position(|map| *map == current)
        {
            cycles.push(way.split_off(begin));
        }
    }
    cycles
}

struct Maps<'d> {
    pointer: Pointer,
    faults: Vec<Found<'d>>,
}

impl<'d> Maps<'d> {
    fn declare(&mut self, member: &'d Member) {
        let reader = Reader::new(&member.node, self.pointer.child(&member.name));
        let cases = self.cases(&reader);
        let key = reader.template(&MapOptions::key).unwrap_or_else(|| {
            let default = match &cases {
                MapCases::Addresses(_) => "$remote_addr",
                _ => "$host",
            };
            Template::parse(default).unwrap_or_default()
        });
        if !reader.has(&MapOptions::key)
            && matches!(cases, MapCases::Texts(_) | MapCases::Shares(_))
        {
            let message = "the required option `key` is missing";
            let hint = "write the text that decides, for example `\"key\": \"$uri\"`";
            self.fault(reader.node, reader.pointer.clone(), message, Some(hint));
        }
        let default = match reader.get(&MapOptions::otherwise) {
            Some((node, place)) => self.value(node, None, &place),
            None => Template::default(),
        };
        let evaluations = 1 + evaluations(&key) + self.dearest(&cases).max(evaluations(&default));
        if evaluations > MOST_EVALUATIONS {
            let message = format!(
                "a value of this map may need {evaluations} maps, itself included; at most {MOST_EVALUATIONS} are allowed"
            );
            let hint = "each occurrence of a variable `$map_NAME` counts";
            self.fault(reader.node, reader.pointer.clone(), &message, Some(hint));
        }
        template::declare_map(VariableMap {
            name: member.name.clone(),
            pointer: reader.pointer,
            key,
            cases,
            default,
            // A map with a fault is never evaluated.
            evaluations: evaluations.min(MOST_EVALUATIONS),
        });
    }

    /// Most maps that a value of a case needs.
    fn dearest(&self, cases: &MapCases) -> usize {
        let of_texts = |texts: &TextCases| {
            let values = texts.exact.values();
            let values = values.chain(texts.patterns.iter().map(|(_, value)| value));
            values.map(evaluations).max()
        };
        let dearest = match cases {
            MapCases::Texts(texts) => of_texts(texts),
            MapCases::Hosts(hosts) => {
                let values = hosts.ends.values().chain(hosts.beginnings.values());
                values.map(evaluations).chain(of_texts(&hosts.texts)).max()
            }
            MapCases::Addresses(cases) => cases.values.iter().map(evaluations).max(),
            MapCases::Shares(shares) => shares.iter().map(|(_, value)| evaluations(value)).max(),
        };
        dearest.unwrap_or_default()
    }

    fn cases(&mut self, reader: &Reader<'d>) -> MapCases {
        if let Some((node, pointer)) = reader.get(&MapOptions::hosts) {
            return MapCases::Hosts(self.hosts(node, &pointer));
        }
        if let Some((node, pointer)) = reader.get(&MapOptions::addresses) {
            return MapCases::Addresses(self.addresses(node, &pointer));
        }
        if let Some((node, pointer)) = reader.get(&MapOptions::shares) {
            return MapCases::Shares(self.shares(node, &pointer));
        }
        let mut texts = TextCases::default();
        if let Some((node, pointer)) = reader.get(&MapOptions::values) {
            for member in node.members() {
                self.text(member, &pointer, &mut texts);
            }
        }
        MapCases::Texts(texts)
    }

    /// Adds an exact text or a regular expression.
    fn text(&mut self, member: &'d Member, pointer: &Pointer, texts: &mut TextCases) {
        let name = &*member.name;
        let place = pointer.child(name);
        if let Some(expression) = name.strip_prefix('~') {
            let (expression, case) = match expression.strip_prefix('*') {
                Some(expression) => (expression, Case::Ignore),
                None => (expression, Case::Exact),
            };
            let syntax = Syntax {
                case,
                ..Syntax::default()
            };
            match Pattern::parse(&format!("~{expression}"), syntax) {
                Ok(pattern) => {
                    let value = self.value(&member.node, Some(&pattern), &place);
                    texts.patterns.push((pattern, value));
                }
                Err(error) => self.fault(&member.node, place, &error.to_string(), None),
            }
            return;
        }
        let value = self.value(&member.node, None, &place);
        let text = name.strip_prefix('\\').unwrap_or(name);
        self.add(&mut texts.exact, text, value, (member, pointer));
    }

    fn hosts(&mut self, node: &'d TreeNode, pointer: &Pointer) -> HostCases {
        let mut hosts = HostCases::default();
        for member in node.members() {
            let name = &*member.name;
            if name.starts_with('~') {
                self.text(member, pointer, &mut hosts.texts);
                continue;
            }
            let (end, beginning) = (
                name.strip_prefix('*')
                    .or(name.strip_prefix('.').map(|_| name)),
                name.strip_suffix('*'),
            );
            let fixed = end.or(beginning).unwrap_or(name);
            let is_wrong = match (end, beginning) {
                (Some(end), _) => end.len() < 2 || !end.starts_with('.'),
                (None, Some(beginning)) => beginning.len() < 2 || !beginning.ends_with('.'),
                (None, None) => fixed.ends_with('.'),
            };
            if is_wrong || fixed.contains(['*', '/', ':', ' ']) {
                let message = format!("`{}` is not the name of a host", shorten(name));
                let hint = "write for example `www.example.com`, `*.example.com`, `.example.com` or `mail.*`, without a port";
                self.fault(&member.node, pointer.child(name), &message, Some(hint));
                continue;
            }
            let value = self.value(&member.node, None, &pointer.child(name));
            let place = (member, pointer);
            if name.starts_with('.') {
                let whole = fixed.trim_start_matches('.');
                self.add(&mut hosts.texts.exact, whole, value.clone(), place);
            }
            let cases = match (end, beginning) {
                (Some(_), _) => &mut hosts.ends,
                (None, Some(_)) => &mut hosts.beginnings,
                (None, None) => &mut hosts.texts.exact,
            };
            self.add(cases, fixed, value, place);
        }
        hosts
    }

    /// Adds a value, unless there is one for the same text.
    fn add(
        &mut self,
        values: &mut BTreeMap<Box<[u8]>, Template>,
        text: &str,
        value: Template,
        (member, pointer): (&'d Member, &Pointer),
    ) {
        let key = text.to_ascii_lowercase().into_bytes().into_boxed_slice();
        if values.insert(key, value).is_some() {
            let message = format!("there are two values for `{}`", shorten(text));
            let place = pointer.child(&member.name);
            let hint = "case is ignored";
            self.fault(&member.node, place, &message, Some(hint));
        }
    }

    fn addresses(&mut self, node: &'d TreeNode, pointer: &Pointer) -> AddressCases {
        let mut values = Vec::new();
        let mut numbers: HashMap<&str, usize> = HashMap::new();
        let mut ranges: BTreeMap<(bool, u128, u128), usize> = BTreeMap::new();
        for member in node.members() {
            let place = pointer.child(&member.name);
            let source = member.node.as_str().unwrap_or_default();
            let number = match numbers.get(source) {
                Some(number) => *number,
                None => {
                    values.push(self.value(&member.node, None, &place));
                    numbers.insert(source, values.len() - 1);
                    values.len() - 1
                }
            };
            let Some(range) = range(&member.name) else {
                continue;
            };
            if ranges.insert(range, number).is_some() {
                let message = format!("there are two values for `{}`", shorten(&member.name));
                self.fault(&member.node, place, &message, None);
            }
        }
        let ranges = ranges.into_iter();
        let ranges = ranges.map(|((is_v4, first, last), value)| AddressRange {
            is_v4,
            first,
            last,
            value,
        });
        AddressCases {
            ranges: AddressRanges::new(&ranges.collect::<Vec<_>>()),
            values,
        }
    }

    fn shares(&mut self, node: &'d TreeNode, pointer: &Pointer) -> Vec<(u64, Template)> {
        let mut sum = 0;
        let mut shares = Vec::new();
        for (index, share) in node.elements().iter().enumerate() {
            let reader = Reader::new(share, pointer.index(index));
            let options: MapShareOptions = reader.read();
            // Hundredths of a per cent, from 1 to 10,000: the kind of the option has been checked.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let part = (options.percent * 100.0).round().clamp(0.0, 10_000.0) as u64;
            sum += part;
            let value = match reader.get(&MapShareOptions::value) {
                Some((node, place)) => self.value(node, None, &place),
                None => Template::default(),
            };
            shares.push((sum * u64::from(u32::MAX) / 10_000, value));
        }
        if sum > 10_000 {
            self.fault(
                node,
                pointer.clone(),
                "the shares add up to more than 100%",
                None,
            );
        } else if let (10_000, Some((end, _))) = (sum, shares.last_mut()) {
            // The highest hash of all, too.
            *end = u64::from(u32::MAX) + 1;
        }
        shares
    }

    /// Reads a value; `pattern`: the one whose groups it may use.
    fn value(
        &mut self,
        node: &'d TreeNode,
        pattern: Option<&Pattern>,
        place: &Pointer,
    ) -> Template {
        let text = node.as_str().unwrap_or_default();
        let template = Template::parse(text).unwrap_or_default();
        for group in template.groups() {
            let message = match pattern {
                _ if group.of == GroupOwner::Host => format!(
                    "`{}` is known only in the action of a step with `match.host`",
                    shorten(&group.to_string())
                ),
                Some(pattern) if pattern.has_group(&group.name) => continue,
                Some(_) => format!(
                    "the regular expression has no group `{}`",
                    shorten(&group.name)
                ),
                None => format!(
                    "`{}` is a group of a regular expression, and this value does not belong to one",
                    shorten(&group.to_string())
                ),
            };
            self.fault(node, place.clone(), &message, None);
        }
        template
    }

    fn fault(&mut self, node: &'d TreeNode, place: Pointer, message: &str, hint: Option<&str>) {
        let mut diagnostic = Diagnostic::new(place, message);
        diagnostic.suggestion = hint.map(str::to_owned);
        self.faults.push((diagnostic, node));
    }
}

/// The number of maps that are evaluated for a template.
fn evaluations(template: &Template) -> usize {
    template
        .maps()
        .map(|map| map.0.evaluations)
        .fold(0, usize::saturating_add)
}

/// The family of a range, its first and its last address.
fn range(text: &str) -> Option<(bool, u128, u128)> {
    let parsed = AddressPattern::parse(text).ok();
    match parsed.filter(|pattern| !pattern.negated)?.range {
        IpRange::V4(first, last) => Some((true, first.to_bits().into(), last.to_bits().into())),
        IpRange::V6(first, last) => Some((false, first.to_bits(), last.to_bits())),
        IpRange::Any | IpRange::Unix => None,
    }
}
