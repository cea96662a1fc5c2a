//! Checks a document against the option table: types, ranges, names, grammar of strings.
//!
//! First half of validation; the second, [`crate::build`], builds the typed configuration and checks relations between
//! several places. It continues after every fault, so that all are reported.

mod grammar;
mod groups;

use std::collections::HashSet;
use std::rc::Rc;

use tutti_document::{
    ConfigPath, Diagnostic, Document, MOST_FAULTS, Member, SourceSpan, TreeNode, Unknown, Value,
    shorten, suggest,
};

pub(crate) use self::grammar::of_text;
use self::groups::StepGroups;
use crate::table::{
    ApplicationType, COMMON, HTTP, HTTP_ACTION, HTTP_LISTENER, Names, Object, Opt, ROOT, TYPES,
    Text, ValueKind,
};

/// Collects faults, with the place of each.
pub(crate) struct Faults<'d> {
    document: &'d Document,
    /// In the order they were found.
    pub(crate) list: Vec<Diagnostic>,
    /// Number of faults found after the list was full.
    pub(crate) more: usize,
    /// Warnings about valid parts.
    pub(crate) warnings: Vec<Diagnostic>,
    /// Places of faults; a second fault of the same value is usually a consequence of the first.
    seen: HashSet<SourceSpan>,
    /// The groups that the templates at the current place may use.
    groups: Option<Rc<StepGroups>>,
}

impl<'d> Faults<'d> {
    pub(crate) fn new(document: &'d Document) -> Self {
        Faults {
            document,
            list: Vec::new(),
            more: 0,
            warnings: Vec::new(),
            seen: HashSet::new(),
            groups: None,
        }
    }

    /// Records a fault of a value.
    pub(crate) fn value(&mut self, mut diagnostic: Diagnostic, node: &TreeNode) {
        if !self.is_full() {
            diagnostic.value = Some(node.shown());
        }
        self.at(diagnostic, node.span);
    }

    /// Further faults are only counted: their messages need not be created.
    pub(crate) fn is_full(&self) -> bool {
        self.list.len() >= MOST_FAULTS
    }

    /// Records a warning about a member.
    pub(crate) fn warn(&mut self, mut warning: Diagnostic, member: &Member) {
        if self.warnings.len() < MOST_FAULTS {
            self.document.locate(&mut warning, member.place());
            self.warnings.push(warning);
        }
    }

    /// Records a fault of the name of a member.
    pub(crate) fn name(&mut self, diagnostic: Diagnostic, member: &Member) {
        self.at(diagnostic, member.place());
    }

    fn at(&mut self, mut diagnostic: Diagnostic, span: SourceSpan) {
        if span.is_known() {
            self.seen.insert(span);
        }
        if self.is_full() {
            self.more += 1;
            return;
        }
        self.document.locate(&mut diagnostic, span);
        self.list.push(diagnostic);
    }

    /// True if a fault of this value has been recorded.
    pub(crate) fn has(&self, node: &TreeNode) -> bool {
        self.seen.contains(&node.span)
    }
}

/// Checks the whole document.
pub(crate) fn check(document: &Document, faults: &mut Faults<'_>) {
    let root = document.root();
    let place = ConfigPath::root();
    if matches!(root.value, Value::Object(_)) {
        object(faults, &ROOT, root, &place);
    } else {
        wrong_type(faults, "an object", root, &place);
    }
}

