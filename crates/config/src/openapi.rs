//! The OpenAPI description of the control API: every path of the configuration from the option table, together with the
//! other paths of the control API, which it describes itself.
//!
//! The same options appear at many paths (actions of routes, of named routes, of error pages). Each has one path item
//! in `components`, and its paths are a `$ref` to it with their parameters; see decision 0550.

use serde_json::{Map, Value, json};

use crate::schema::{Definitions, reference};
use crate::table::{Object, ROOT, TYPES, ValueKind};

/// Returns the description, OpenAPI 3.1, with the paths that are not in the option table, and the schemas of responses
/// (`done`, `failure`).
pub fn openapi(mut paths: Map<String, Value>, answers: Map<String, Value>) -> Value {
    let mut walk = Walk {
        paths: Map::new(),
        items: Map::new(),
        parameters: Map::new(),
        definitions: Definitions::new(SCHEMAS),
        around: Vec::new(),
    };
    static WHOLE: ValueKind = ValueKind::Object(|| &ROOT);
    let schema = walk.schema_of(&ROOT);
    walk.place(&PathTemplate::new("/config"), &WHOLE, &schema);
    paths.append(&mut walk.paths);
    let mut schemas = walk.definitions.into_json();
    if let Value::Object(schemas) = &mut schemas {
        schemas.extend(answers);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Control API of Tutti",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Generated from the option table. At every path of the configuration GET reads, PUT replaces, POST appends to an array, PATCH merges into an object, DELETE removes (or empties, of the whole). Names in a path are percent-encoded one by one: `listeners/unix:%2Frun%2Fsite.sock`.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"}
        },
        "servers": [{"url": "http://localhost", "description": "The control socket: `curl --unix-socket`"}],
        "security": [{}, {"token": []}],
        "tags": [
            {"name": "configuration", "description": "What is served, and how"},
            {"name": "stored", "description": "Objects that the configuration refers to: certificates, script modules"},
            {"name": "history", "description": "The last changes"},
            {"name": "server", "description": "The running server"}
        ],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "pathItems": walk.items,
            "parameters": walk.parameters,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "If the server was started with `--control-token`"}
            },
            "requestBodies": {
                "patch": {
                    "description": "A merge patch (RFC 7386): members to change, and `null` for one to remove",
                    "required": true,
                    "content": {"application/merge-patch+json": {"schema": {"type": "object"}}}
                }
            },
            "responses": {
                "done": {
                    "description": "The change is in force and stored",
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/done"}}}
                },
                "failure": {
                    "description": "Nothing has changed. 400: the request body has faults; 401: no token, or a wrong one; 403: the caller is not allowed to; 404: no such path; 405: method not allowed; 409: it is in use; 412: a condition does not hold; 415: unsupported media type; 500: valid, but it cannot be applied now; 503: the router does not answer",
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/failure"}}}
                }
            }
        }
    })
}

/// Returns the description with each path item in place of a `$ref`. It is served like this because many tools ignore
/// the parameters next to a `$ref`, which OpenAPI 3.1 allows.
pub fn without_shared_paths(mut description: Value) -> Value {
    let components = description.get_mut("components");
    let items = components
        .and_then(Value::as_object_mut)
        .and_then(|components| components.remove("pathItems"))
        .unwrap_or_default();
    let paths = description.get_mut("paths").and_then(Value::as_object_mut);
    for path in paths.into_iter().flat_map(Map::values_mut) {
        let Value::Object(path) = path else { continue };
        let item = path
            .remove("$ref")
            .and_then(|reference| items.get(reference.as_str()?.strip_prefix(PATH_ITEMS)?));
        if let Some(Value::Object(item)) = item {
            path.extend(item.clone());
        }
    }
    description
}

/// The location of schemas.
const SCHEMAS: &str = "#/components/schemas/";

/// The location of shared path items.
const PATH_ITEMS: &str = "#/components/pathItems/";

/// A path and the names of its parameters.
#[derive(Clone)]
struct PathTemplate {
    path: String,
    parameters: Vec<String>,
}

impl PathTemplate {
    fn new(path: &str) -> PathTemplate {
        PathTemplate {
            path: path.to_owned(),
            parameters: Vec::new(),
        }
    }

    fn name(&self, name: &str) -> PathTemplate {
        PathTemplate {
            path: format!("{}/{name}", self.path),
            parameters: self.parameters.clone(),
        }
    }

    /// Adds a user-defined segment: a `name` or an `index`, made unique.
    fn parameter(&self, name: &str) -> PathTemplate {
        let mut unique = name.to_owned();
        let mut number = 1;
        while self.parameters.contains(&unique) {
            number += 1;
            unique = format!("{name}{number}");
        }
        let mut place = self.name(&format!("{{{unique}}}"));
        place.parameters.push(unique);
        place
    }
}

