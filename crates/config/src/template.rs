//! Strings with variables, `/var/www$uri`, `routes/${method}_route`, and JavaScript template literals, in backticks.
//!
//! Part of the typed model; parsed here once, rendered by `tutti-routing`. An unknown variable is an error when the
//! configuration is checked; a variable without a value in a request is empty. A template has the maps that it names
//! inside it, so that a request needs no table of names. Must never: contain a map that contains itself, or one that needs
//! more than [`MOST_EVALUATIONS`] maps for a value.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;

use tutti_document::Pointer;
use tutti_script::CompileError;

use crate::address_ranges::AddressRanges;
use crate::pattern::Pattern;
use crate::variables::{self, PLAIN_VARIABLES, Variable};

/// A parsed template. Two templates are equal if their source is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Template {
    source: Box<str>,
    parts: Box<[TemplatePart]>,
}

/// A piece of a template.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TemplatePart {
    /// Text.
    Literal(Box<str>),
    /// The value of a variable.
    Variable(Variable),
    /// A JavaScript template literal; always the only part.
    Script(ScriptPart),
    /// The value of a map.
    Map(MapReference),
    /// A group of a regular expression.
    Group(Group),
}

/// A group of the regular expression that a value of a map, or the action of a step, belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    /// The expression.
    pub of: GroupOwner,
    /// Its number or its name.
    pub name: Box<str>,
}

/// The regular expression that has a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GroupOwner {
    /// `$match_NAME`: that of a value of a map; in an action the one of `match.uri`.
    Match,
    /// `$host_match_NAME`: the one of `match.host`.
    Host,
}

impl GroupOwner {
    /// Both.
    const ALL: [Self; 2] = [Self::Match, Self::Host];

    /// The beginning of the names of its variables.
    fn prefix(self) -> &'static str {
        match self {
            Self::Match => "match_",
            Self::Host => "host_match_",
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "${}{}", self.of.prefix(), self.name)
    }
}

/// A JavaScript template literal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScriptPart {
    /// Its text, backticks included.
    pub source: Box<str>,
    /// The maps whose variables occur in it: it finds their values in `vars`.
    pub maps: Box<[MapReference]>,
}

/// Most maps that are evaluated for one value, itself included. It bounds the time of a request and the stack of its thread; tables of real
/// sites use two or three others.
pub(crate) const MOST_EVALUATIONS: usize = 100;

/// A map of the configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VariableMap {
    /// Its name, without `map_`.
    pub name: Box<str>,
    /// Its place in the configuration.
    pub pointer: Pointer,
    /// The text that decides.
    pub key: Template,
    /// The values.
    pub cases: MapCases,
    /// The value if no case applies.
    pub default: Template,
    /// Maps that are evaluated for one value, itself included.
    pub(crate) evaluations: usize,
}

/// The values of a map, by key.
#[derive(Clone, Debug, PartialEq)]
pub enum MapCases {
    /// By the whole text.
    Texts(TextCases),
    /// By the name of a host.
    Hosts(HostCases),
    /// By address.
    Addresses(AddressCases),
    /// By a hash of the text: the value applies to hashes below the number.
    Shares(Vec<(u64, Template)>),
}

impl Default for MapCases {
    fn default() -> Self {
        Self::Shares(Vec::new())
    }
}

/// Values by text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TextCases {
    /// By the text in lower case.
    pub exact: BTreeMap<Box<[u8]>, Template>,
    /// In order; the first that matches applies.
    pub patterns: Vec<(Pattern, Template)>,
}

/// Values by the name of a host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostCases {
    /// Names that are exact, and patterns.
    pub texts: TextCases,
    /// By the end of the name, with its leading period, in lower case: `.example.com` for `*.example.com`.
    pub ends: BTreeMap<Box<[u8]>, Template>,
    /// By the beginning of the name, with its trailing period: `mail.` for `mail.*`.
    pub beginnings: BTreeMap<Box<[u8]>, Template>,
}