fn kind(faults: &mut Faults<'_>, kind: &ValueKind, node: &TreeNode, place: &ConfigPath<'_>) {
    match (kind, &node.value) {
        (ValueKind::Boolean, Value::Bool(_)) | (ValueKind::Null, Value::Null) => {}
        (ValueKind::Integer(min, max), Value::Number(_)) => {
            integer(faults, *min, *max, node, place)
        }
        (ValueKind::Size(min, max), Value::Number(_)) => integer(faults, *min, *max, node, place),
        (ValueKind::Size(min, max), Value::String(text)) => {
            size(faults, (*min, *max), text, node, place)
        }
        (ValueKind::Number(min, max), Value::Number(number)) => {
            if !number
                .parse::<f64>()
                .is_ok_and(|number| (*min..=*max).contains(&number))
            {
                let diagnostic = Diagnostic::new(place.pointer(), "the number is out of range")
                    .expect(kind.words());
                faults.value(diagnostic, node);
            }
        }
        (ValueKind::String(text), Value::String(value)) => string(faults, text, value, node, place),
        (ValueKind::Array(element), Value::Array(elements)) => {
            for (index, node) in elements.iter().enumerate() {
                self::kind(faults, element, node, &place.index(index));
            }
        }
        (ValueKind::Object(table), Value::Object(_)) => object(faults, table(), node, place),
        (ValueKind::Map(names, values), Value::Object(members)) => {
            for member in members {
                let place = place.name(&member.name);
                name(faults, *names, member, &place);
                self::kind(faults, values, &member.node, &place);
            }
        }
        (ValueKind::Application, Value::Object(_)) => application(faults, node, place),
        (ValueKind::Json, Value::String(text)) => {
            string(faults, &Text::TemplateOrEmpty, text, node, place);
        }
        (ValueKind::Json, Value::Array(_)) => {
            self::kind(faults, &ValueKind::Array(&ValueKind::Json), node, place);
        }
        (ValueKind::Json, Value::Object(members)) => {
            for member in members {
                let place = place.name(&member.name);
                self::kind(faults, &ValueKind::Json, &member.node, &place);
            }
        }
        (ValueKind::Json, _) => {}
        (ValueKind::OneOf(kinds), _) => {
            match kinds.iter().find(|kind| accepts(kind, &node.value)) {
                Some(kind) => self::kind(faults, kind, node, place),
                None => wrong_type(faults, &kind.words(), node, place),
            }
        }
        _ => wrong_type(faults, &kind.words(), node, place),
    }
}

/// True if the JSON type is right.
pub(crate) fn accepts(kind: &ValueKind, value: &Value) -> bool {
    match kind {
        ValueKind::Boolean => matches!(value, Value::Bool(_)),
        ValueKind::Null => matches!(value, Value::Null),
        ValueKind::Integer(..) | ValueKind::Number(..) => matches!(value, Value::Number(_)),
        ValueKind::Size(..) => matches!(value, Value::Number(_) | Value::String(_)),
        ValueKind::String(_) => matches!(value, Value::String(_)),
        ValueKind::Array(_) => matches!(value, Value::Array(_)),
        ValueKind::Object(_) | ValueKind::Map(..) | ValueKind::Application => {
            matches!(value, Value::Object(_))
        }
        ValueKind::OneOf(kinds) => kinds.iter().any(|kind| accepts(kind, value)),
        ValueKind::Json => true,
    }
}

fn wrong_type(faults: &mut Faults<'_>, expected: &str, node: &TreeNode, place: &ConfigPath<'_>) {
    let message = match node.kind() {
        "null" => "the value is `null`".to_owned(),
        kind @ ("array" | "object") => format!("the value is an {kind}"),
        kind => format!("the value is a {kind}"),
    };
    let mut diagnostic = Diagnostic::new(place.pointer(), message).expect(expected);
    diagnostic.suggestion = match &node.value {
        Value::String(text) if expected.contains("integer") && text.parse::<i64>().is_ok() => {
            Some(format!("write {text} without quotes"))
        }
        Value::String(text)
            if expected.contains("`true`") && matches!(&**text, "true" | "false") =>
        {
            Some(format!("write {text} without quotes"))
        }
        Value::Number(number) if expected.contains("string") => {
            Some(format!("write \"{}\" in quotes", shorten(number)))
        }
        Value::Bool(value) if expected == "a string" => Some(format!(
            "write \"{}\" in quotes (a flag of php.ini is \"{}\")",
            value,
            u8::from(*value)
        )),
        _ => None,
    };
    faults.value(diagnostic, node);
}

fn integer(faults: &mut Faults<'_>, min: i64, max: i64, node: &TreeNode, place: &ConfigPath<'_>) {
    let message = match node.whole_number() {
        Some(number) if (min..=max).contains(&number) => return,
        Some(number) if number < min => format!("the number is smaller than {min}"),
        Some(_) => format!("the number is greater than {max}"),
        None => match &node.value {
            Value::Number(text)
                if text
                    .parse::<f64>()
                    .is_ok_and(|number| number.fract() != 0.0) =>
            {
                "the number is not whole".to_owned()
            }
            _ => "the number is out of range".to_owned(),
        },
    };
    let diagnostic =
        Diagnostic::new(place.pointer(), message).expect(ValueKind::Integer(min, max).words());
    faults.value(diagnostic, node);
}

