//! The JSON Schema of the configuration, from the option table.
//!
//! Called by `cargo xtask` (which writes `spec/config.schema.json`) and by the control API. Editors use it for
//! completion and checks; it is less strict than validation, which checks more than a schema can express.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::table::{ApplicationType, Names, Object, ROOT, TYPES, Text, ValueKind};

/// The schema, in the dialect of 2020-12.
pub fn schema() -> Value {
    let mut definitions = Definitions::new("#/$defs/");
    let root = reference(&ROOT, &mut definitions);
    let mut schema = Map::new();
    schema.insert(
        "$schema".to_owned(),
        "https://json-schema.org/draft/2020-12/schema".into(),
    );
    schema.insert("title".to_owned(), "Configuration of Tutti".into());
    schema.insert(
        "$ref".to_owned(),
        root.get("$ref").cloned().unwrap_or_default(),
    );
    schema.insert("$defs".to_owned(), definitions.into_json());
    Value::Object(schema)
}

/// The definitions of objects, created when they are first referred to.
pub(crate) struct Definitions {
    /// The prefix of every reference.
    prefix: &'static str,
    made: BTreeMap<String, Value>,
}

impl Definitions {
    pub(crate) fn new(prefix: &'static str) -> Self {
        Definitions {
            prefix,
            made: BTreeMap::new(),
        }
    }

    pub(crate) fn into_json(self) -> Value {
        Value::Object(self.made.into_iter().collect())
    }
}

/// Returns a reference to the definition of an object, and creates it if needed.
pub(crate) fn reference(table: &'static Object, definitions: &mut Definitions) -> Value {
    // OpenAPI 3.1 allows no spaces in names of components.
    let name = table.name.replace(' ', "-");
    if !definitions.made.contains_key(&name) {
        // Entered first: an action has a fallback, which is an action.
        definitions.made.insert(name.clone(), Value::Null);
        let definition = object(table, definitions);
        definitions.made.insert(name.clone(), definition);
    }
    json!({"$ref": format!("{}{name}", definitions.prefix)})
}

fn object(table: &'static Object, definitions: &mut Definitions) -> Value {
    let mut properties = Map::new();
    for option in table.all() {
        let mut property = kind(&option.kind, definitions);
        if let Value::Object(property) = &mut property {
            let mut effect = option.effect.to_owned();
            if !option.unit.is_empty() {
                effect = format!("{effect} ({})", option.unit);
            }
            property.insert("description".to_owned(), effect.into());
            if let Ok(default) = serde_json::from_str::<Value>(option.default)
                && !table.inherits
            {
                property.insert("default".to_owned(), default);
            }
        }
        properties.insert(option.name.to_owned(), property);
    }
    let mut schema = json!({
        "type": "object",
        "description": table.summary,
        "additionalProperties": false,
        "properties": properties,
    });
    let required: Vec<&str> = table
        .all()
        .filter(|option| option.required)
        .map(|option| option.name)
        .collect();
    let dependent: Map<String, Value> = table
        .all()
        .filter(|option| !option.needs.is_empty())
        .map(|option| {
            // One of them suffices.
            let choices: Vec<Value> = option
                .needs
                .iter()
                .map(|name| json!({"required": [name]}))
                .collect();
            (option.name.to_owned(), json!({"anyOf": choices}))
        })
        .collect();
    if let Value::Object(schema) = &mut schema {
        if !required.is_empty() {
            schema.insert("required".to_owned(), json!(required));
        }
        if !dependent.is_empty() {
            schema.insert("dependentSchemas".to_owned(), Value::Object(dependent));
        }
        if !table.exactly_one.is_empty() {
            let required = |name: &&str| json!({"required": [name]});
            let mut choices: Vec<Value> = table.exactly_one.iter().map(required).collect();
            if !table.unless.is_empty() {
                let others: Vec<Value> = table.exactly_one.iter().map(required).collect();
                let instead: Vec<Value> = table.unless.iter().map(required).collect();
                choices.push(json!({"anyOf": instead, "not": {"anyOf": others}}));
            }
            schema.insert("oneOf".to_owned(), Value::Array(choices));
        }
    }
    schema
}