/// Values by address.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AddressCases {
    /// Ranges with the numbers of their values.
    pub(crate) ranges: AddressRanges,
    /// All values, each once.
    pub(crate) values: Vec<Template>,
}

impl AddressCases {
    /// The value for an address.
    pub fn get(&self, address: IpAddr) -> Option<&Template> {
        self.values.get(self.ranges.get(address)?)
    }
}

/// A map as part of a template. Two are equal if the maps are, wherever they are written.
#[derive(Clone)]
pub struct MapReference(pub Arc<VariableMap>);

impl fmt::Debug for MapReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0.name)
    }
}

impl PartialEq for MapReference {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl Eq for MapReference {}

impl Hash for MapReference {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.name.hash(state);
    }
}

/// Why a template cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// `$` with no name after it.
    #[error("a `$` is not followed by the name of a variable")]
    LoneDollar,
    /// `${` without `}`.
    #[error("a `${{` is never closed by `}}`")]
    Unclosed,
    /// No such variable.
    #[error("there is no variable `${name}`")]
    Unknown {
        /// The unknown name.
        name: String,
        /// The nearest existing name.
        nearest: Option<String>,
    },
    /// A script that reads a group of a regular expression.
    #[error("scripts cannot use groups of `match`, such as `{0}`")]
    ScriptGroup(String),
    /// A JavaScript template literal that cannot be compiled.
    #[error("{}{}", .0.message, placed(.0))]
    Script(CompileError),
}

impl TemplateError {
    /// Returns the remedy.
    pub fn hint(&self) -> Option<String> {
        match self {
            TemplateError::LoneDollar => {
                Some("write `$dollar` for the character itself".to_owned())
            }
            TemplateError::Unclosed => Some("add the missing `}`".to_owned()),
            TemplateError::Unknown {
                nearest: Some(name),
                ..
            } => Some(format!("did you mean `${name}`?")),
            TemplateError::Unknown { name, .. } if name.starts_with(MAP) => Some(format!(
                "declare a map in `maps`: `${MAP}NAME` is its value"
            )),
            TemplateError::Unknown { .. } => None,
            TemplateError::Script(fault) => fault.hint.map(str::to_owned),
            TemplateError::ScriptGroup(_) => {
                Some("write for example `uri.match(/^\\/x\\/(.*)$/)[1]`".to_owned())
            }
        }
    }
}

impl Template {
    /// Parses `source`.
    pub fn parse(source: &str) -> Result<Template, TemplateError> {
        if source.starts_with('`') {
            tutti_script::check_template(source).map_err(TemplateError::Script)?;
            let script = ScriptPart {
                source: source.into(),
                maps: script_maps(source)?,
            };
            return Ok(Template {
                source: source.into(),
                parts: [TemplatePart::Script(script)].into(),
            });
        }
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = source;
        while let Some((before, after)) = rest.split_once('$') {
            literal.push_str(before);
            let (name, tail) = split_name(after)?;
            rest = tail;
            let unknown = |nearest| TemplateError::Unknown {
                name: name.to_owned(),
                nearest,
            };
            match part(name).map_err(unknown)? {
                None => literal.push('$'),
                Some(part) => {
                    if !literal.is_empty() {
                        parts.push(TemplatePart::Literal(std::mem::take(&mut literal).into()));
                    }
                    parts.push(part);
                }
            }
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(TemplatePart::Literal(literal.into()));
        }
        Ok(Template {
            source: source.into(),
            parts: parts.into(),
        })
    }

    /// Returns the source.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns its parts; none for the empty string.
    pub fn parts(&self) -> &[TemplatePart] {
        &self.parts
    }