/// A size with a unit, as text.
fn size(
    faults: &mut Faults<'_>,
    (min, max): (i64, i64),
    text: &str,
    node: &TreeNode,
    place: &ConfigPath<'_>,
) {
    let bytes = tutti_options::size::parse(text);
    let bytes = bytes.map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
    let diagnostic = match bytes {
        Some(bytes) if (min..=max).contains(&bytes) => return,
        Some(bytes) => {
            let message = if bytes < min {
                format!("the size is smaller than {min} bytes")
            } else {
                format!("the size is greater than {max} bytes")
            };
            Diagnostic::new(place.pointer(), message).expect(ValueKind::Size(min, max).words())
        }
        None => {
            let message = format!("`{}` is not a size", shorten(text));
            let hint = "write a number of bytes, or for example `\"512K\"`, `\"128M\"`, `\"1G\"`";
            Diagnostic::new(place.pointer(), message).suggest(hint)
        }
    };
    faults.value(diagnostic, node);
}

fn object(
    faults: &mut Faults<'_>,
    table: &'static Object,
    node: &TreeNode,
    place: &ConfigPath<'_>,
) {
    let members = node.members();
    // Collected once: an object may have a million members.
    let given = Given::of(table, members);
    for member in members {
        let place = place.name(&member.name);
        match table.option(&member.name) {
            None => unknown_option(faults, table, &given, member, &place),
            Some(option) => {
                let groups = StepGroups::of(faults.groups.as_ref(), table, option, node);
                let outer = std::mem::replace(&mut faults.groups, groups);
                known_option(faults, table, &given, option, member, &place);
                faults.groups = outer;
            }
        }
    }
    required(faults, table, &given, node, place);
    exclusive(faults, table, &given, node, place);
}

/// The options of an object that are present.
struct Given {
    options: Vec<&'static str>,
    /// Options that an unknown member probably means: faults that follow from their absence follow from the
    /// misspelling.
    misspelt: Vec<&'static str>,
}

impl Given {
    fn of(table: &Object, members: &[Member]) -> Given {
        let options: Vec<&str> = members
            .iter()
            .filter_map(|member| table.option(&member.name))
            .map(|option| option.name)
            .collect();
        let unknown = members
            .iter()
            .filter(|member| table.option(&member.name).is_none());
        // The first of a million unknown members are enough.
        let misspelt = unknown.take(MOST_FAULTS).flat_map(|member| {
            let names = table.all().map(|option| option.name);
            names.filter(|name| suggest::nearest(&member.name, [*name]).is_some())
        });
        Given {
            misspelt: misspelt.collect(),
            options,
        }
    }

    fn has(&self, name: &str) -> bool {
        self.options.contains(&name)
    }

    /// Present, or probably intended.
    fn has_any(&self, names: &[&str]) -> bool {
        let mut names = names.iter();
        names.any(|name| self.has(name) || self.misspelt.contains(name))
    }
}

fn known_option(
    faults: &mut Faults<'_>,
    table: &Object,
    given: &Given,
    option: &Opt,
    member: &Member,
    place: &ConfigPath<'_>,
) {
    kind(faults, &option.kind, &member.node, place);
    if !option.needs.is_empty() && !given.has_any(option.needs) {
        let message = format!(
            "`{}` has no effect without {}",
            option.name,
            alternatives(option.needs)
        );
        faults.name(Diagnostic::new(place.pointer(), message), member);
    }
    if option.is_ignored {
        let message = format!("`{}` of `{}` has no effect", option.name, table.name);
        let warning = Diagnostic::new(place.pointer(), message);
        faults.warn(
            warning.suggest(format!("remove it: {}", option.effect)),
            member,
        );
    }
    if let Some((value, risk)) = option.risk
        && is_json(&member.node, value)
    {
        let message = format!("`{}` is {value}: {risk}", option.name);
        faults.warn(Diagnostic::new(place.pointer(), message), member);
    }
}