/// The schema of a value.
fn kind(kind: &ValueKind, definitions: &mut Definitions) -> Value {
    match kind {
        ValueKind::Boolean => json!({"type": "boolean"}),
        ValueKind::Integer(min, i64::MAX) => json!({"type": "integer", "minimum": min}),
        ValueKind::Integer(min, max) => json!({"type": "integer", "minimum": min, "maximum": max}),
        ValueKind::Size(min, max) => {
            let unit = "^[0-9]+ *([KMGkmg]([Ii]?[Bb])?|[Bb])?$";
            json!({"anyOf": [self::kind(&ValueKind::Integer(*min, *max), definitions), {"type": "string", "pattern": unit}]})
        }
        ValueKind::Number(min, max) => json!({"type": "number", "minimum": min, "maximum": max}),
        ValueKind::String(text) => string(text),
        ValueKind::Null => json!({"type": "null"}),
        ValueKind::Array(element) => {
            json!({"type": "array", "items": self::kind(element, definitions)})
        }
        ValueKind::OneOf(kinds) => {
            let kinds: Vec<Value> = kinds
                .iter()
                .map(|kind| self::kind(kind, definitions))
                .collect();
            json!({"anyOf": kinds})
        }
        ValueKind::Object(table) => reference(table(), definitions),
        ValueKind::Map(names, values) => {
            let mut map =
                json!({"type": "object", "additionalProperties": self::kind(values, definitions)});
            if let (Value::Object(map), Some(pattern)) = (&mut map, name_pattern(*names)) {
                map.insert("propertyNames".to_owned(), json!({"pattern": pattern}));
            }
            map
        }
        ValueKind::Application => application(definitions),
        ValueKind::Json => json!({}),
    }
}

fn string(text: &Text) -> Value {
    match text {
        Text::Any
        | Text::Argument
        | Text::TemplateOrEmpty
        | Text::FieldTemplate
        | Text::MapValue
        | Text::Condition
        | Text::Pattern(_) => {
            json!({"type": "string"})
        }
        Text::Word(words) => json!({"type": "string", "enum": words}),
        Text::AnyCase(words) => {
            let any_case = |word: &&str| -> String {
                let letters = word.chars();
                letters
                    .map(|letter| format!("[{letter}{}]", letter.to_ascii_uppercase()))
                    .collect()
            };
            let words: Vec<String> = words.iter().map(any_case).collect();
            json!({"type": "string", "pattern": format!("^({})$", words.join("|"))})
        }
        Text::Module => {
            let versions = |known: &ApplicationType| {
                if known.versions {
                    "( [^ ]+|[0-9][^ ]*)?"
                } else {
                    ""
                }
            };
            let types = TYPES.iter().map(|known| names(known) + versions(known));
            json!({"type": "string", "pattern": format!("^({})$", types.collect::<Vec<_>>().join("|"))})
        }
        Text::PathOrEmpty => json!({"type": "string"}),
        _ => json!({"type": "string", "minLength": 1}),
    }
}

/// A pattern of the names of a type.
fn names(known: &ApplicationType) -> String {
    match known.older_name {
        Some(older) => format!("({}|{older})", known.name),
        None => known.name.to_owned(),
    }
}

fn name_pattern(names: Names) -> Option<&'static str> {
    match names {
        Names::Any => None,
        Names::Listener => Some(r"^(unix:.+|(udp:)?(\*|[0-9.]+|\[[0-9A-Fa-f:.]+\]):[0-9]+)$"),
        Names::NotEmpty | Names::Argument => Some("."),
        Names::Server => Some(
            r"^(unix:.+|([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?|[A-Za-z0-9_.-]+=[A-Za-z0-9_.-]+)$",
        ),
        Names::HeaderName | Names::ResponseHeader | Names::RequestHeader => {
            Some("^[-!#$%&'*+.^_`|~0-9A-Za-z]+$")
        }
        Names::Environment => Some("^[^=]+$"),
        Names::MimeType => Some("^[^/]+/.+$"),
        Names::ErrorStatus => Some("^[45]([0-9][0-9]|xx)$"),
        Names::Path => Some("^/"),
        Names::Variable => Some("^[0-9A-Za-z_]+$"),
        Names::Addresses => Some("^[0-9A-Fa-f.:/-]+$"),
    }
}

/// The options depend on the first word of `type`: nested conditions, because tools that generate values from a schema
/// multiply parallel ones.
fn application(definitions: &mut Definitions) -> Value {
    let mut schema = json!({});
    for known in TYPES.iter().rev() {
        let end = if known.versions { "([ 0-9]|$)" } else { "$" };
        let pattern = format!("^{}{end}", names(known));
        schema = json!({
            "if": {"properties": {"type": {"pattern": pattern}}, "required": ["type"]},
            "then": reference(known.object, definitions),
            "else": schema,
        });
    }
    let types = json!({"type": {"type": "string"}});
    json!({"type": "object", "required": ["type"], "properties": types, "allOf": [schema]})
}