    /// True if its value may depend on this variable.
    pub fn names(&self, variable: &Variable) -> bool {
        self.parts.iter().any(|part| match part {
            TemplatePart::Literal(_) | TemplatePart::Group(_) => false,
            TemplatePart::Variable(named) => named == variable,
            TemplatePart::Script(script) => {
                let mut plain = PLAIN_VARIABLES.iter();
                let named = plain.find(|plain| plain.variable == *variable);
                let is_named = named.is_some_and(|plain| script.source.contains(plain.name));
                is_named || script.maps.iter().any(|map| map.0.key.names(variable))
            }
            TemplatePart::Map(map) => map.0.key.names(variable),
        })
    }

    /// The groups of regular expressions in it.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &Group> {
        self.parts.iter().filter_map(|part| match part {
            TemplatePart::Group(group) => Some(group),
            _ => None,
        })
    }

    /// True if it has a group of a regular expression.
    pub fn has_groups(&self) -> bool {
        self.groups().next().is_some()
    }

    /// Returns it with the values of its groups, which are empty if they have none.
    #[must_use]
    pub fn with_groups(&self, value: impl Fn(&Group) -> Box<str>) -> Template {
        let parts = self.parts.iter().filter_map(|part| match part {
            TemplatePart::Group(group) => Some(value(group))
                .filter(|text| !text.is_empty())
                .map(TemplatePart::Literal),
            part => Some(part.clone()),
        });
        Template {
            source: self.source.clone(),
            parts: parts.collect(),
        }
    }

    /// The maps that are evaluated for its value.
    pub(crate) fn maps(&self) -> impl Iterator<Item = &MapReference> {
        self.parts.iter().flat_map(|part| match part {
            TemplatePart::Map(map) => std::slice::from_ref(map),
            TemplatePart::Script(script) => &script.maps,
            _ => &[],
        })
    }

    /// Returns it without some of its parts.
    #[must_use]
    pub fn without(&self, is_left_out: impl Fn(&TemplatePart) -> bool) -> Template {
        let parts = self.parts.iter().filter(|part| !is_left_out(part));
        Template {
            source: self.source.clone(),
            parts: parts.cloned().collect(),
        }
    }

    /// True if it is a JavaScript template literal.
    pub fn is_script(&self) -> bool {
        matches!(&*self.parts, [TemplatePart::Script(_)])
    }

    /// The text, if there are no variables.
    pub fn as_literal(&self) -> Option<&str> {
        match &*self.parts {
            [] => Some(""),
            [TemplatePart::Literal(text)] => Some(text),
            _ => None,
        }
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)
    }
}

thread_local! {
    /// The maps of the configuration that is being checked; empty at other times. Not an argument, because templates are parsed far below the
    /// code that knows where a configuration begins, and twice.
    static MAPS: RefCell<BTreeMap<Box<str>, MapReference>> = const { RefCell::new(BTreeMap::new()) };
}

/// Runs `work`, which checks one configuration; the maps that it declares end with it.
pub(crate) fn with_own_maps<T>(work: impl FnOnce() -> T) -> T {
    MAPS.take();
    let outcome = work();
    MAPS.take();
    outcome
}

/// Declares a map: templates of the same configuration that are parsed from now on may name it.
pub(crate) fn declare_map(map: VariableMap) {
    let name = map.name.clone();
    MAPS.with_borrow_mut(|maps| maps.insert(name, MapReference(Arc::new(map))));
}

/// Returns the declared map of that name; or the nearest existing name.
fn map_named(name: &str) -> Result<MapReference, Option<String>> {
    MAPS.with_borrow(|maps| match maps.get(name) {
        Some(map) => Ok(map.clone()),
        None => {
            let names = maps.keys().map(|name| &**name);
            let nearest = tutti_document::suggest::nearest(name, names);
            Err(nearest.map(|name| format!("map_{name}")))
        }
    })
}

/// The part that a name stands for, `None` for `$dollar`; or the nearest existing name.
fn part(name: &str) -> Result<Option<TemplatePart>, Option<String>> {
    if let Some(map) = name.strip_prefix(MAP) {
        return map_named(map).map(|map| Some(TemplatePart::Map(map)));
    }
    for of in GroupOwner::ALL {
        if let Some(group) = name.strip_prefix(of.prefix())
            && !group.is_empty()
        {
            let name = group.into();
            return Ok(Some(TemplatePart::Group(Group { of, name })));
        }
    }
    Ok(variables::named(name)?.map(TemplatePart::Variable))
}