/// True if a value equals `json`, which is `true`, `false` or a string.
fn is_json(node: &TreeNode, json: &str) -> bool {
    match &node.value {
        Value::Bool(value) => json == if *value { "true" } else { "false" },
        Value::String(text) => {
            json.strip_prefix('"')
                .and_then(|rest| rest.strip_suffix('"'))
                == Some(&**text)
        }
        _ => false,
    }
}

/// True if a member of `node` that `table` does not know probably means `name`.
pub(crate) fn is_misspelt(node: &TreeNode, table: &Object, name: &str) -> bool {
    Given::of(table, node.members()).misspelt.contains(&name)
}

fn unknown_option(
    faults: &mut Faults<'_>,
    table: &Object,
    given: &Given,
    member: &Member,
    place: &ConfigPath<'_>,
) {
    if let Some((message, hint)) = outer_level(table, &member.name) {
        let diagnostic = Diagnostic::new(place.pointer(), message);
        return faults.name(diagnostic.suggest(hint), member);
    }
    let message = format!("unknown option `{}`", shorten(&member.name));
    let mut diagnostic = Diagnostic::new(place.pointer(), message);
    if faults.is_full() {
        return faults.name(diagnostic, member);
    }
    let candidates = table
        .all()
        .filter(|option| !option.is_ignored)
        .map(|option| option.name)
        .filter(|name| !given.has(name));
    let meant = suggest::nearest(&member.name, candidates);
    diagnostic.suggestion = meant.map(|name| format!("did you mean `{name}`?"));
    diagnostic.unknown = Some(Unknown {
        meant: meant.map(str::to_owned),
    });
    if meant.is_none() {
        let names: Vec<String> = table
            .all()
            .filter(|option| !option.older && !option.is_ignored)
            .map(|option| format!("`{}`", option.name))
            .collect();
        diagnostic.expected = Some(format!("one of {}", names.join(", ")));
    }
    faults.name(diagnostic, member);
}

/// Returns the message and the hint for an option of `http` that exists only on an outer level.
fn outer_level(table: &Object, name: &str) -> Option<(String, &'static str)> {
    let is = |known: &'static Object| std::ptr::eq(table, known);
    let whose = match (is(&HTTP_ACTION), is(&HTTP_LISTENER)) {
        (true, _) => "an action",
        (_, true) => "a listener",
        _ => return None,
    };
    let message = |option: &Opt| format!("`{}` cannot be set for {whose}", option.name);
    if let Some(option) = HTTP_LISTENER.option(name) {
        let hint = "it applies before requests are routed: set it in `http` of the listener, or in `settings/http`";
        return Some((message(option), hint));
    }
    let option = HTTP.option(name)?;
    let hint = "it applies to the whole server: set it in `settings/http`";
    Some((message(option), hint))
}

fn required(
    faults: &mut Faults<'_>,
    table: &Object,
    given: &Given,
    node: &TreeNode,
    place: &ConfigPath<'_>,
) {
    // A misspelt one has been reported, with a suggestion.
    for option in table
        .all()
        .filter(|option| option.required && !given.has_any(&[option.name]))
    {
        let message = format!("the required option `{}` is missing", option.name);
        let mut diagnostic = Diagnostic::new(place.pointer(), message);
        diagnostic.expected = Some(option.kind.words());
        faults.value(diagnostic, node);
    }
}

fn exclusive(
    faults: &mut Faults<'_>,
    table: &Object,
    given: &Given,
    node: &TreeNode,
    place: &ConfigPath<'_>,
) {
    let mut chosen = node
        .members()
        .iter()
        .filter(|member| table.exactly_one.contains(&&*member.name));
    let Some(first) = chosen.next() else {
        // A misspelt one has been reported, with a suggestion.
        let is_needed = !table.exactly_one.is_empty() && !given.has_any(table.unless);
        if is_needed && !given.has_any(table.exactly_one) {
            let is_choice =
                |name| table.exactly_one.contains(&name) || table.unless.contains(&name);
            let named = table
                .all()
                .filter(|option| is_choice(option.name) && !option.older);
            let diagnostic = match named.collect::<Vec<_>>().as_slice() {
                [only] => {
                    let message = format!("the required option `{}` is missing", only.name);
                    Diagnostic::new(place.pointer(), message).expect(only.kind.words())
                }
                several => {
                    let names: Vec<&str> = several.iter().map(|option| option.name).collect();
                    let message = format!("one of the options {} is missing", alternatives(&names));
                    Diagnostic::new(place.pointer(), message)
                }
            };
            faults.value(diagnostic, node);
        }
        return;
    };
    for member in chosen {
        let message = format!("`{}` and `{}` exclude each other", first.name, member.name);
        let place = place.name(&member.name);
        faults.name(
            Diagnostic::new(place.pointer(), message).suggest("remove one of them"),
            member,
        );
    }
}

