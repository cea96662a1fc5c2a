//! The OpenAPI description of the control API: every place of the configuration from the option table, around the paths that
//! the control API has beside it and describes itself.
//!
//! The same options stand at many places (actions of routes, of named routes, of pages for errors). Each has one path item in
//! `components`, and its places are a `$ref` to that with the parameters of their paths; see decision 0550.

use serde_json::{Map, Value, json};

use crate::schema::{Definitions, reference};
use crate::table::{Object, ROOT, TYPES, ValueKind};

/// The description, OpenAPI 3.1, with the paths that are not in the option table, and the schemas of answers (`done`, `failure`).
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
            "description": "Made from the option table. At every place of the configuration GET reads, PUT replaces, POST appends to an array, PATCH merges into an object, DELETE removes (or empties, of the whole). Names in a path are percent-encoded one by one: `listeners/unix:%2Frun%2Fsite.sock`.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"}
        },
        "servers": [{"url": "http://localhost", "description": "The control socket: `curl --unix-socket`"}],
        "security": [{}, {"token": []}],
        "tags": [
            {"name": "configuration", "description": "What is served, and how"},
            {"name": "stored", "description": "What the configuration names: certificates, script modules"},
            {"name": "history", "description": "The last changes"},
            {"name": "server", "description": "The running server"}
        ],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "pathItems": walk.items,
            "parameters": walk.parameters,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "Of a server that was started with `--control-token`"}
            },
            "requestBodies": {
                "patch": {
                    "description": "A merge patch (RFC 7386): it has fewer members than the value, and `null` where one is removed",
                    "required": true,
                    "content": {"application/merge-patch+json": {"schema": {"type": "object"}}}
                }
            },
            "responses": {
                "done": {
                    "description": "The change is in force, and stored",
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/done"}}}
                },
                "failure": {
                    "description": "Nothing has changed. 400: faults in what was sent; 401: no token, or another; 403: whoever asks may not; 404: no such place; 405: not that method; 409: it is in use; 412: a condition does not hold; 415: another media type; 500: valid, but it cannot be applied here and now; 503: the router does not answer",
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/failure"}}}
                }
            }
        }
    })
}

/// The description with each path's own item in place of a `$ref`. That is how it is served: many tools do not read the parameters that
/// stand beside a `$ref`, though OpenAPI 3.1 allows them there.
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

/// Where schemas are.
const SCHEMAS: &str = "#/components/schemas/";

/// Where items are that several paths share.
const PATH_ITEMS: &str = "#/components/pathItems/";

/// A path and the names of the parameters in it.
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

    /// A segment of the client's choice: a `name` or an `index`, made unique.
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
    /// Path items, by the place of their values' schema.
    items: Map<String, Value>,
    parameters: Map<String, Value>,
    definitions: Definitions,
    /// The objects that the current one is in: an action has a fallback, which is an action.
    around: Vec<&'static str>,
}

impl Walk {
    /// Describes a place and those inside it. `schema` is where its schema is: each is written down once, in that of its object.
    fn place(&mut self, place: &PathTemplate, kind: &'static ValueKind, schema: &str) {
        if !self.paths.contains_key(&place.path) {
            let name = schema
                .strip_prefix(SCHEMAS)
                .unwrap_or(schema)
                .replace('/', ".");
            let mut path = json!({"$ref": format!("{PATH_ITEMS}{name}")});
            if !place.parameters.is_empty() {
                path["parameters"] = place.parameters.iter().map(|one| self.told(one)).collect();
            }
            self.items.entry(name).or_insert_with(|| item(kind, schema));
            self.paths.insert(place.path.clone(), path);
        }
        self.inside(place, kind, schema);
    }

    /// A reference to the description of a parameter.
    fn told(&mut self, name: &str) -> Value {
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
            // Single strings of a list are reached too, but nobody needs a page about them.
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
        ValueKind::Object(_) | ValueKind::Map(..) | ValueKind::Application => true,
        ValueKind::OneOf(kinds) => kinds.iter().any(has_members),
        _ => false,
    }
}

/// Where the schema of an element is.
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