/// The beginning of the name of a map's variable.
const MAP: &str = "map_";

/// Calls `each` with the names of the maps whose variables occur in a text. A name may be a word in a string of a script, which uses no map.
pub(crate) fn each_map_name<'t>(text: &'t str, each: &mut dyn FnMut(&'t str)) {
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(MAP) {
        let name = leading_name(after);
        if !before.ends_with(is_of_name) && !name.is_empty() {
            each(name);
        }
        rest = after;
    }
}

fn is_of_name(one: char) -> bool {
    one.is_ascii_alphanumeric() || one == '_'
}

fn leading_name(text: &str) -> &str {
    let end = text.find(|one| !is_of_name(one));
    end.map_or(text, |end| text.split_at(end).0)
}

/// Returns the maps whose variables occur in a script, each once.
fn script_maps(source: &str) -> Result<Box<[MapReference]>, TemplateError> {
    // Otherwise it would be `undefined`, and a condition could take that for a client that it has to admit.
    for before in ["vars.", "vars?.", "vars[\"", "vars['"] {
        for name in source.split(before).skip(1).map(leading_name) {
            if let Some(map) = name.strip_prefix(MAP)
                && let Err(nearest) = map_named(map)
            {
                let name = name.to_owned();
                return Err(TemplateError::Unknown { name, nearest });
            }
            if GroupOwner::ALL
                .iter()
                .any(|of| name.starts_with(of.prefix()))
            {
                return Err(TemplateError::ScriptGroup(name.to_owned()));
            }
        }
    }
    let mut maps: Vec<MapReference> = Vec::new();
    each_map_name(source, &mut |name| {
        if let Ok(map) = map_named(name)
            && !maps.iter().any(|known| *known.0.name == *name)
        {
            maps.push(map);
        }
    });
    Ok(maps.into())
}

/// Returns the position in the script, in the string after JSON's escapes.
pub(crate) fn placed(fault: &CompileError) -> String {
    let of = match fault.module {
        Some(_) => "module",
        None => "script",
    };
    match fault.place {
        Some((line, column)) => format!(" (line {line}, column {column} of the {of})"),
        None => String::new(),
    }
}

/// Splits the text after a `$` into the variable's name and the rest.
fn split_name(after: &str) -> Result<(&str, &str), TemplateError> {
    if let Some(braced) = after.strip_prefix('{') {
        let (name, tail) = braced.split_once('}').ok_or(TemplateError::Unclosed)?;
        return if name.is_empty() {
            Err(TemplateError::LoneDollar)
        } else {
            Ok((name, tail))
        };
    }
    // "Variable names can contain letters and underscores"; argument and cookie names have digits in practice, and
    // `$header_accept-encoding` is documented, so a hyphen is part of the name there.
    let dashes = after.starts_with("header_") || after.starts_with("response_header_");
    let named = after.starts_with("arg_")
        || after.starts_with("raw_arg_")
        || after.starts_with(MAP)
        || GroupOwner::ALL
            .iter()
            .any(|of| after.starts_with(of.prefix()))
        || after.starts_with("cookie_");
    // Only one name of a whole variable contains digits.
    if let Some(tail) = after.strip_prefix("time_iso8601") {
        return Ok(("time_iso8601", tail));
    }
    let end = after
        .find(|c: char| {
            !(c.is_ascii_alphabetic()
                || c == '_'
                || (dashes && c == '-')
                || ((dashes || named) && c.is_ascii_digit()))
        })
        .unwrap_or(after.len());
    match after.split_at(end) {
        ("", _) => Err(TemplateError::LoneDollar),
        split => Ok(split),
    }
}