fn alternatives(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

/// The options of an application: those of its type, or the common ones if its type is unknown.
pub(crate) fn application_table(node: &TreeNode) -> &'static Object {
    let text = node.child("type").and_then(TreeNode::as_str);
    let known = text.and_then(ApplicationType::of);
    known.map_or(&COMMON, |(known, _)| known.object)
}

fn application(faults: &mut Faults<'_>, node: &TreeNode, place: &ConfigPath<'_>) {
    let Some(kind) = node.child("type") else {
        let misspelt = node
            .members()
            .iter()
            .find(|member| suggest::nearest(&member.name, ["type"]).is_some());
        if let Some(member) = misspelt {
            let (application_place, place) = (place, place.name(&member.name));
            let message = format!("unknown option `{}`", shorten(&member.name));
            let mut diagnostic = Diagnostic::new(place.pointer(), message);
            diagnostic.unknown = Some(Unknown {
                meant: Some("type".to_owned()),
            });
            faults.name(diagnostic.suggest("did you mean `type`?"), member);
            return common_options(faults, node, application_place);
        }
        let diagnostic = Diagnostic::new(place.pointer(), "the required option `type` is missing");
        faults.value(diagnostic.expect("a string, for example `\"php\"`"), node);
        return common_options(faults, node, place);
    };
    let type_place = place.name("type");
    let Some(text) = kind.as_str() else {
        wrong_type(faults, "a string", kind, &type_place);
        return common_options(faults, node, place);
    };
    let Some((known, _)) = ApplicationType::of(text) else {
        let word = text.split(' ').next().unwrap_or_default();
        let mut diagnostic = Diagnostic::new(
            type_place.pointer(),
            format!("there are no applications of type `{}`", shorten(word)),
        );
        let names = TYPES.iter().map(|known| known.name);
        diagnostic.suggestion = match suggest::nearest(word, names.clone()) {
            Some(name) => Some(format!("did you mean `{name}`?")),
            None if matches!(word, "nodejs" | "node.js") => {
                Some("Node.js applications are of type `node`".to_owned())
            }
            None if word == "golang" => Some("Go applications are of type `external`".to_owned()),
            None => None,
        };
        let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
        faults.value(
            diagnostic.expect(format!("one of {}", names.join(", "))),
            kind,
        );
        return common_options(faults, node, place);
    };
    object(faults, known.object, node, place);
}

/// Checks the common options of applications; for an unknown type, others cannot be checked.
fn common_options(faults: &mut Faults<'_>, node: &TreeNode, place: &ConfigPath<'_>) {
    for member in node.members() {
        let option = COMMON.all().find(|option| option.name == &*member.name);
        if let Some(option) = option.filter(|option| option.name != "type") {
            kind(
                faults,
                &option.kind,
                &member.node,
                &place.name(&member.name),
            );
        }
    }
}

fn string(
    faults: &mut Faults<'_>,
    text: &Text,
    value: &str,
    node: &TreeNode,
    place: &ConfigPath<'_>,
) {
    let checked = grammar::of_text(text, value);
    let checked = checked.and_then(|()| groups::check(faults.groups.as_deref(), text, value));
    let Err((message, hint)) = checked else {
        return;
    };
    let mut diagnostic = Diagnostic::new(place.pointer(), message);
    diagnostic.suggestion = hint;
    if matches!(text, Text::Word(_) | Text::AnyCase(_)) {
        diagnostic.expected = Some(text.words());
    }
    faults.value(diagnostic, node);
}

fn name(faults: &mut Faults<'_>, names: Names, member: &Member, place: &ConfigPath<'_>) {
    let value = &*member.name;
    if let Err((message, hint)) = grammar::of_name(names, value) {
        let mut diagnostic = Diagnostic::new(place.pointer(), message);
        diagnostic.suggestion = hint;
        diagnostic.value = Some(shorten(value));
        faults.name(diagnostic, member);
    }
}