struct Walk {
    paths: Map<String, Value>,
    /// Path items, by the location of their values' schema.
    items: Map<String, Value>,
    parameters: Map<String, Value>,
    definitions: Definitions,
    /// The enclosing objects: an action has a fallback, which is an action.
    around: Vec<&'static str>,
}

impl Walk {
    /// Describes a path and those below it. `schema` is the location of its schema, which is written once, in that of
    /// its object.
    fn place(&mut self, place: &PathTemplate, kind: &'static ValueKind, schema: &str) {
        if !self.paths.contains_key(&place.path) {
            let name = schema
                .strip_prefix(SCHEMAS)
                .unwrap_or(schema)
                .replace('/', ".");
            let mut path = json!({"$ref": format!("{PATH_ITEMS}{name}")});
            if !place.parameters.is_empty() {
                path["parameters"] = place
                    .parameters
                    .iter()
                    .map(|one| self.parameter(one))
                    .collect();
            }
            self.items.entry(name).or_insert_with(|| item(kind, schema));
            self.paths.insert(place.path.clone(), path);
        }
        self.inside(place, kind, schema);
    }

    /// Returns a reference to the description of a parameter.
    fn parameter(&mut self, name: &str) -> Value {
        self.parameters.entry(name).or_insert_with(|| {
            let schema = if name.starts_with("index") {
                json!({"type": "integer", "minimum": 0})
            } else {
                json!({"type": "string", "minLength": 1})
            };
            json!({"name": name, "in": "path", "required": true, "schema": schema})
        });
        json!({"$ref": format!("#/components/parameters/{name}")})
    }

    fn inside(&mut self, place: &PathTemplate, kind: &'static ValueKind, schema: &str) {
        match kind {
            ValueKind::Object(table) => self.options(place, table()),
            ValueKind::Application => {
                for known in TYPES {
                    self.options(place, known.object);
                }
            }
            // Single strings of a list have paths too, but need no description.
            ValueKind::Array(element) if !matches!(element, ValueKind::String(_)) => {
                let place = place.parameter("index");
                self.place(&place, element, &format!("{schema}/items"));
            }
            ValueKind::Map(_, values) => {
                let place = place.parameter("name");
                let schema = format!("{schema}/additionalProperties");
                self.place(&place, values, &schema);
            }
            ValueKind::OneOf(kinds) => {
                for (index, kind) in kinds.iter().enumerate() {
                    self.inside(place, kind, &format!("{schema}/anyOf/{index}"));
                }
            }
            _ => {}
        }
    }

    fn options(&mut self, place: &PathTemplate, table: &'static Object) {
        if self.around.contains(&table.name) {
            return;
        }
        self.around.push(table.name);
        let object = self.schema_of(table);
        for option in table.all().filter(|option| option.name != "$schema") {
            let schema = format!("{object}/properties/{}", option.name);
            self.place(&place.name(option.name), &option.kind, &schema);
        }
        self.around.pop();
    }

    fn schema_of(&mut self, table: &'static Object) -> String {
        let reference = reference(table, &mut self.definitions);
        reference["$ref"].as_str().unwrap_or_default().to_owned()
    }
}

/// True if a value of this kind can be an object.
fn has_members(kind: &ValueKind) -> bool {
    match kind {
        ValueKind::Object(_) | ValueKind::Map(..) | ValueKind::Application | ValueKind::Json => {
            true
        }
        ValueKind::OneOf(kinds) => kinds.iter().any(has_members),
        _ => false,
    }
}

/// Returns the location of the schema of an element.
fn element_schema(kind: &ValueKind, schema: &str) -> Option<String> {
    match kind {
        ValueKind::Array(_) => Some(format!("{schema}/items")),
        ValueKind::OneOf(kinds) => kinds
            .iter()
            .enumerate()
            .find_map(|(index, kind)| element_schema(kind, &format!("{schema}/anyOf/{index}"))),
        _ => None,
    }
}

fn item(kind: &ValueKind, schema: &str) -> Value {
    let body = |schema: &str| json!({"required": true, "content": {"application/json": {"schema": {"$ref": schema}}}});
    let with_body = |body: Value| {
        let mut operation = change();
        operation["requestBody"] = body;
        operation
    };
    let mut item = Map::new();
    let mut get = change();
    get["responses"]["200"] = json!({
        "description": "The value",
        "content": {"application/json": {"schema": {"$ref": schema}}}
    });
    item.insert("get".to_owned(), get);
    item.insert("put".to_owned(), with_body(body(schema)));
    if let Some(element) = element_schema(kind, schema) {
        item.insert("post".to_owned(), with_body(body(&element)));
    }
    if has_members(kind) {
        let patch = json!({"$ref": "#/components/requestBodies/patch"});
        item.insert("patch".to_owned(), with_body(patch));
    }
    item.insert("delete".to_owned(), change());
    Value::Object(item)
}

fn change() -> Value {
    json!({
        "tags": ["configuration"],
        "responses": {
            "200": {"$ref": "#/components/responses/done"},
            "default": {"$ref": "#/components/responses/failure"}
        }
    })
}
